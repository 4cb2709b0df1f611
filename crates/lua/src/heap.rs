//! The objects that values refer to, by index, and the memory budget. It touches nothing.
//!
//! Objects from before a run are its *base*; the others belong to the run and are freed when it ends. Invariants: every allocation is
//! charged to the budget first; after a run the base is unchanged, because a run copies objects of the base before it changes them.

use std::rc::Rc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::bounds::GARBAGE_MIN_BYTES;
use crate::compile::proto::Proto;
use crate::error::{Error, Result, Stop};
use crate::strings::{STRING_BYTES, Strings};
use crate::table::Table;
use crate::value::{FuncId, Id, StrId, TableId, ThreadId, Value};
use crate::vm::coroutine::Coroutine;

/// A function written in Lua with its upvalues.
#[derive(Clone, Debug)]
pub(crate) struct Closure {
    pub(crate) proto: Rc<Proto>,
    pub(crate) upvalues: Box<[Id]>,
}

/// A variable that functions share: an upvalue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upvalue {
    /// Open: it is still on the stack of a coroutine.
    Open(ThreadId, u32),
    /// Closed: its scope has ended.
    Closed(Value),
}

/// Objects of one kind, by index.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    pub(crate) items: Vec<Option<T>>,
    free: Vec<Id>,
    base: Id,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { items: Vec::new(), free: Vec::new(), base: 0 }
    }
}

impl<T> Arena<T> {
    fn add(&mut self, item: T) -> Id {
        if let Some(id) = self.free.pop() {
            self.items[id as usize] = Some(item);
            return id;
        }
        self.items.push(Some(item));
        (self.items.len() - 1) as Id
    }

    /// Frees all objects of a run that are not marked; `bytes` is the size of an object.
    pub(crate) fn sweep(&mut self, is_marked: impl Fn(Id) -> bool, bytes: impl Fn(&T) -> usize) -> usize {
        let mut freed = 0;
        self.free.clear();
        for id in (self.base..self.items.len() as Id).rev() {
            if !is_marked(id) {
                freed += self.items[id as usize].take().as_ref().map_or(0, &bytes);
                self.free.push(id);
            }
        }
        freed
    }

    fn reset(&mut self) {
        self.items.truncate(self.base as usize);
        self.free.clear();
    }

    fn keep(&mut self) {
        self.base = self.items.len() as Id;
        self.free.clear();
    }

    pub(crate) fn is_base(&self, id: Id) -> bool {
        id < self.base
    }
}

/// The heap.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    pub(crate) strings: Strings,
    pub(crate) tables: Vec<Table>,
    free_tables: Vec<Id>,
    base_tables: Id,
    pub(crate) closures: Arena<Closure>,
    pub(crate) upvalues: Arena<Upvalue>,
    pub(crate) threads: Arena<Coroutine>,
    /// Tables and variables of the base as they were before this run.
    saved_tables: Vec<(Id, Table)>,
    saved_upvalues: HashMap<Id, Upvalue, RandomState>,
    /// Bytes in use, and the budget.
    used: usize,
    max: usize,
    base_used: usize,
    /// Bytes in use at which the next collection starts.
    pub(crate) collect_at: usize,
    /// Work that is not yet counted, because the host could not be called: growing tables, collecting garbage.
    pub(crate) work_owed: usize,
}

/// The size of a closure.
pub(crate) fn closure_bytes(closure: &Closure) -> usize {
    size_of::<Closure>() + closure.upvalues.len() * size_of::<Id>() + 16
}

/// The size of a new coroutine.
pub(crate) const THREAD_BYTES: usize = size_of::<Coroutine>() + 1024;

/// The size of an upvalue.
pub(crate) const UPVALUE_BYTES: usize = size_of::<Upvalue>() + 8;

/// The size of a table without its slots.
pub(crate) const TABLE_BYTES: usize = size_of::<Table>() + 16;

impl Heap {
    pub(crate) fn new(max: usize) -> Heap {
        Heap { max, ..Heap::default() }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that are left in the budget.
    pub(crate) fn left(&self) -> usize {
        self.max.saturating_sub(self.used)
    }

    /// Sets the memory budget in bytes.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Charges bytes to the budget.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.left() {
            return Err(Error::stop(Stop::Memory));
        }
        self.used += bytes;
        Ok(())
    }

    /// Whether the budget has this many bytes; for memory that is freed within one call.
    #[inline]
    pub(crate) fn check_room(&self, bytes: usize) -> Result<()> {
        if bytes > self.left() { Err(Error::stop(Stop::Memory)) } else { Ok(()) }
    }

    /// Returns bytes to the budget.
    #[inline]
    pub(crate) fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// A string.
    pub(crate) fn str(&mut self, bytes: &[u8]) -> Result<StrId> {
        if let Some(id) = self.strings.find(bytes) {
            return Ok(id);
        }
        self.charge(bytes.len() + STRING_BYTES)?;
        Ok(self.strings.add(bytes.into()))
    }

    /// A string from an owned buffer.
    pub(crate) fn str_owned(&mut self, bytes: Vec<u8>) -> Result<StrId> {
        if let Some(id) = self.strings.find(&bytes) {
            return Ok(id);
        }
        self.charge(bytes.len() + STRING_BYTES)?;
        Ok(self.strings.add(bytes.into_boxed_slice()))
    }

    /// A table with this capacity.
    pub(crate) fn table(&mut self, array: usize, nodes: usize) -> Result<TableId> {
        self.charge(TABLE_BYTES + Table::bytes_of(array, nodes))?;
        let table = Table::with_room(array, nodes);
        if let Some(id) = self.free_tables.pop() {
            self.tables[id as usize] = table;
            return Ok(TableId(id));
        }
        self.tables.push(table);
        Ok(TableId((self.tables.len() - 1) as Id))
    }

    pub(crate) fn closure(&mut self, closure: Closure) -> Result<FuncId> {
        self.charge(closure_bytes(&closure))?;
        Ok(FuncId(self.closures.add(closure)))
    }

    pub(crate) fn upvalue(&mut self, upvalue: Upvalue) -> Result<Id> {
        self.charge(UPVALUE_BYTES)?;
        Ok(self.upvalues.add(upvalue))
    }

    pub(crate) fn thread(&mut self, thread: Coroutine) -> Result<ThreadId> {
        self.charge(THREAD_BYTES)?;
        Ok(ThreadId(self.threads.add(thread)))
    }

    #[inline]
    pub(crate) fn get_table(&self, id: TableId) -> &Table {
        &self.tables[id.0 as usize]
    }

    /// A table to be changed. A caller that makes it grow charges for it.
    #[inline]
    pub(crate) fn table_mut(&mut self, id: TableId) -> Result<&mut Table> {
        if id.0 < self.base_tables {
            self.save_table(id)?;
        }
        Ok(&mut self.tables[id.0 as usize])
    }

    #[cold]
    fn save_table(&mut self, id: TableId) -> Result<()> {
        if !self.tables[id.0 as usize].saved {
            let bytes = self.tables[id.0 as usize].bytes();
            self.charge(bytes)?;
            let table = &mut self.tables[id.0 as usize];
            self.saved_tables.push((id.0, table.clone()));
            table.saved = true;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn closure_of(&self, id: FuncId) -> &Closure {
        match &self.closures.items[id.0 as usize] {
            Some(closure) => closure,
            None => unreachable!("a function that is referred to is not collected"),
        }
    }

    #[inline]
    pub(crate) fn upvalue_of(&self, id: Id) -> Upvalue {
        self.upvalues.items[id as usize].unwrap_or(Upvalue::Closed(Value::Nil))
    }

    /// Changes a variable.
    #[inline]
    pub(crate) fn set_upvalue(&mut self, id: Id, upvalue: Upvalue) {
        if self.upvalues.is_base(id) {
            let was = self.upvalue_of(id);
            self.saved_upvalues.entry(id).or_insert(was);
        }
        self.upvalues.items[id as usize] = Some(upvalue);
    }

    /// The hash of a key in tables, which only strings need.
    #[inline]
    pub(crate) fn hash_of(&self, key: Value) -> u32 {
        if let Value::Str(id) = key { self.strings.hash(id) } else { 0 }
    }

    /// Reads a key without metatables.
    #[inline]
    pub(crate) fn raw_get(&self, table: TableId, key: Value) -> Value {
        self.get_table(table).get(key, self.hash_of(key))
    }

    /// Sets a key without metatables, even of a read-only table. Nil and NaN are no keys: nothing is set.
    pub(crate) fn raw_set(&mut self, id: TableId, key: Value, value: Value) -> Result<()> {
        match key {
            Value::Nil => return Ok(()),
            Value::Num(number) if number.is_nan() => return Ok(()),
            _ => {}
        }
        let hash = self.hash_of(key);
        let table = self.table_mut(id)?;
        table.absent = 0;
        if table.replace(key, hash, value) || value.is_nil() {
            return Ok(());
        }
        let before = table.bytes();
        if table.grows_with(key, hash) {
            let (after, slots) = (table.bytes_after_growth(), table.slots());
            self.work_owed += slots;
            self.check_room(after)?;
        }
        let table = &mut self.tables[id.0 as usize];
        table.set(key, hash, value);
        let after = table.bytes();
        self.used = (self.used + after).saturating_sub(before);
        Ok(())
    }

    /// Makes the current objects the base of the following runs.
    pub(crate) fn keep(&mut self) {
        self.strings.keep();
        self.base_tables = self.tables.len() as Id;
        self.free_tables.clear();
        self.closures.keep();
        self.upvalues.keep();
        self.threads.keep();
        self.saved_tables.clear();
        self.saved_upvalues.clear();
        self.tables.iter_mut().for_each(|table| table.saved = false);
        self.base_used = self.used;
        self.collect_at = self.used + GARBAGE_MIN_BYTES;
    }

    /// Undoes everything that a run created or changed.
    pub(crate) fn reset(&mut self) {
        for (id, mut table) in self.saved_tables.drain(..) {
            table.saved = false;
            self.tables[id as usize] = table;
        }
        for (id, upvalue) in self.saved_upvalues.drain() {
            self.upvalues.items[id as usize] = Some(upvalue);
        }
        self.strings.reset();
        self.tables.truncate(self.base_tables as usize);
        self.free_tables.clear();
        self.closures.reset();
        self.upvalues.reset();
        self.threads.reset();
        self.used = self.base_used;
        self.collect_at = self.used + GARBAGE_MIN_BYTES;
    }

    /// The size of the base in bytes.
    pub(crate) fn base_used(&self) -> usize {
        self.base_used
    }

    pub(crate) fn is_base_table(&self, id: TableId) -> bool {
        id.0 < self.base_tables
    }

    /// Tables and variables of the base that a run has changed, which may refer to objects of the run.
    pub(crate) fn changed(&self) -> (impl Iterator<Item = TableId> + '_, impl Iterator<Item = Id> + '_) {
        let tables = self.saved_tables.iter().map(|(id, _)| TableId(*id));
        (tables, self.saved_upvalues.keys().copied())
    }

    /// Frees tables of the run that are not marked. Returns the bytes.
    pub(crate) fn sweep_tables(&mut self, is_marked: impl Fn(Id) -> bool) -> usize {
        let mut freed = 0;
        self.free_tables.clear();
        for id in (self.base_tables..self.tables.len() as Id).rev() {
            if !is_marked(id) {
                let table = std::mem::replace(&mut self.tables[id as usize], Table::free());
                if !table.is_free {
                    freed += table.bytes() + TABLE_BYTES;
                }
                self.free_tables.push(id);
            }
        }
        freed
    }
}
