//! `table`. It touches nothing outside of the machine.

use super::Row;
use crate::error::Result;
use crate::number;
use crate::value::{TableId, Value};
use crate::vm::{Args, Host, Vm};

pub(super) const ROWS: &[Row] = &[
    ("concat", concat),
    ("foreach", foreach),
    ("foreachi", foreachi),
    ("getn", getn),
    ("insert", insert),
    ("maxn", maxn),
    ("remove", remove),
    ("setn", setn),
    ("sort", sort),
];

fn get(vm: &Vm, table: TableId, at: i64) -> Value {
    vm.heap.get_table(table).get_num(at as f64)
}

fn put(vm: &mut Vm, table: TableId, at: i64, value: Value) -> Result<()> {
    vm.heap.raw_set(table, Value::Num(at as f64), value)
}

fn concat(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let separator = if vm.arg(args, 1).is_nil() { None } else { Some(vm.check_str(args, 1)?) };
    let table = vm.check_table(args, 0)?;
    let first = vm.opt_int(args, 2, 1)? as i32;
    let last =
        if vm.arg(args, 3).is_nil() { vm.raw_len(table) as i32 } else { vm.check_int(args, 3)? as i32 };
    let mut result = Vec::new();
    for i in first..=last {
        match get(vm, table, i64::from(i)) {
            Value::Str(id) => {
                let len = vm.bytes(id).len();
                vm.check_room(result.len() + len)?;
                vm.work(host, 1 + len / 16)?;
                result.extend_from_slice(vm.bytes(id));
            }
            Value::Num(number) => {
                vm.work(host, 10)?;
                result.extend_from_slice(number::format(number).as_bytes());
            }
            other => {
                let kind = other.type_name();
                return Err(vm.error(format!("invalid value ({kind}) at index {i} in table for 'concat'")));
            }
        }
        if let Some(separator) = separator
            && i != last
        {
            vm.check_room(result.len() + vm.bytes(separator).len())?;
            result.extend_from_slice(vm.bytes(separator));
        }
    }
    vm.check_room(result.len())?;
    let text = vm.string_owned(result)?;
    vm.one(text)
}

fn foreach(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let function = check_function(vm, args, 1)?;
    let mut key = Value::Nil;
    loop {
        vm.work(host, 10)?;
        let Some((next, value)) = vm.raw_next(table, key) else {
            return Err(vm.fault("invalid key to 'next'"));
        };
        if next.is_nil() {
            return Ok(0);
        }
        let result = vm.call_for_one(host, function, &[next, value])?;
        if !result.is_nil() {
            return vm.one(result);
        }
        key = next;
    }
}

fn foreachi(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let function = check_function(vm, args, 1)?;
    for i in 1..=vm.raw_len(table) as i64 {
        vm.work(host, 10)?;
        let value = get(vm, table, i);
        let result = vm.call_for_one(host, function, &[Value::Num(i as f64), value])?;
        if !result.is_nil() {
            return vm.one(result);
        }
    }
    Ok(0)
}

fn check_function(vm: &mut Vm, args: Args, at: usize) -> Result<Value> {
    match vm.arg(args, at) {
        function @ (Value::Func(_) | Value::Native(_)) => Ok(function),
        _ => Err(vm.bad_type(args, at, "function")),
    }
}

fn getn(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let len = vm.raw_len(table);
    vm.one(len as f64)
}

fn setn(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    vm.check_table(args, 0)?;
    Err(vm.error("'setn' is obsolete"))
}

fn maxn(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    vm.work(host, vm.heap.get_table(table).slots())?;
    let inner = vm.heap.get_table(table);
    let filled = inner.array().iter().rposition(|value| !value.is_nil()).map_or(0, |at| at + 1) as f64;
    let max = inner.pairs().fold(filled, |max, (key, _)| match key {
        Value::Num(number) if number > max => number,
        _ => max,
    });
    vm.one(max)
}

fn insert(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let mut end = vm.raw_len(table) as i64 + 1;
    let at = match args.len() {
        2 => end,
        3 => {
            let at = i64::from(vm.check_int(args, 1)? as i32);
            end = end.max(at);
            at
        }
        _ => return Err(vm.error("wrong number of arguments to 'insert'")),
    };
    vm.check_writable(table)?;
    if end > at {
        let moved = usize::try_from(end - at).unwrap_or(usize::MAX);
        // From an index far below the first, one by one, as in Lua.
        let mut to = end;
        while to > at {
            let step = (to - at).min(1024);
            vm.work(host, (step as usize).min(moved))?;
            for i in (to - step + 1..=to).rev() {
                let value = get(vm, table, i - 1);
                put(vm, table, i, value)?;
            }
            to -= step;
        }
    }
    let value = vm.arg(args, args.len() - 1);
    put(vm, table, at, value)?;
    Ok(0)
}

fn remove(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let end = vm.raw_len(table) as i64;
    let at = i64::from(vm.opt_int(args, 1, end)? as i32);
    if !(1..=end).contains(&at) {
        return Ok(0);
    }
    vm.check_writable(table)?;
    let removed = get(vm, table, at);
    vm.work(host, (end - at) as usize)?;
    for i in at..end {
        let value = get(vm, table, i + 1);
        put(vm, table, i, value)?;
    }
    put(vm, table, end, Value::Nil)?;
    vm.one(removed)
}

/// The state of `sort`.
struct Sorter {
    table: TableId,
    compare: Value,
}

fn sort(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let len = vm.raw_len(table) as i64;
    let compare = if vm.arg(args, 1).is_nil() { Value::Nil } else { check_function(vm, args, 1)? };
    vm.check_writable(table)?;
    Sorter { table, compare }.sort(vm, host, 1, len)?;
    Ok(0)
}

impl Sorter {
    fn less(&self, vm: &mut Vm, host: &mut dyn Host, a: Value, b: Value) -> Result<bool> {
        vm.work(host, 5)?;
        if self.compare.is_nil() {
            return vm.less(host, a, b, false);
        }
        Ok(vm.call_for_one(host, self.compare, &[a, b])?.truthy())
    }

    fn swap(&self, vm: &mut Vm, i: i64, j: i64) -> Result<()> {
        let (a, b) = (get(vm, self.table, i), get(vm, self.table, j));
        put(vm, self.table, i, b)?;
        put(vm, self.table, j, a)
    }

    /// Swaps two elements if the second is less than the first. Returns whether it was.
    fn order(&self, vm: &mut Vm, host: &mut dyn Host, i: i64, j: i64) -> Result<bool> {
        let (a, b) = (get(vm, self.table, i), get(vm, self.table, j));
        let wrong = self.less(vm, host, b, a)?;
        if wrong {
            self.swap(vm, i, j)?;
        }
        Ok(wrong)
    }

    /// Quicksort with the median of three, as in Lua, so that equal elements end up in the same order.
    fn sort(&self, vm: &mut Vm, host: &mut dyn Host, mut low: i64, mut high: i64) -> Result<()> {
        while low < high {
            self.order(vm, host, low, high)?;
            if high - low == 1 {
                return Ok(());
            }
            let middle = i64::midpoint(low, high);
            if !self.order(vm, host, low, middle)? {
                self.order(vm, host, middle, high)?;
            }
            if high - low == 2 {
                return Ok(());
            }
            let pivot = get(vm, self.table, middle);
            // On the stack it is not collected while others are compared with it.
            vm.push(pivot);
            self.swap(vm, middle, high - 1)?;
            let split = self.partition(vm, host, low, high, pivot)?;
            vm.co.stack.pop();
            self.swap(vm, high - 1, split)?;
            if split - low < high - split {
                self.sort(vm, host, low, split - 1)?;
                low = split + 1;
            } else {
                self.sort(vm, host, split + 1, high)?;
                high = split - 1;
            }
        }
        Ok(())
    }

    fn partition(&self, vm: &mut Vm, host: &mut dyn Host, low: i64, high: i64, pivot: Value) -> Result<i64> {
        let (mut i, mut j) = (low, high - 1);
        loop {
            i += 1;
            while self.less(vm, host, get(vm, self.table, i), pivot)? {
                if i > high {
                    return Err(vm.error("invalid order function for sorting"));
                }
                i += 1;
            }
            j -= 1;
            while self.less(vm, host, pivot, get(vm, self.table, j))? {
                if j < low {
                    return Err(vm.error("invalid order function for sorting"));
                }
                j -= 1;
            }
            if j < i {
                return Ok(i);
            }
            self.swap(vm, i, j)?;
        }
    }
}
