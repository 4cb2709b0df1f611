//! The virtual machine: stacks of values, frames of functions, and one loop that executes instructions. It touches what its host allows.
//!
//! | To find                                  | open          |
//! |------------------------------------------|---------------|
//! | the loop                                 | `run`         |
//! | calls, returns, functions written in Rust| `call`        |
//! | metatables, arithmetic, comparison       | `meta`        |
//! | error messages and their positions       | `raise`       |
//! | coroutines                               | [`coroutine`], `stdlib/coroutine` |
//! | the garbage collector                    | `collect`     |

mod call;
mod collect;
pub(crate) mod coroutine;
mod meta;
mod raise;
mod run;

use std::rc::Rc;

use coroutine::{Caller, Coroutine, Status};

use crate::bounds::WORK_BETWEEN_CHECKS;
use crate::compile::{compile, proto::Proto};
use crate::error::{Error, Kind, Result, Stop};
use crate::heap::{Closure, Heap, Upvalue};
use crate::stdlib;
use crate::value::{FuncId, NativeId, StrId, TableId, ThreadId, Value};

pub use call::Args;
pub(crate) use meta::Event;

/// The embedding program: what a run can access beyond its values.
pub trait Host {
    /// Whether the run must end: its time is up, or it was killed. Called often.
    fn is_over(&mut self) -> bool;

    /// Calls a function of the host, by its number. Pushes the results and returns their number.
    ///
    /// # Errors
    /// What the function raises.
    fn call(&mut self, vm: &mut Vm, function: u32, args: Args) -> Result<usize>;

    /// Seconds of processor time, for `os.clock`.
    fn clock(&mut self) -> f64 {
        0.0
    }
}

/// The chunk that the library's own functions are of.
pub(crate) const BUILT_IN: &str = "=[C]";

/// A function written in Rust: it pushes its results and returns their number.
pub type NativeFn = fn(&mut Vm, &mut dyn Host, Args) -> Result<usize>;

#[derive(Clone, Copy)]
pub(crate) enum Native {
    Rust(NativeFn),
    Host(u32),
}

/// A Lua machine.
pub struct Vm {
    pub(crate) heap: Heap,
    /// The coroutine that runs.
    pub(crate) co: Coroutine,
    pub(crate) current: ThreadId,
    /// The compiled function of the innermost call.
    pub(crate) proto: Rc<Proto>,
    /// The coroutines that have resumed it, outermost first.
    pub(crate) resumers: Vec<ThreadId>,
    globals: TableId,
    pub(crate) string_meta: Option<TableId>,
    pub(crate) natives: Vec<Native>,
    /// The number of those from before the run.
    base_natives: usize,
    pub(crate) events: Vec<StrId>,
    /// Work that is left before the next [`Host::is_over`].
    fuel: i64,
    /// Loops and functions written in Rust within one another.
    pub(crate) depth: usize,
    /// The instruction that the innermost Lua function executes.
    pub(crate) pc: usize,
    /// The end of values whose number is open.
    pub(crate) top: usize,
    /// `next`, which loops call without a call.
    pub(crate) next: Option<NativeId>,
    /// The iterator of `ipairs`.
    pub(crate) ipairs_step: Value,
    /// The factories of the functions of `gmatch` and `coroutine.wrap`, and what these call.
    pub(crate) gmatch: [Value; 2],
    pub(crate) wrap: [Value; 2],
    /// The caller of the running function written in Rust; `None` while the loop runs.
    pub(crate) calling: Option<Caller>,
    /// The seed of the random numbers of a run, and the state of the generator.
    pub(crate) seed: u64,
    pub(crate) random: u64,
    /// Whether `pcall` returns the message of a table with `err`, as in Redis.
    pub(crate) pcall_unwraps: bool,
}

/// A compiled function, which can be run repeatedly on the machine that compiled it.
#[derive(Clone, Copy, Debug)]
pub struct Script(FuncId);

impl Script {
    /// As a value.
    #[must_use]
    pub fn value(self) -> Value {
        Value::Func(self.0)
    }
}

impl Vm {
    /// A machine with Lua's libraries and this memory budget in bytes.
    ///
    /// # Errors
    /// When the budget is too small for the libraries.
    pub fn new(bytes_max: usize) -> Result<Vm> {
        let mut heap = Heap::new(bytes_max);
        let globals = heap.table(0, 64)?;
        let current = heap.thread(Coroutine { status: Status::Running, ..Coroutine::default() })?;
        let events = Event::NAMES.iter().map(|name| heap.str(name.as_bytes())).collect::<Result<_>>()?;
        let mut vm = Vm {
            heap,
            co: Coroutine { status: Status::Running, ..Coroutine::default() },
            current,
            proto: Rc::new(Proto::default()),
            resumers: Vec::new(),
            globals,
            string_meta: None,
            natives: Vec::new(),
            base_natives: 0,
            events,
            fuel: WORK_BETWEEN_CHECKS,
            depth: 0,
            pc: 0,
            top: 0,
            next: None,
            ipairs_step: Value::Nil,
            gmatch: [Value::Nil; 2],
            wrap: [Value::Nil; 2],
            calling: None,
            seed: 0,
            random: 0,
            pcall_unwraps: false,
        };
        stdlib::open(&mut vm)?;
        vm.keep();
        Ok(vm)
    }

    /// Makes the current state the one that every run begins with.
    pub fn keep(&mut self) {
        self.heap.keep();
        self.base_natives = self.natives.len();
    }

    /// Ends a run: frees everything it created and undoes everything it changed.
    pub fn reset(&mut self) {
        self.co = Coroutine { status: Status::Running, ..Coroutine::default() };
        self.resumers.clear();
        self.current = ThreadId(0);
        self.proto = Rc::new(Proto::default());
        self.heap.reset();
        self.natives.truncate(self.base_natives);
        (self.depth, self.pc, self.top) = (0, 0, 0);
        self.calling = None;
        self.fuel = WORK_BETWEEN_CHECKS;
        self.random = self.seed;
    }

    /// Sets the seed of `math.random` for every run.
    pub fn set_seed(&mut self, seed: u64) {
        (self.seed, self.random) = (seed, seed);
    }

    /// Makes `pcall` return the message of an error that is a table with `err`.
    pub fn unwrap_errors(&mut self) {
        self.pcall_unwraps = true;
    }

    /// Bytes in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.heap.used()
    }

    /// Bytes in use after a run has ended.
    #[must_use]
    pub fn base_bytes(&self) -> usize {
        self.heap.base_used()
    }

    /// Sets the memory budget in bytes.
    pub fn set_bytes_max(&mut self, max: usize) {
        self.heap.set_max(max);
    }

    /// The table of globals.
    #[must_use]
    pub fn globals(&self) -> TableId {
        self.globals
    }

    /// Replaces the table of globals of all functions.
    pub fn set_globals(&mut self, globals: TableId) {
        self.globals = globals;
    }

    /// Counts work; a unit is about an instruction.
    ///
    /// # Errors
    /// When the host ends the run.
    #[inline]
    pub fn work(&mut self, host: &mut dyn Host, units: usize) -> Result<()> {
        self.fuel -= (units + std::mem::take(&mut self.heap.work_owed)) as i64;
        if self.fuel < 0 { self.check(host) } else { Ok(()) }
    }

    #[cold]
    fn check(&mut self, host: &mut dyn Host) -> Result<()> {
        self.fuel = WORK_BETWEEN_CHECKS;
        if host.is_over() { Err(Error::stop(Stop::Interrupted)) } else { Ok(()) }
    }

    /// Compiles a text to a function. `source`: its name with a mark, as in errors.
    ///
    /// # Errors
    /// `Ok(Err(message))` for a syntax error; otherwise when a budget is exceeded.
    pub fn compile(
        &mut self,
        host: &mut dyn Host,
        text: &[u8],
        source: &[u8],
    ) -> Result<std::result::Result<Script, Vec<u8>>> {
        match compile(&mut self.heap, text, source, &mut || host.is_over()) {
            Ok(proto) => Ok(Ok(Script(self.function(proto)?))),
            Err(error) => match *error.0 {
                Kind::Syntax(words) => Ok(Err(words)),
                other => Err(Error(Box::new(other))),
            },
        }
    }

    /// A library function that is written in Lua. In errors it appears as one written in Rust.
    pub(crate) fn built_in(&mut self, text: &[u8]) -> Result<Value> {
        let proto = compile(&mut self.heap, text, BUILT_IN.as_bytes(), &mut || false)?;
        self.function(proto).map(Value::Func)
    }

    fn function(&mut self, proto: Rc<Proto>) -> Result<FuncId> {
        self.heap.closure(Closure { proto, upvalues: Box::default() })
    }

    /// Runs a function to its end and returns its results.
    ///
    /// # Errors
    /// What it raised, or what stopped it.
    pub fn run(&mut self, host: &mut dyn Host, function: Value, args: &[Value]) -> Result<Vec<Value>> {
        let from = self.co.stack.len();
        let count = self.call(host, function, args)?;
        let results = self.co.stack[from..from + count].to_vec();
        self.co.stack.truncate(from);
        Ok(results)
    }

    /// Runs a function to its end and returns its first result.
    ///
    /// # Errors
    /// What it raised, or what stopped it.
    pub fn run_for_one(&mut self, host: &mut dyn Host, function: Value, args: &[Value]) -> Result<Value> {
        self.call_for_one(host, function, args)
    }

    /// Drops active calls, but nothing else: before the objects of a run become the base.
    pub fn end_calls(&mut self) {
        self.close(0);
        self.co = Coroutine { status: Status::Running, ..Coroutine::default() };
    }

    // Values, for the host.

    /// A string.
    ///
    /// # Errors
    /// When the memory budget is exceeded. The same holds for the others.
    pub fn string(&mut self, bytes: &[u8]) -> Result<Value> {
        self.heap.str(bytes).map(Value::Str)
    }

    /// A string from an owned buffer.
    ///
    /// # Errors
    /// When the memory budget is exceeded.
    pub fn string_owned(&mut self, bytes: Vec<u8>) -> Result<Value> {
        self.heap.str_owned(bytes).map(Value::Str)
    }

    /// The bytes of a string.
    #[must_use]
    pub fn bytes(&self, id: StrId) -> &[u8] {
        self.heap.strings.get(id)
    }

    /// A table with this capacity.
    ///
    /// # Errors
    /// When the memory budget is exceeded.
    pub fn table(&mut self, array: usize, fields: usize) -> Result<TableId> {
        self.heap.table(array, fields)
    }

    /// Reads a key without metatables.
    #[must_use]
    pub fn raw_get(&self, table: TableId, key: Value) -> Value {
        self.heap.raw_get(table, key)
    }

    /// Reads a field by name without metatables.
    #[must_use]
    pub fn raw_field(&self, table: TableId, name: &[u8]) -> Value {
        self.heap.strings.find(name).map_or(Value::Nil, |id| self.heap.raw_get(table, Value::Str(id)))
    }

    /// Reads an index without metatables.
    #[must_use]
    pub fn raw_index(&self, table: TableId, index: usize) -> Value {
        self.heap.get_table(table).get_num(index as f64)
    }

    /// Sets a key without metatables, even of a read-only table. Nil and NaN are no keys, and nothing is set for them.
    ///
    /// # Errors
    /// When the memory budget is exceeded.
    pub fn raw_set(&mut self, table: TableId, key: Value, value: Value) -> Result<()> {
        self.heap.raw_set(table, key, value)
    }

    /// Sets a key of the base without saving its old value: for keys that the host sets before every run.
    ///
    /// # Errors
    /// When the key does not exist and the memory budget is exceeded.
    pub fn set_variable(&mut self, table: TableId, key: Value, value: Value) -> Result<()> {
        let hash = self.heap.hash_of(key);
        if self.heap.tables[table.0 as usize].replace(key, hash, value) {
            return Ok(());
        }
        self.heap.raw_set(table, key, value)
    }

    /// Charges bytes to the budget until the run ends: for memory that the host holds on behalf of a script.
    ///
    /// # Errors
    /// When it is exceeded.
    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        self.heap.charge(bytes)
    }

    /// Makes the metatable of strings read-only.
    pub fn freeze_strings(&mut self) {
        if let Some(meta) = self.string_meta {
            self.freeze(meta);
        }
    }

    /// Sets a field by name.
    ///
    /// # Errors
    /// When the memory budget is exceeded.
    pub fn set_field(&mut self, table: TableId, name: &str, value: Value) -> Result<()> {
        let key = self.string(name.as_bytes())?;
        self.heap.raw_set(table, key, value)
    }

    /// A border of a table: Lua's `#` without metatables.
    pub fn raw_len(&mut self, table: TableId) -> usize {
        let (len, looked) = self.heap.get_table(table).border();
        self.heap.work_owed += looked;
        len
    }

    /// The next key and its value; nil at the end; `None` if there is no such key.
    pub fn raw_next(&mut self, table: TableId, key: Value) -> Option<(Value, Value)> {
        let (key, value, looked) = self.heap.get_table(table).next(key, self.heap.hash_of(key))?;
        self.heap.work_owed += looked;
        Some((key, value))
    }

    /// Makes a table read-only for scripts.
    pub fn freeze(&mut self, table: TableId) {
        self.heap.tables[table.0 as usize].read_only = true;
    }

    /// Sets the metatable of a table.
    pub fn set_metatable(&mut self, table: TableId, meta: Option<TableId>) {
        self.heap.tables[table.0 as usize].meta = meta;
    }

    /// A function written in Rust. It is never freed: only for functions that every run begins with.
    pub fn native(&mut self, function: NativeFn) -> Value {
        self.natives.push(Native::Rust(function));
        Value::Native(NativeId((self.natives.len() - 1) as u32))
    }

    /// A function of the host, by its number. One that is created in a run is freed with it.
    pub fn host_function(&mut self, function: u32) -> Value {
        self.natives.push(Native::Host(function));
        Value::Native(NativeId((self.natives.len() - 1) as u32))
    }

    /// Checks that the budget has this many bytes: for memory that is freed within one call.
    ///
    /// # Errors
    /// When it has not.
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        self.heap.check_room(bytes)
    }

    /// Bytes that are left in the budget.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.heap.left()
    }

    // Variables that functions share.

    pub(crate) fn upvalue(&self, id: u32) -> Value {
        match self.heap.upvalue_of(id) {
            Upvalue::Closed(value) => value,
            Upvalue::Open(thread, at) if thread == self.current => self.co.stack[at as usize],
            Upvalue::Open(thread, at) => match &self.heap.threads.items[thread.0 as usize] {
                Some(other) => other.stack.get(at as usize).copied().unwrap_or_default(),
                None => Value::Nil,
            },
        }
    }

    pub(crate) fn set_upvalue(&mut self, id: u32, value: Value) {
        match self.heap.upvalue_of(id) {
            Upvalue::Closed(_) => self.heap.set_upvalue(id, Upvalue::Closed(value)),
            Upvalue::Open(thread, at) if thread == self.current => self.co.stack[at as usize] = value,
            Upvalue::Open(thread, at) => {
                if let Some(other) = &mut self.heap.threads.items[thread.0 as usize]
                    && let Some(slot) = other.stack.get_mut(at as usize)
                {
                    *slot = value;
                }
            }
        }
    }
}
