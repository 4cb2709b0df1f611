//! A Lua VM with Redis's globals, and one run in it: its time budget, and the functions that only Redis has.
//! It touches the keyspace, through the commands that a script calls.
//!
//! Invariant: every run begins with the state made by [`World::new`] and by what was compiled since, whatever ran before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::Stopwatch;
use keystead_lua::{Args, Host, Result, TableId, Value, Vm};

use super::api;
use super::call::Running;
use super::convert::Names;
use super::lib::{self, cjson};
use crate::bounds::SCRIPT_MEMORY_BYTES_MAX;

/// The purpose of a world: scripts and functions have different globals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Scripts,
    Functions,
}

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It exceeded so many milliseconds.
    Time(u64),
    /// SCRIPT KILL or FUNCTION KILL.
    Killed,
    /// A command failed and everything is rolled back.
    Broken,
    /// It exceeded its memory.
    Memory,
}

/// The time limit of a run, and how it can be killed.
pub(super) struct Deadline {
    started: Stopwatch,
    /// How often it was asked. In wasm32 no time passes, and between two questions are about as many instructions as in a millisecond.
    checks: u64,
    /// 0: no limit.
    max_ms: u64,
    /// A counter of kills, and its value when the run began.
    kills: Arc<AtomicU64>,
    kills_seen: u64,
}

impl Deadline {
    pub(super) fn new(max_ms: u64, kills: &Arc<AtomicU64>) -> Deadline {
        let kills_seen = kills.load(Ordering::Relaxed);
        Deadline { started: Stopwatch::start(), checks: 0, max_ms, kills: Arc::clone(kills), kills_seen }
    }

    fn passed(&mut self) -> Option<Stop> {
        self.checks += 1;
        let elapsed_ms = match cfg!(target_family = "wasm") {
            true => u128::from(self.checks),
            false => self.started.elapsed().as_millis(),
        };
        if self.max_ms > 0 && elapsed_ms >= u128::from(self.max_ms) {
            return Some(Stop::Time(self.max_ms));
        }
        (self.kills.load(Ordering::Relaxed) != self.kills_seen).then_some(Stop::Killed)
    }
}

/// One run, as the VM sees it: when it must stop, and the functions of `redis`.
pub(super) struct Run<'r, 'c> {
    pub(super) deadline: Deadline,
    pub(super) stop: Option<Stop>,
    /// The context of its commands; none while a library is loaded or a text compiled.
    pub(super) running: Option<Running<'r, 'c>>,
    pub(super) names: Names,
    /// Whether one of its commands is running.
    pub(super) in_command: bool,
    /// Whether the script selected RESP3.
    pub(super) resp3: bool,
    /// The log lines of the script: level and text.
    pub(super) log: Vec<(u8, String)>,
    /// Functions registered by the library that is being loaded.
    pub(super) registered: Option<Vec<api::Registered>>,
    /// The settings of `cjson` and of the tables that `cjson.new` returned.
    pub(super) cjson: Vec<cjson::Settings>,
}

impl<'r, 'c> Run<'r, 'c> {
    pub(super) fn new(world: &World, deadline: Deadline, running: Option<Running<'r, 'c>>) -> Self {
        Run {
            deadline,
            stop: None,
            running,
            names: world.names,
            in_command: false,
            resp3: false,
            log: Vec::new(),
            registered: None,
            cjson: vec![cjson::Settings::default()],
        }
    }
}

impl Host for Run<'_, '_> {
    fn is_over(&mut self) -> bool {
        if self.stop.is_none() {
            self.stop = self.deadline.passed();
        }
        self.stop.is_some()
    }

    fn call(&mut self, vm: &mut Vm, function: u32, args: Args) -> Result<usize> {
        match api::ROWS.get(function as usize) {
            Some((_, run)) => run(self, vm, args),
            None => cjson::call(self, vm, function - api::ROWS.len() as u32, args),
        }
    }

    fn clock(&mut self) -> f64 {
        self.deadline.started.elapsed().as_secs_f64()
    }
}

/// A Lua VM with Redis's globals.
pub(super) struct World {
    pub(super) vm: Vm,
    pub(super) names: Names,
    globals: TableId,
    /// The globals of a library while it is loaded.
    loading: TableId,
    pub(super) kills: Arc<AtomicU64>,
}

impl World {
    /// A new one. `kills`: grows when a run is to be killed.
    pub(super) fn new(purpose: For, kills: Arc<AtomicU64>) -> Result<World> {
        let mut vm = Vm::new(2 * SCRIPT_MEMORY_BYTES_MAX)?;
        vm.unwrap_errors();
        let globals = vm.globals();
        let names = Names::new(&mut vm)?;
        let redis = api::redis(&mut vm, purpose)?;
        vm.set_field(globals, "redis", redis.into())?;
        lib::fill(&mut vm, globals)?;
        let meta = vm.table(0, 1)?;
        let missing = api::host_function(&mut vm, "missing");
        vm.set_field(meta, "__index", missing)?;
        if purpose == For::Scripts {
            let handler = api::host_function(&mut vm, "__redis__err__handler");
            vm.set_field(globals, "__redis__err__handler", handler)?;
            vm.set_field(globals, "KEYS", Value::Bool(false))?;
            vm.set_field(globals, "ARGV", Value::Bool(false))?;
        }
        let loading = vm.table(0, 1)?;
        let for_loading = api::loading(&mut vm)?;
        vm.set_metatable(for_loading, Some(meta));
        vm.freeze(for_loading);
        vm.set_field(loading, "redis", for_loading.into())?;
        for table in [globals, loading] {
            vm.set_metatable(table, Some(meta));
        }
        freeze_all(&mut vm, globals);
        vm.freeze(loading);
        vm.freeze(meta);
        vm.freeze_strings();
        vm.keep();
        Ok(World { vm, names, globals, loading, kills })
    }

    /// Compiles a text, which is then available to all runs. `chunk`: its name in errors.
    pub(super) fn compile(
        &mut self,
        deadline: Deadline,
        code: &[u8],
        chunk: &str,
    ) -> Result<Value, Uncompiled> {
        self.begin();
        let mut run = Run::new(self, deadline, None);
        // A bug of the compiler costs the text, not the shard: no key is touched here.
        let compiled = catch_unwind(AssertUnwindSafe(|| self.vm.compile(&mut run, code, chunk.as_bytes())));
        let Ok(compiled) = compiled else {
            self.vm.reset();
            return Err(Uncompiled::Words("the compiler failed, which is a defect of the server".into()));
        };
        match compiled {
            Ok(Ok(script)) => {
                self.vm.keep();
                Ok(script.value())
            }
            Ok(Err(words)) => {
                self.vm.reset();
                Err(Uncompiled::Words(String::from_utf8_lossy(&words).into_owned()))
            }
            Err(_) => {
                self.vm.reset();
                Err(Uncompiled::Stopped(run.stop.unwrap_or(Stop::Memory)))
            }
        }
    }

    /// The budget of a run is counted from here on.
    pub(super) fn begin(&mut self) {
        self.vm.set_bytes_max(self.vm.base_bytes() + SCRIPT_MEMORY_BYTES_MAX);
    }

    /// Runs the text of a library; what it registers is then available to all runs.
    pub(super) fn load(&mut self, run: &mut Run<'_, '_>, library: Value) -> Result<Vec<Value>> {
        self.begin();
        self.vm.set_globals(self.loading);
        let loaded = self.vm.run(run, library, &[]);
        self.vm.set_globals(self.globals);
        loaded
    }

    /// Sets one of the two globals of every script.
    pub(super) fn set_global(&mut self, name: Value, value: Value) -> Result<()> {
        self.vm.set_variable(self.globals, name, value)
    }
}

impl World {
    /// Removes such a global, if it exists.
    pub(super) fn clear_global(&mut self, name: Value) -> Result<()> {
        if self.vm.raw_get(self.globals, name).is_nil() {
            return Ok(());
        }
        self.set_global(name, Value::Bool(false))
    }
}

/// Why a text was not compiled.
pub(super) enum Uncompiled {
    /// It does not compile.
    Words(String),
    /// A budget was exhausted.
    Stopped(Stop),
}

/// Makes a table of globals, and the tables in it, read-only.
fn freeze_all(vm: &mut Vm, globals: TableId) {
    let mut key = Value::Nil;
    while let Some((next, value)) = vm.raw_next(globals, key)
        && !next.is_nil()
    {
        if let Value::Table(table) = value {
            vm.freeze(table);
        }
        key = next;
    }
    vm.freeze(globals);
}
