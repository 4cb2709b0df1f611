//! The garbage collector: mark and sweep of the run's objects. It touches the heap.
//!
//! It runs only between instructions of the loop, so functions written in Rust may hold values as long as they do not call back; those
//! that do keep theirs on the stack. The base is not collected.

use std::rc::Rc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::Vm;
use super::coroutine::{Coroutine, OPEN_BYTES};
use crate::bounds::GARBAGE_MIN_BYTES;
use crate::compile::proto::Proto;
use crate::heap::{Heap, THREAD_BYTES, UPVALUE_BYTES, Upvalue, closure_bytes};
use crate::value::{FuncId, Id, TableId, ThreadId, Value};

/// A set of numbers.
#[derive(Default)]
struct Marks(Vec<u64>);

impl Marks {
    fn with_room(slots: usize) -> Marks {
        Marks(vec![0; slots.div_ceil(64)])
    }

    /// Adds a number. Returns whether it is new.
    fn add(&mut self, id: Id) -> bool {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    fn has(&self, id: Id) -> bool {
        self.0[id as usize / 64] & 1 << (id % 64) != 0
    }
}

struct Marker<'h> {
    heap: &'h Heap,
    strings: Marks,
    tables: Marks,
    closures: Marks,
    upvalues: Marks,
    threads: Marks,
    /// Compiled functions whose constants are marked.
    protos: HashSet<*const Proto, RandomState>,
    /// Marked, and still to be traversed.
    grey: Vec<Value>,
    /// Slots that were visited.
    work: usize,
}

impl Marker<'_> {
    fn mark(&mut self, value: Value) {
        let is_new = match value {
            Value::Str(id) => {
                self.strings.add(id.0);
                false
            }
            Value::Table(id) => self.tables.add(id.0),
            Value::Func(id) => self.closures.add(id.0),
            Value::Thread(id) => self.threads.add(id.0),
            _ => false,
        };
        if is_new {
            self.grey.push(value);
        }
    }

    fn upvalue(&mut self, id: Id) {
        if self.upvalues.add(id) {
            match self.heap.upvalue_of(id) {
                Upvalue::Closed(value) => self.mark(value),
                Upvalue::Open(thread, _) => self.mark(Value::Thread(thread)),
            }
        }
    }

    fn table(&mut self, id: TableId) {
        let table = self.heap.get_table(id);
        self.work += table.slots();
        if let Some(meta) = table.meta {
            self.mark(Value::Table(meta));
        }
        for value in table.array() {
            self.mark(*value);
        }
        for (key, value) in table.pairs() {
            self.mark(key);
            self.mark(value);
        }
    }

    fn function(&mut self, id: FuncId) {
        let closure = self.heap.closure_of(id);
        for id in &closure.upvalues {
            self.upvalue(*id);
        }
        self.proto(&closure.proto);
    }

    /// Constants are strings of the heap.
    fn proto(&mut self, proto: &Proto) {
        if !self.protos.insert(std::ptr::from_ref(proto)) {
            return;
        }
        for value in &proto.constants {
            self.mark(*value);
        }
        for named in &proto.names {
            if let Some(name) = named.name {
                self.mark(Value::Str(name));
            }
        }
        for inner in &proto.protos {
            self.proto(inner);
        }
    }

    fn coroutine(&mut self, co: &Coroutine) {
        self.work += co.stack.len();
        for value in &co.stack {
            self.mark(*value);
        }
        for frame in &co.frames {
            self.mark(Value::Func(frame.closure));
        }
        for (_, id) in &co.open {
            self.upvalue(*id);
        }
    }

    fn trace(&mut self) {
        while let Some(value) = self.grey.pop() {
            match value {
                Value::Table(id) => self.table(id),
                Value::Func(id) => self.function(id),
                Value::Thread(ThreadId(id)) => {
                    if let Some(co) = &self.heap.threads.items[id as usize] {
                        self.coroutine(co);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Bytes that are freed with this reference to a compiled function: its own and those of functions within it, unless there are other
/// references.
fn freed_with(proto: &Rc<Proto>) -> usize {
    if Rc::strong_count(proto) > 1 {
        return 0;
    }
    proto.bytes + proto.protos.iter().map(freed_with).sum::<usize>()
}

impl Vm {
    /// Frees all unreachable objects.
    pub(crate) fn collect(&mut self) {
        let heap = &self.heap;
        let mut marker = Marker {
            heap,
            strings: Marks::with_room(heap.strings.slots()),
            tables: Marks::with_room(heap.tables.len()),
            closures: Marks::with_room(heap.closures.items.len()),
            upvalues: Marks::with_room(heap.upvalues.items.len()),
            threads: Marks::with_room(heap.threads.items.len()),
            protos: HashSet::default(),
            grey: Vec::new(),
            work: 0,
        };
        marker.coroutine(&self.co);
        marker.mark(Value::Table(self.globals));
        marker.mark(Value::Thread(self.current));
        for thread in &self.resumers {
            marker.mark(Value::Thread(*thread));
        }
        let (tables, upvalues) = heap.changed();
        for id in tables {
            marker.mark(Value::Table(id));
        }
        for id in upvalues {
            marker.upvalue(id);
        }
        marker.trace();
        let work = marker.work;
        let Marker { strings, tables, closures, upvalues, threads, .. } = marker;
        let heap = &mut self.heap;
        let mut freed = heap.strings.sweep(|id| strings.has(id));
        freed += heap.sweep_tables(|id| tables.has(id));
        // Coroutines before functions: their calls refer to what those were compiled to.
        freed += heap
            .threads
            .sweep(|id| threads.has(id), |co| THREAD_BYTES + co.charged + co.open.len() * OPEN_BYTES);
        freed += heap
            .closures
            .sweep(|id| closures.has(id), |closure| closure_bytes(closure) + freed_with(&closure.proto));
        freed += heap.upvalues.sweep(|id| upvalues.has(id), |_| UPVALUE_BYTES);
        heap.release(freed);
        heap.work_owed += work
            + heap.strings.slots()
            + heap.tables.len()
            + heap.closures.items.len()
            + heap.upvalues.items.len();
        heap.collect_at =
            heap.used() + (heap.used() - heap.base_used().min(heap.used())).max(GARBAGE_MIN_BYTES);
        // At the latest when half of the remaining budget is used.
        heap.collect_at = heap.collect_at.min(heap.used() + heap.left() / 2);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Args, Host, Result, Vm};

    struct Quiet;

    impl Host for Quiet {
        fn is_over(&mut self) -> bool {
            false
        }

        fn call(&mut self, _: &mut Vm, _: u32, _: Args) -> Result<usize> {
            Ok(0)
        }
    }

    /// Everything that was charged is returned to the budget when it is unreachable, and nothing twice.
    #[test]
    fn what_is_collected_gives_back_what_it_took() {
        let mut vm = Vm::new(64 << 20).unwrap();
        for program in [
            "local t = {} for i = 1, 1000 do t[i] = {i, x = tostring(i)} t['k' .. i] = i end",
            "local fs = {} for i = 1, 1000 do fs[i] = function() return i end end",
            "for i = 1, 300 do local f = loadstring('local x = ' .. i .. ' return function() return function() return x end end') local g = f()() end",
            "for i = 1, 300 do loadstring('x = = ' .. i) loadstring('local function f() return function() end end x =', 'name') end",
            "for i = 1, 300 do local co = coroutine.create(function(a) local function f(n) if n > 0 then return 1 + f(n - 1) end coroutine.yield() return 1 end return f(a) end) coroutine.resume(co, 20) if i % 2 == 0 then coroutine.resume(co) end end",
            "for i = 1, 100 do pcall(coroutine.wrap(function() error('x' .. i) end)) end",
            "for w in string.rep('a b ', 500):gmatch('%a') do local s = w .. w end",
            "local t = setmetatable({}, {__index = function(t, k) return k .. 'x' end}) for i = 1, 1000 do local x = t['y' .. i] end collectgarbage()",
        ] {
            let script = vm.compile(&mut Quiet, program.as_bytes(), b"@p").unwrap().unwrap();
            vm.run(&mut Quiet, script.value(), &[]).unwrap();
            assert!(vm.used_bytes() > vm.base_bytes(), "{program}");
            vm.collect();
            assert_eq!(vm.used_bytes() - vm.co.charged, vm.base_bytes(), "{program}");
            vm.reset();
            assert_eq!(vm.used_bytes(), vm.base_bytes(), "{program}");
        }
    }
}
