//! A Lua state in which scripts run, and the limits that it holds them to. It touches nothing but what its scripts call.
//!
//! Each thread has its own, made when it is first needed. Invariant: a script that was stopped, or that ran out of
//! memory, takes the whole state with it, so nothing half done is ever used again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::Stopwatch;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, VmState};

use super::convert::Names;
use super::pattern::{self, Capture, Trouble};
use super::raise::{self, Raised};
use super::{api, lib};
use crate::limits::{SCRIPT_INSTRUCTIONS_BETWEEN_LOOKS, SCRIPT_MEMORY_BYTES_MAX, SCRIPT_PATTERN_BYTES_MAX};

/// What a world is for: Redis shows scripts and functions different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Scripts,
    Functions,
}

/// Why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It took longer than so many milliseconds.
    Time(u64),
    /// SCRIPT KILL or FUNCTION KILL.
    Killed,
    /// A command failed and everything is undone.
    Broken,
}

/// What a world's functions share.
pub(super) struct Shared {
    /// Since when the script runs, and how many milliseconds it may; 0: for ever.
    started: Cell<Option<(Stopwatch, u64)>>,
    stop: Cell<Option<Stop>>,
    /// Grows with every KILL; what it was when the script began.
    kills: Arc<AtomicU64>,
    kills_seen: Cell<u64>,
    /// Whether the script asked for RESP3.
    pub(super) resp3: Cell<bool>,
    /// What math.random continues from.
    pub(super) random: Cell<u64>,
    /// What the script wants to be logged: level and words.
    pub(super) log: RefCell<Vec<(u8, String)>>,
    /// Functions that the library that is being loaded has registered.
    pub(super) registered: RefCell<Option<Vec<api::Registered>>>,
}

impl Shared {
    /// Whether the script must end now.
    pub(super) fn is_over(&self) -> bool {
        if self.stop.get().is_some() {
            return true;
        }
        if let Some((watch, limit_ms)) = self.started.get()
            && limit_ms > 0
            && watch.elapsed().as_millis() >= u128::from(limit_ms)
        {
            self.stop.set(Some(Stop::Time(limit_ms)));
        } else if self.kills.load(Ordering::Relaxed) != self.kills_seen.get() {
            self.stop.set(Some(Stop::Killed));
        }
        self.stop.get().is_some()
    }

    /// Ends the script.
    pub(super) fn stop(&self, stop: Stop) {
        self.stop.set(Some(stop));
    }

    pub(super) fn check(&self) -> mlua::Result<()> {
        if self.is_over() { Err(Raised::Stop.into()) } else { Ok(()) }
    }

    fn begin(&self, limit_ms: u64) {
        self.kills_seen.set(self.kills.load(Ordering::Relaxed));
        self.started.set(Some((Stopwatch::start(), limit_ms)));
        self.stop.set(None);
        self.resp3.set(false);
    }
}

/// A Lua state.
pub(super) struct World {
    pub(super) lua: Lua,
    pub(super) shared: Rc<Shared>,
    /// The table behind `redis`.
    pub(super) redis: Table,
    /// The table behind the globals.
    pub(super) env: Table,
    pub(super) names: Names,
    run: Function,
    call: Function,
    load: Function,
}

/// How a script ended.
pub(super) type Ended = mlua::Result<(bool, Value)>;

impl World {
    /// A new one. `seed`: for math.random; `kills`: grows when a script is to be killed.
    pub(super) fn new(purpose: For, seed: u64, kills: Arc<AtomicU64>) -> mlua::Result<World> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libs, LuaOptions::default())?;
        let shared = Rc::new(Shared {
            started: Cell::new(None),
            stop: Cell::new(None),
            kills_seen: Cell::new(kills.load(Ordering::Relaxed)),
            kills,
            resp3: Cell::new(false),
            random: Cell::new(seed),
            log: RefCell::default(),
            registered: RefCell::new(None),
        });
        let native = lua.create_table()?;
        native.raw_set("PATTERN_BYTES_MAX", SCRIPT_PATTERN_BYTES_MAX)?;
        let redis = api::fill(&lua, &native, purpose, &shared)?;
        lib::fill(&lua, &native)?;
        let state = Rc::clone(&shared);
        native.raw_set(
            "caught",
            lua.create_function(move |lua, value: Value| {
                state.check()?;
                raise::shown(lua, value)
            })?,
        )?;
        native.raw_set("place", lua.create_function(|lua, ()| Ok(raise::place(lua)))?)?;
        let state = Rc::clone(&shared);
        native.raw_set("pause", lua.create_function(move |_, ()| state.check())?)?;
        let state = Rc::clone(&shared);
        native.raw_set("search", lua.create_function(move |lua, given| search(lua, &state, given))?)?;
        let prelude =
            lua.load(include_str!("prelude.lua")).set_name(raise::PRELUDE).set_mode(ChunkMode::Text);
        let world: Table = prelude.call((native, purpose == For::Functions))?;
        lua.set_globals(world.raw_get("globals")?)?;
        let state = Rc::clone(&shared);
        let hook = HookTriggers::new().every_nth_instruction(SCRIPT_INSTRUCTIONS_BETWEEN_LOOKS);
        lua.set_global_hook(hook, move |_, _| state.check().map(|()| VmState::Continue))?;
        let (run, call, load) = (world.raw_get("run")?, world.raw_get("call")?, world.raw_get("load")?);
        let names = Names::new(&lua)?;
        Ok(World { env: world.raw_get("env")?, names, lua, shared, redis, run, call, load })
    }

    /// Compiles a text. `chunk`: what errors call it.
    pub(super) fn compile(&self, code: &[u8], chunk: &str) -> Result<Function, String> {
        if code.first() == Some(&0x1B) {
            return Err(format!("{}:1: unexpected symbol near 'char(27)'", &chunk[1..]));
        }
        let function = self.lua.load(code).set_name(chunk).set_mode(ChunkMode::Text).into_function();
        function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    /// Runs something within the limits of time and memory. Outside of it there is none of memory, because with one every
    /// call into Lua costs several times as much.
    fn limited(&self, limit_ms: u64, run: impl FnOnce() -> Ended) -> Ended {
        self.shared.begin(limit_ms);
        self.lua.set_memory_limit(SCRIPT_MEMORY_BYTES_MAX)?;
        let ended = run();
        self.lua.set_memory_limit(0)?;
        ended
    }

    /// Runs a script to its end, or until it has taken so many milliseconds.
    pub(super) fn run(&self, script: &Function, limit_ms: u64) -> Ended {
        self.limited(limit_ms, || self.run.call(script))
    }

    /// Runs a function of a library.
    pub(super) fn call(&self, function: &Function, keys: Table, args: Table, limit_ms: u64) -> Ended {
        self.limited(limit_ms, || self.call.call((function, keys, args)))
    }

    /// Runs the text of a library, which registers its functions.
    pub(super) fn load(&self, library: &Function, limit_ms: u64) -> Ended {
        self.limited(limit_ms, || self.load.call(library))
    }

    /// Lets redis.call be this, until it is bound anew.
    pub(super) fn bind(&self, call: Function) -> mlua::Result<()> {
        self.redis.raw_set("call", call)
    }

    /// Why the last script was stopped, if it was.
    pub(super) fn stopped(&self) -> Option<Stop> {
        self.shared.stop.get()
    }
}

/// `native.search(text, pattern, init, anchored)`: true, and where the pattern fits with what it captured; false and the
/// words when it is no pattern.
fn search(
    lua: &Lua,
    shared: &Shared,
    (text, pattern, init, anchored): (LuaString, LuaString, f64, bool),
) -> mlua::Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let is_over = || shared.is_over();
    let init = (init.max(1.0) - 1.0) as usize;
    let mut values = vec![Value::Boolean(true)];
    match pattern::search(&text, &pattern, init, anchored, &is_over) {
        Ok(None) => values.push(Value::Nil),
        Ok(Some(found)) => {
            values.push(Value::Number(found.start as f64 + 1.0));
            values.push(Value::Number(found.end as f64));
            for capture in found.captures {
                values.push(match capture {
                    Capture::Text(start, len) => Value::String(lua.create_string(&text[start..start + len])?),
                    Capture::Place(at) | Capture::Open(at) => Value::Number(at as f64 + 1.0),
                });
            }
        }
        Err(Trouble::Malformed(words)) => {
            values = vec![Value::Boolean(false), Value::String(lua.create_string(words)?)];
        }
        Err(Trouble::Stopped) => return Err(Raised::Stop.into()),
    }
    Ok(MultiValue::from_vec(values))
}
