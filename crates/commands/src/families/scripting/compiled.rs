//! The per-thread cache of compiled code: scripts by SHA-1, functions by library. It touches nothing.
//!
//! Invariant: the cache belongs to one hub, and to the time since its last flush or change.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_lua::Value;

use super::api::Registered;
use super::execute::{stopped, words_of};
use super::flags::{self, ScriptFlags};
use super::libraries::{FunctionRow, Library};
use super::sha1::Digits;
use super::world::{Deadline, For, Run, Stop, Uncompiled, World};
use crate::bounds::{
    FUNCTION_LOAD_MS_MAX, SCRIPT_MEMORY_BYTES_MAX, SCRIPTS_COMPILED_BYTES_MAX, SCRIPTS_COMPILED_MAX,
};
use crate::errors::Fail;
use crate::hub::{Client, Hub};
use crate::session::Session;

thread_local! {
    static SCRIPTS: Cell<Option<Box<Scripts>>> = const { Cell::new(None) };
    static FUNCTIONS: Cell<Option<Box<Functions>>> = const { Cell::new(None) };
}

/// A script that is ready to run.
pub(super) struct Script {
    pub(super) function: Value,
    /// The flags of its shebang line; `None` without one.
    pub(super) flags: Option<ScriptFlags>,
}

/// A thread's scripts.
pub(super) struct Scripts {
    hub: u64,
    flushes: u64,
    world: World,
    session: Session,
    by_digits: HashMap<Digits, Script, RandomState>,
    bytes: usize,
}

fn session() -> Session {
    Session::new(Arc::new(Client::unlisted()), true)
}

impl Scripts {
    /// This thread's scripts, empty if they were flushed. They must be [put back](Scripts::put_back) to be reused.
    pub(super) fn take(hub: &Hub) -> Result<Box<Scripts>, Fail> {
        let (id, flushes) = (hub.scripts.id, hub.scripts.flushes());
        if let Some(scripts) = SCRIPTS.take()
            && scripts.hub == id
            && scripts.flushes == flushes
            && scripts.by_digits.len() < SCRIPTS_COMPILED_MAX
            && scripts.bytes < SCRIPTS_COMPILED_BYTES_MAX
            && scripts.world.vm.base_bytes() < SCRIPT_MEMORY_BYTES_MAX
        {
            return Ok(scripts);
        }
        let world = new_world(For::Scripts, &hub.scripts.scripts.kills)?;
        let (by_digits, bytes) = (HashMap::default(), 0);
        Ok(Box::new(Scripts { hub: id, flushes, world, session: session(), by_digits, bytes }))
    }

    pub(super) fn put_back(self: Box<Self>) {
        SCRIPTS.set(Some(self));
    }

    pub(super) fn has(&self, digits: &Digits) -> bool {
        self.by_digits.contains_key(digits)
    }

    /// A compiled script, and its world.
    pub(super) fn get(&mut self, digits: &Digits) -> Option<(&Script, &mut World, &mut Session)> {
        Some((self.by_digits.get(digits)?, &mut self.world, &mut self.session))
    }

    /// Compiles a text, within so many milliseconds.
    pub(super) fn compile(&mut self, digits: Digits, text: &[u8], max_ms: u64) -> Result<(), Fail> {
        let (flags, begin) = flags::of_script(text)?;
        let deadline = Deadline::new(max_ms, &self.world.kills);
        let function =
            self.world.compile(deadline, &text[begin..], "@user_script").map_err(|error| match error {
                Uncompiled::Words(words) => {
                    Fail::text(format!("ERR Error compiling script (new function): {words}"))
                }
                Uncompiled::Stopped(stop) => stopped(stop, std::str::from_utf8(&digits).unwrap_or_default()),
            })?;
        self.bytes += text.len();
        self.by_digits.insert(digits, Script { function, flags });
        Ok(())
    }
}

/// A thread's functions.
pub(super) struct Functions {
    hub: u64,
    changes: u64,
    pub(super) world: World,
    pub(super) session: Session,
    by_library: HashMap<Vec<u8>, Loaded, RandomState>,
}

/// A loaded library.
struct Loaded {
    library: Arc<Library>,
    functions: Vec<Registered>,
}

impl Functions {
    /// This thread's functions. They must be put back to be reused.
    pub(super) fn take(hub: &Hub) -> Result<Box<Functions>, Fail> {
        let (id, changes) = (hub.scripts.id, hub.scripts.library_changes());
        if let Some(mut functions) = FUNCTIONS.take()
            && functions.hub == id
        {
            if functions.changes != changes {
                functions.changes = changes;
                let libraries = hub.scripts.libraries();
                // A library that has not changed keeps its state.
                functions.by_library.retain(|name, loaded| {
                    libraries.get(name).is_some_and(|library| Arc::ptr_eq(library, &loaded.library))
                });
            }
            return Ok(functions);
        }
        let world = new_world(For::Functions, &hub.scripts.functions.kills)?;
        let by_library = HashMap::default();
        Ok(Box::new(Functions { hub: id, changes, world, session: session(), by_library }))
    }

    pub(super) fn put_back(self: Box<Self>) {
        FUNCTIONS.set(Some(self));
    }

    /// A function of a library, which is loaded if this thread has not done so.
    pub(super) fn get(&mut self, library: &Arc<Library>, name: &[u8]) -> Result<Value, Fail> {
        if !self.by_library.contains_key(&library.name) {
            let functions = load(&mut self.world, &library.code)?;
            self.by_library.insert(library.name.clone(), Loaded { library: Arc::clone(library), functions });
        }
        let loaded = self.by_library.get(&library.name);
        let found = loaded.and_then(|loaded| loaded.functions.iter().find(|row| row.name == name));
        found.map(|row| row.callback).ok_or(Fail::fixed("ERR Function not found"))
    }
}

fn new_world(purpose: For, kills: &Arc<AtomicU64>) -> Result<World, Fail> {
    let world = World::new(purpose, Arc::clone(kills));
    world.map_err(|_| Fail::fixed("ERR a Lua machine does not fit into SCRIPT_MEMORY_BYTES_MAX"))
}

/// The functions of a library, determined by loading it in a world of its own.
pub(super) fn rows(hub: &Hub, code: &[u8]) -> Result<Vec<FunctionRow>, Fail> {
    let mut world = new_world(For::Functions, &hub.scripts.functions.kills)?;
    let registered = load(&mut world, code)?;
    let rows = registered.into_iter().map(|row| FunctionRow {
        name: row.name,
        description: row.description,
        flags: row.flags,
    });
    Ok(rows.collect())
}

/// Runs the text of a library and returns the functions that it registered, which are then available to all runs.
fn load(world: &mut World, code: &[u8]) -> Result<Vec<Registered>, Fail> {
    let (_, begin) = flags::of_library(code)?;
    let deadline = |world: &World| Deadline::new(FUNCTION_LOAD_MS_MAX, &world.kills);
    let function = world.compile(deadline(world), &code[begin..], "@user_function");
    let function = function.map_err(|error| match error {
        Uncompiled::Words(words) => Fail::text(format!("ERR Error compiling function: {words}")),
        Uncompiled::Stopped(stop) => not_registered(stop),
    })?;
    let mut run = Run::new(world, deadline(world), None);
    run.registered = Some(Vec::new());
    match world.load(&mut run, function) {
        Ok(_) => {
            world.vm.end_calls();
            world.vm.keep();
            Ok(run.registered.unwrap_or_default())
        }
        Err(error) => {
            let fail = match (error.stopped(), words_of(&world.vm, &error)) {
                (None, Some(words)) => Fail::text(format!("ERR Error registering functions: {words}")),
                _ => not_registered(run.stop.unwrap_or(Stop::Memory)),
            };
            world.vm.reset();
            Err(fail)
        }
    }
}

fn not_registered(stop: Stop) -> Fail {
    let words = match stop {
        Stop::Time(_) => "FUNCTION LOAD timeout",
        Stop::Memory => "not enough memory",
        Stop::Killed | Stop::Broken => "Script killed by user with SCRIPT KILL...",
    };
    Fail::text(format!("ERR Error registering functions: ERR {words}"))
}
