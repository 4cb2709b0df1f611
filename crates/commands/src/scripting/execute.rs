//! One run of a script or a function: what it is given, what it may do, and what becomes of its end.
//! It touches the keyspace, through the commands that it calls.

use std::cell::RefCell;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::call::Running;
use super::convert;
use super::raise;
use super::world::{Stop, World};
use crate::args::{Args, Command};
use crate::ctx::Ctx;
use crate::errors::{Answer, Fail};
use crate::limits::{SCRIPT_MEMORY_BYTES_MAX, SCRIPT_MEMORY_SWEEP_BYTES};
use crate::number;
use crate::session::Session;

/// What is to run.
pub(super) struct Job<'a> {
    /// What errors call it: its SHA1, or the function's name.
    pub(super) name: &'a str,
    pub(super) function: &'a Function,
    /// Whether KEYS and ARGV are globals, or handed to it.
    pub(super) globals: bool,
    /// The arguments of the command; keys begin at 3.
    pub(super) args: Args<'a>,
    /// How many keys there are.
    pub(super) keys: usize,
    /// Whether commands that write are refused.
    pub(super) read_only: bool,
}

/// How many keys a command names, as Redis checks it.
pub(super) fn count_keys(args: Args<'_>, not_a_number: Fail) -> Result<usize, Fail> {
    let count = number::parse_int(args.at(2)).ok_or(not_a_number)?;
    let count = usize::try_from(count).map_err(|_| Fail::fixed("ERR Number of keys can't be negative"))?;
    if count > args.len() - 3 {
        return Err(Fail::fixed("ERR Number of keys can't be greater than number of args"));
    }
    Ok(count)
}

/// Runs it. The second answer tells whether its world is fit for another.
pub(super) fn run(world: &World, session: &mut Session, ctx: &mut Ctx<'_>, job: &Job<'_>) -> (Answer, bool) {
    let may_wait = std::mem::replace(&mut ctx.may_wait, false);
    let limit_ms = ctx.hub.config.script_ms_max();
    let running = Running {
        ctx: &mut *ctx,
        session,
        command: Command::default(),
        read_only: job.read_only,
        broken: None,
    };
    let running = RefCell::new(running);
    let ended = within(world, &running, job, limit_ms);
    let broken = running.into_inner().broken;
    (ctx.may_wait, ctx.wait) = (may_wait, None);
    for (level, line) in world.shared.log.borrow_mut().drain(..) {
        ctx.hub.host.log(level, &line);
    }
    if let Some(fail) = broken {
        return (Err(fail), false);
    }
    if let Some(stop) = world.stopped() {
        return (Err(stopped(stop, job.name)), false);
    }
    let answer = match ended {
        Ok((true, value)) => convert::to_reply(&world.names, &value, world.shared.resp3.get()),
        Ok((false, value)) if is_out_of_memory(&value) => return (Err(out_of_memory(job.name)), false),
        Ok((false, value)) => return (Err(failed(&value, job.name)), true),
        Err(error) => Err(error),
    };
    match answer {
        Ok(reply) => {
            let sweep = world.lua.used_memory() > SCRIPT_MEMORY_SWEEP_BYTES;
            let healthy = !sweep || world.lua.gc_collect().is_ok();
            (Ok(reply), healthy)
        }
        Err(error) if raise::is_memory(&error) => (Err(out_of_memory(job.name)), false),
        Err(error) => {
            let words = format!("ERR Error running script {}, {error}", job.name);
            (Err(Fail::Undone(words.into())), false)
        }
    }
}

/// Runs it with redis.call in place, which lives no longer than this.
fn within(
    world: &World,
    running: &RefCell<Running<'_, '_>>,
    job: &Job<'_>,
    limit_ms: u64,
) -> mlua::Result<(bool, Value)> {
    let (lua, shared) = (&world.lua, &world.shared);
    let call = |lua: &Lua, values: &MultiValue| {
        shared.check()?;
        let Ok(mut running) = running.try_borrow_mut() else {
            return Err(raise::failed(lua, "redis.call is not to be called from itself"));
        };
        // Lua's own limit makes every call from here dear; what an answer takes is looked at when it is there.
        lua.set_memory_limit(0)?;
        let result = running.call(lua, &world.names, values, shared.resp3.get());
        lua.set_memory_limit(SCRIPT_MEMORY_BYTES_MAX)?;
        if running.broken.is_some() {
            shared.stop(Stop::Broken);
        }
        if lua.used_memory() > SCRIPT_MEMORY_BYTES_MAX {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
        result
    };
    lua.scope(|scope| {
        world.bind(scope.create_function(|lua, values: MultiValue| call(lua, &values))?)?;
        let keys = list(lua, job.args.from(3).take(job.keys))?;
        let args = list(lua, job.args.from(3 + job.keys))?;
        if !job.globals {
            return world.call(job.function, keys, args, limit_ms);
        }
        world.env.raw_set("KEYS", keys)?;
        world.env.raw_set("ARGV", args)?;
        world.run(job.function, limit_ms)
    })
}

fn list<'a>(lua: &Lua, items: impl ExactSizeIterator<Item = &'a [u8]>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for (i, item) in items.enumerate() {
        table.raw_set(i + 1, lua.create_string(item)?)?;
    }
    Ok(table)
}

fn is_out_of_memory(value: &Value) -> bool {
    match value {
        Value::String(words) => *words == "not enough memory",
        Value::Error(error) => raise::is_memory(error),
        // Rust's own complaint went through the handler.
        Value::Table(table) => {
            matches!(table.raw_get("err"), Ok(Value::String(words)) if words == "ERR not enough memory")
        }
        _ => false,
    }
}

fn out_of_memory(name: &str) -> Fail {
    let words = format!(
        "OOM Error running script {name}, not enough memory: it wanted more than {} MB, and what it changed is undone",
        SCRIPT_MEMORY_BYTES_MAX >> 20
    );
    Fail::Undone(words.into())
}

fn stopped(stop: Stop, name: &str) -> Fail {
    let killed = "Script killed by user with SCRIPT KILL...";
    let words = match stop {
        Stop::Time(ms) => format!(
            "ERR Error running script {name}, {killed} or because it took longer than {ms} ms; what it changed is undone"
        ),
        Stop::Killed | Stop::Broken => {
            format!("ERR Error running script {name}, {killed}; what it changed is undone")
        }
    };
    Fail::Undone(words.into())
}

/// The answer to a script that ended with an error: its words, and where that was. What it changed stays.
fn failed(value: &Value, name: &str) -> Fail {
    let Value::Table(table) = value else {
        let words = match value {
            Value::String(words) => words.to_string_lossy(),
            _ => "execution failure".into(),
        };
        let words: String = words.chars().take(100).collect();
        return Fail::text(format!("ERR Error running script {name}, {words}"));
    };
    let field = |field: &str| table.get::<Value>(field).ok().and_then(|value| super::api::text(&value));
    let Some(words) = field("err") else {
        return Fail::text(format!("ERR Error running script {name}, execution failure"));
    };
    let mut line = convert::line_of(&words);
    if let (Some(at), Some(source)) = (field("line"), field("source")) {
        let (at, source) = (convert::line_of(&at), convert::line_of(&source));
        line.push_str(&format!(" script: {name}, on {source}:{at}."));
    }
    Fail::text(line)
}
