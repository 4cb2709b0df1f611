//! What each thread keeps compiled: scripts by their SHA1, functions by their library. It touches nothing.
//!
//! Invariant: what is kept here is of one hub, and of the time since its last flush or change.

use std::cell::Cell;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use mlua::Function;

use super::api::Registered;
use super::flags::{self, ScriptFlags};
use super::libraries::{FunctionRow, Library};
use super::raise;
use super::sha1::Digits;
use super::world::{For, Stop, World};
use crate::errors::Fail;
use crate::hub::{Client, Hub};
use crate::limits::{FUNCTION_LOAD_MS_MAX, SCRIPTS_COMPILED_BYTES_MAX, SCRIPTS_COMPILED_MAX};
use crate::session::Session;

thread_local! {
    static SCRIPTS: Cell<Option<Box<Scripts>>> = const { Cell::new(None) };
    static FUNCTIONS: Cell<Option<Box<Functions>>> = const { Cell::new(None) };
}

/// A script that is ready to run.
pub(super) struct Script {
    pub(super) function: Function,
    /// What its first line says; `None` without such a line.
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

fn broken(error: &mlua::Error) -> Fail {
    Fail::text(format!("ERR Lua cannot be started: {error}"))
}

fn session() -> Session {
    Session::new(Arc::new(Client::unlisted()), true)
}

impl Scripts {
    /// This thread's, empty if they were flushed. They must be [put back](Scripts::put_back) to be used again.
    pub(super) fn take(hub: &Hub, seed: u64) -> Result<Box<Scripts>, Fail> {
        let (id, flushes) = (hub.scripts.id, hub.scripts.flushes());
        if let Some(scripts) = SCRIPTS.take()
            && scripts.hub == id
            && scripts.flushes == flushes
            && scripts.by_digits.len() < SCRIPTS_COMPILED_MAX
            && scripts.bytes < SCRIPTS_COMPILED_BYTES_MAX
        {
            return Ok(scripts);
        }
        let kills = Arc::clone(&hub.scripts.scripts.kills);
        let world = World::new(For::Scripts, seed, kills).map_err(|error| broken(&error))?;
        let (by_digits, bytes) = (HashMap::default(), 0);
        Ok(Box::new(Scripts { hub: id, flushes, world, session: session(), by_digits, bytes }))
    }

    pub(super) fn put_back(self: Box<Self>) {
        SCRIPTS.set(Some(self));
    }

    pub(super) fn has(&self, digits: &Digits) -> bool {
        self.by_digits.contains_key(digits)
    }

    /// A script that is compiled, and what it runs in.
    pub(super) fn get(&mut self, digits: &Digits) -> Option<(&Script, &World, &mut Session)> {
        Some((self.by_digits.get(digits)?, &self.world, &mut self.session))
    }

    /// Compiles a text.
    pub(super) fn compile(&mut self, digits: Digits, text: &[u8]) -> Result<(), Fail> {
        let (flags, begin) = flags::of_script(text)?;
        let function = self
            .world
            .compile(&text[begin..], "@user_script")
            .map_err(|words| Fail::text(format!("ERR Error compiling script (new function): {words}")))?;
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

/// A library that is ready.
struct Loaded {
    library: Arc<Library>,
    functions: Vec<Registered>,
}

impl Functions {
    /// This thread's. They must be put back to be used again.
    pub(super) fn take(hub: &Hub, seed: u64) -> Result<Box<Functions>, Fail> {
        let (id, changes) = (hub.scripts.id, hub.scripts.library_changes());
        if let Some(mut functions) = FUNCTIONS.take()
            && functions.hub == id
        {
            if functions.changes != changes {
                functions.changes = changes;
                let libraries = hub.scripts.libraries();
                // A library that is still the same keeps what its functions remember.
                functions.by_library.retain(|name, loaded| {
                    libraries.get(name).is_some_and(|library| Arc::ptr_eq(library, &loaded.library))
                });
            }
            return Ok(functions);
        }
        let kills = Arc::clone(&hub.scripts.functions.kills);
        let world = World::new(For::Functions, seed, kills).map_err(|error| broken(&error))?;
        let by_library = HashMap::default();
        Ok(Box::new(Functions { hub: id, changes, world, session: session(), by_library }))
    }

    pub(super) fn put_back(self: Box<Self>) {
        FUNCTIONS.set(Some(self));
    }

    /// A function of a library, which is loaded if this thread has not done so.
    pub(super) fn get(&mut self, library: &Arc<Library>, name: &[u8]) -> Result<Function, Fail> {
        if !self.by_library.contains_key(&library.name) {
            let functions = load(&self.world, &library.code)?;
            self.by_library.insert(library.name.clone(), Loaded { library: Arc::clone(library), functions });
        }
        let loaded = self.by_library.get(&library.name);
        let found = loaded.and_then(|loaded| loaded.functions.iter().find(|row| row.name == name));
        found.map(|row| row.callback.clone()).ok_or(Fail::fixed("ERR Function not found"))
    }
}

/// The rows of a library's functions, found by loading it in a world of its own.
pub(super) fn rows(hub: &Hub, code: &[u8]) -> Result<Vec<FunctionRow>, Fail> {
    let kills = Arc::clone(&hub.scripts.functions.kills);
    let world = World::new(For::Functions, 0, kills).map_err(|error| broken(&error))?;
    let registered = load(&world, code)?;
    let rows = registered.into_iter().map(|row| FunctionRow {
        name: row.name,
        description: row.description,
        flags: row.flags,
    });
    Ok(rows.collect())
}

/// Runs the text of a library and gives the functions that it registered.
fn load(world: &World, code: &[u8]) -> Result<Vec<Registered>, Fail> {
    let (_, begin) = flags::of_library(code)?;
    let function = world
        .compile(&code[begin..], "@user_function")
        .map_err(|words| Fail::text(format!("ERR Error compiling function: {words}")))?;
    *world.shared.registered.borrow_mut() = Some(Vec::new());
    let ended = world.load(&function, FUNCTION_LOAD_MS_MAX);
    let registered = world.shared.registered.borrow_mut().take().unwrap_or_default();
    let words = match (world.stopped(), ended) {
        (Some(Stop::Time(_)), _) => "ERR FUNCTION LOAD timeout".to_owned(),
        (Some(_), _) => "ERR Script killed by user with SCRIPT KILL...".to_owned(),
        (None, Ok((true, _))) => return Ok(registered),
        (None, Ok((false, value))) => words_of(&value),
        (None, Err(error)) => format!("ERR {error}"),
    };
    Err(Fail::text(format!("ERR Error registering functions: {words}")))
}

fn words_of(value: &mlua::Value) -> String {
    if let mlua::Value::Table(table) = value
        && let Ok(mlua::Value::String(words)) = table.raw_get("err")
    {
        return words.to_string_lossy();
    }
    match super::api::text(value) {
        Some(words) => format!("ERR {}", String::from_utf8_lossy(&words)),
        None => format!("ERR {}", raise::type_name(value)),
    }
}
