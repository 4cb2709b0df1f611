//! A Lua table: an array part and a chained scatter table with Brent's variation, laid out as in Lua 5.1, so that `next` returns keys in
//! the same order and `#` finds the same border. It touches nothing.
//!
//! A table has no budget of its own: a caller that adds to it reads [`Table::bytes`] before and after, and charges the difference.

use crate::value::{StrId, TableId, Value};

/// One slot of the scatter table. `hash`: of the key, so that its main position can be found again.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    key: Value,
    value: Value,
    /// The next node of the chain, plus one; 0 ends it.
    next: u32,
    hash: u32,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    /// Empty, or a power of two of them.
    nodes: Vec<Node>,
    /// All nodes from this one on are in use.
    last_free: u32,
    pub(crate) meta: Option<TableId>,
    /// Bit n: the metamethod n is known to be absent from this table, if it is a metatable.
    pub(crate) absent: u8,
    /// It is read-only for scripts.
    pub(crate) read_only: bool,
    /// It is of the base, and its original is saved for the next run.
    pub(crate) saved: bool,
    /// It was freed.
    pub(crate) is_free: bool,
}

/// Bits of the largest array part.
const ARRAY_BITS_MAX: usize = 26;

/// The hash of a key that is no string.
fn hash_of(key: Value) -> u32 {
    match key {
        Value::Num(number) => {
            let bits = (number + 0.0).to_bits();
            (bits as u32).wrapping_add((bits >> 32) as u32)
        }
        Value::Bool(yes) => u32::from(yes),
        Value::Table(id) => id.0,
        Value::Func(id) => id.0,
        Value::Native(id) => id.0,
        Value::Thread(id) => id.0,
        Value::Str(_) | Value::Nil | Value::Null => 0,
    }
}

/// A number as the index of an array part: 1 or more.
#[inline]
fn array_index(number: f64) -> Option<usize> {
    let index = number as u32;
    (f64::from(index) == number && index > 0).then_some(index as usize)
}

/// The smallest n such that 2^n is at least `size`.
fn ceil_log2(size: usize) -> u32 {
    size.max(1).next_power_of_two().trailing_zeros()
}

impl Table {
    /// The placeholder of a freed table.
    pub(crate) fn free() -> Table {
        Table { is_free: true, ..Table::default() }
    }

    /// A table with this capacity.
    pub(crate) fn with_room(array: usize, nodes: usize) -> Table {
        let mut table = Table { array: vec![Value::Nil; array], ..Table::default() };
        table.set_nodes(nodes);
        table
    }

    /// The size of the slots of a table with this capacity.
    pub(crate) fn bytes_of(array: usize, nodes: usize) -> usize {
        let nodes = if nodes == 0 { 0 } else { nodes.next_power_of_two() };
        array * size_of::<Value>() + nodes * size_of::<Node>()
    }

    /// The size of its slots.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.array.capacity() * size_of::<Value>() + self.nodes.capacity() * size_of::<Node>()
    }

    /// The largest size of its slots after one more key is added, whatever the key.
    pub(crate) fn bytes_after_growth(&self) -> usize {
        let (slots, nodes) = (self.array.len() + self.nodes.len() + 1, self.nodes.len() + 1);
        slots.next_power_of_two() * size_of::<Value>() + nodes.next_power_of_two() * size_of::<Node>()
    }

    /// Whether a key that does not exist makes it grow when it is added. `hash`: of a string.
    #[inline]
    pub(crate) fn grows_with(&mut self, key: Value, hash: u32) -> bool {
        if self.nodes.is_empty() {
            return true;
        }
        let (key, hash) = normal(key, hash);
        let at = self.main_position(key, hash);
        !self.nodes[at].value.is_nil() && !self.has_free_position()
    }

    fn set_nodes(&mut self, size: usize) {
        self.nodes = if size == 0 { Vec::new() } else { vec![Node::default(); size.next_power_of_two()] };
        self.last_free = self.nodes.len() as u32;
    }

    /// Where the chain of a key begins.
    #[inline]
    fn main_position(&self, key: Value, hash: u32) -> usize {
        let size = self.nodes.len();
        match key {
            Value::Str(_) | Value::Bool(_) => hash as usize & (size - 1),
            Value::Num(0.0) => 0,
            _ => hash as usize % ((size - 1) | 1),
        }
    }

    #[inline]
    fn find(&self, key: Value, hash: u32) -> Option<usize> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut at = self.main_position(key, hash);
        loop {
            let node = &self.nodes[at];
            if node.key == key {
                return Some(at);
            }
            if node.next == 0 {
                return None;
            }
            at = node.next as usize - 1;
        }
    }

    /// The value of a string, of which the hash is known.
    #[inline]
    pub(crate) fn get_str(&self, key: StrId, hash: u32) -> Value {
        if self.nodes.is_empty() {
            return Value::Nil;
        }
        let mut at = hash as usize & (self.nodes.len() - 1);
        loop {
            let node = &self.nodes[at];
            if let Value::Str(id) = node.key
                && id == key
            {
                return node.value;
            }
            if node.next == 0 {
                return Value::Nil;
            }
            at = node.next as usize - 1;
        }
    }

    /// The value of a number.
    #[inline]
    pub(crate) fn get_num(&self, number: f64) -> Value {
        if let Some(index) = array_index(number)
            && index <= self.array.len()
        {
            return self.array[index - 1];
        }
        let key = Value::Num(number);
        self.find(key, hash_of(key)).map_or(Value::Nil, |at| self.nodes[at].value)
    }

    /// The value of a key. `hash`: of a string; of another key it does not matter.
    #[inline]
    pub(crate) fn get(&self, key: Value, hash: u32) -> Value {
        match key {
            Value::Str(id) => self.get_str(id, hash),
            Value::Num(number) => self.get_num(number),
            Value::Nil => Value::Nil,
            _ => self.find(key, hash_of(key)).map_or(Value::Nil, |at| self.nodes[at].value),
        }
    }

    /// The position of an existing key's value.
    #[inline]
    fn slot(&mut self, key: Value, hash: u32) -> Option<&mut Value> {
        if let Value::Num(number) = key {
            if let Some(index) = array_index(number)
                && index <= self.array.len()
            {
                return self.array.get_mut(index - 1);
            }
            let at = self.find(key, hash_of(key))?;
            return Some(&mut self.nodes[at].value);
        }
        // A node that is free has nil for a key.
        if key.is_nil() {
            return None;
        }
        let hash = if let Value::Str(_) = key { hash } else { hash_of(key) };
        let at = self.find(key, hash)?;
        Some(&mut self.nodes[at].value)
    }

    /// Sets the value of an existing key. Returns whether it exists.
    #[inline]
    pub(crate) fn replace(&mut self, key: Value, hash: u32, value: Value) -> bool {
        match self.slot(key, hash) {
            Some(slot) => {
                *slot = value;
                true
            }
            None => false,
        }
    }

    /// Sets a key, which is neither nil nor NaN. `hash`: of a string.
    pub(crate) fn set(&mut self, key: Value, hash: u32, value: Value) {
        if !self.replace(key, hash, value) && !value.is_nil() {
            self.insert(key, hash, value);
        }
    }

    /// Adds a key that does not exist.
    fn insert(&mut self, key: Value, hash: u32, value: Value) {
        let (key, hash) = normal(key, hash);
        if self.grows_with(key, hash) {
            return self.grow(key, hash, value);
        }
        let mut at = self.main_position(key, hash);
        if !self.nodes[at].value.is_nil() {
            let Some(free) = self.free_position() else {
                return self.grow(key, hash, value);
            };
            let other = self.nodes[at];
            let mut before = self.main_position(other.key, other.hash);
            if before == at {
                self.nodes[free].next = other.next;
                self.nodes[at].next = free as u32 + 1;
                at = free;
            } else {
                // The colliding node is not in its main position: it moves.
                while self.nodes[before].next as usize != at + 1 {
                    before = self.nodes[before].next as usize - 1;
                }
                self.nodes[before].next = free as u32 + 1;
                self.nodes[free] = other;
                self.nodes[at].next = 0;
            }
        }
        let node = &mut self.nodes[at];
        (node.key, node.hash, node.value) = (key, hash, value);
    }

    /// Skips nodes that were used, as no key leaves its node before the next rehash.
    fn has_free_position(&mut self) -> bool {
        while self.last_free > 0 && !self.nodes[self.last_free as usize - 1].key.is_nil() {
            self.last_free -= 1;
        }
        self.last_free > 0
    }

    fn free_position(&mut self) -> Option<usize> {
        self.has_free_position().then(|| {
            self.last_free -= 1;
            self.last_free as usize
        })
    }

    /// Computes the sizes for the existing keys and one more, rehashes, and adds it.
    fn grow(&mut self, key: Value, hash: u32, value: Value) {
        // counts[n]: keys from 2^(n-1)+1 to 2^n.
        let mut counts = [0_usize; ARRAY_BITS_MAX + 1];
        let (mut integers, mut total) = (0, 1);
        let mut count = |key: Value| {
            if let Value::Num(number) = key
                && let Some(index) = array_index(number)
                && index <= 1 << ARRAY_BITS_MAX
            {
                counts[ceil_log2(index) as usize] += 1;
                integers += 1;
            }
        };
        for (i, value) in self.array.iter().enumerate() {
            if !value.is_nil() {
                total += 1;
                count(Value::Num((i + 1) as f64));
            }
        }
        for node in &self.nodes {
            if !node.value.is_nil() {
                total += 1;
                count(node.key);
            }
        }
        count(key);
        let (array, kept) = array_size(&counts, integers);
        self.resize(array, total - kept);
        self.set(key, hash, value);
    }

    /// Resizes both parts and reinserts all keys.
    pub(crate) fn resize(&mut self, array: usize, nodes: usize) {
        let old_nodes = std::mem::take(&mut self.nodes);
        let tail = if array < self.array.len() { self.array.split_off(array) } else { Vec::new() };
        if array > self.array.len() {
            self.array.reserve_exact(array - self.array.len());
            self.array.resize(array, Value::Nil);
        }
        self.set_nodes(nodes);
        for (i, value) in tail.into_iter().enumerate() {
            if !value.is_nil() {
                self.set(Value::Num((array + i + 1) as f64), 0, value);
            }
        }
        for node in old_nodes.iter().rev() {
            if !node.value.is_nil() {
                self.set(node.key, node.hash, node.value);
            }
        }
    }

    /// Makes the array part at least so long.
    pub(crate) fn reserve_array(&mut self, len: usize) {
        if len > self.array.len() {
            self.resize(len, self.nodes.len());
        }
    }

    /// The slots of the array part.
    #[inline]
    pub(crate) fn array(&self) -> &[Value] {
        &self.array
    }

    /// All keys and values of the scatter table, for the collector.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (Value, Value)> + '_ {
        self.nodes.iter().filter(|node| !node.value.is_nil()).map(|node| (node.key, node.value))
    }

    /// A border: `t[n]` is not nil and `t[n+1]` is. Also returns how much work it was to find.
    pub(crate) fn border(&self) -> (usize, usize) {
        let mut high = self.array.len();
        if high > 0 && self.array[high - 1].is_nil() {
            let mut low = 0;
            while high - low > 1 {
                let middle = usize::midpoint(low, high);
                if self.array[middle - 1].is_nil() { high = middle } else { low = middle }
            }
            return (low, 1);
        }
        if self.nodes.is_empty() { (high, 1) } else { self.border_beyond(high) }
    }

    fn border_beyond(&self, mut low: usize) -> (usize, usize) {
        let is_there = |at: usize| !self.get_num(at as f64).is_nil();
        let mut high = low + 1;
        while is_there(high) {
            low = high;
            high *= 2;
            if high > i32::MAX as usize {
                // A table that was constructed for this: linear search.
                let border = (1..).find(|at| !is_there(*at)).unwrap_or(1) - 1;
                return (border, border);
            }
        }
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if is_there(middle) { low = middle } else { high = middle }
        }
        (low, 8)
    }

    /// The entry after a key, and how many slots were visited; `None` if there is no such key. A key of nil begins, and is returned at
    /// the end.
    pub(crate) fn next(&self, key: Value, hash: u32) -> Option<(Value, Value, usize)> {
        let mut at = match key {
            Value::Nil => 0,
            Value::Num(number) if array_index(number).is_some_and(|index| index <= self.array.len()) => {
                number as usize
            }
            _ => {
                let hash = if let Value::Str(_) = key { hash } else { hash_of(key) };
                self.find(key, hash)? + self.array.len() + 1
            }
        };
        let begin = at;
        while at < self.array.len() {
            if !self.array[at].is_nil() {
                return Some((Value::Num((at + 1) as f64), self.array[at], at - begin));
            }
            at += 1;
        }
        let rest = &self.nodes[at - self.array.len()..];
        let found = rest.iter().position(|node| !node.value.is_nil());
        let looked = at - begin + found.unwrap_or(rest.len());
        let (key, value) = found.map_or((Value::Nil, Value::Nil), |at| (rest[at].key, rest[at].value));
        Some((key, value, looked))
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.array.len() + self.nodes.len()
    }
}

/// The largest array part that is more than half full, and how many of the keys it holds.
fn array_size(counts: &[usize], integers: usize) -> (usize, usize) {
    let (mut size, mut kept, mut sum) = (0, 0, 0);
    for (bits, count) in counts.iter().enumerate() {
        let capacity = 1_usize << bits;
        if capacity / 2 >= integers {
            break;
        }
        sum += count;
        if *count > 0 && sum > capacity / 2 {
            (size, kept) = (capacity, sum);
        }
        if sum == integers {
            break;
        }
    }
    (size, kept)
}

/// A key as it is stored, and its hash. Lua has one zero.
#[inline]
fn normal(key: Value, hash: u32) -> (Value, u32) {
    let key = if let Value::Num(number) = key { Value::Num(number + 0.0) } else { key };
    (key, if let Value::Str(_) = key { hash } else { hash_of(key) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_grows_by_appending() {
        let mut table = Table::default();
        for i in 1..=1000 {
            table.set(Value::Num(f64::from(i)), 0, Value::Num(f64::from(i)));
            assert_eq!(table.border().0, i as usize);
        }
        assert_eq!((table.array.len(), table.nodes.len()), (1024, 0));
        assert_eq!(table.get_num(777.0), Value::Num(777.0));
    }

    #[test]
    fn next_goes_through_every_key_once() {
        let mut table = Table::default();
        for i in 0..300 {
            table.set(Value::Num(f64::from(i) * 0.5), 0, Value::Bool(true));
        }
        for i in 0..100 {
            table.set(Value::Num(f64::from(i)), 0, Value::Nil);
        }
        let (mut key, mut count) = (Value::Nil, 0);
        while let Some((next, ..)) = table.next(key, 0)
            && !next.is_nil()
        {
            (key, count) = (next, count + 1);
        }
        assert_eq!(count, 200);
        assert!(table.next(Value::Num(1e9), 0).is_none());
    }
}
