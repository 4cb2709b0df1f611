//! The `redis` table of scripts, but for `call` and `pcall`. It touches nothing.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::flags::{ScriptFlags, check_name};
use super::raise::{Raised, bad_argument, bad_type, failed};
use super::world::{For, Shared};
use super::{call, convert, random, sha1};
use crate::args::Command;
use crate::connection::REDIS_VERSION;
use crate::dispatch;
use crate::limits::SCRIPT_LOG_LINES_MAX;

/// The version as one number: a byte for each of its parts.
const REDIS_VERSION_NUMBER: u32 = 0x0007_0400;

/// A function that a library registers.
pub(super) struct Registered {
    pub(super) name: Vec<u8>,
    pub(super) description: Option<Vec<u8>>,
    pub(super) flags: ScriptFlags,
    pub(super) callback: Function,
}

fn raised(words: &str) -> mlua::Error {
    Raised::Table(format!("ERR {words}"), false).into()
}

/// Puts the tables `redis` and `loading` and the functions of chance among what the prelude is handed.
pub(super) fn fill(lua: &Lua, native: &Table, purpose: For, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let loading = lua.create_table()?;
    for table in [&redis, &loading] {
        table.raw_set("REDIS_VERSION", REDIS_VERSION)?;
        table.raw_set("REDIS_VERSION_NUM", REDIS_VERSION_NUMBER)?;
        for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate()
        {
            table.raw_set(name, level)?;
        }
        let state = Rc::clone(shared);
        table.raw_set("log", lua.create_function(move |_, args: MultiValue| log(&state, &args))?)?;
    }
    for (name, value) in
        [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)]
    {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("sha1hex", lua.create_function(|lua, args| sha1hex(lua, &args))?)?;
    redis.raw_set("error_reply", lua.create_function(|lua, args| error_reply(lua, &args))?)?;
    redis.raw_set("status_reply", lua.create_function(|lua, args| status_reply(lua, &args))?)?;
    redis.raw_set("set_repl", lua.create_function(|lua, args| set_repl(lua, &args))?)?;
    redis.raw_set("acl_check_cmd", lua.create_function(|lua, args| acl_check_cmd(lua, &args))?)?;
    let state = Rc::clone(shared);
    redis.raw_set("setresp", lua.create_function(move |_, args: MultiValue| setresp(&state, &args))?)?;
    if purpose == For::Scripts {
        redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
        redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
        redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    }
    let state = Rc::clone(shared);
    let register = lua.create_function(move |_, args: MultiValue| register(&state, &args))?;
    loading.raw_set("register_function", register)?;
    let state = Rc::clone(shared);
    native.raw_set("random", lua.create_function(move |lua, args| roll(lua, &state, &args))?)?;
    let state = Rc::clone(shared);
    native.raw_set("randomseed", lua.create_function(move |lua, args| seed(lua, &state, &args))?)?;
    native.raw_set("redis", &redis)?;
    native.raw_set("loading", loading)?;
    Ok(redis)
}

fn log(shared: &Shared, args: &MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(raised("redis.log() requires two arguments or more."));
    }
    let Some(level) = args.front().and_then(number) else {
        return Err(raised("First argument must be a number (log level)."));
    };
    let level = u8::try_from(level as i64).ok().filter(|level| *level <= 3);
    let level = level.ok_or_else(|| raised("Invalid debug level."))?;
    let words: Vec<String> =
        args.iter().skip(1).filter_map(|value| text(value).as_deref().map(lossy)).collect();
    let mut log = shared.log.borrow_mut();
    if log.len() < SCRIPT_LOG_LINES_MAX {
        log.push((level, words.join(" ")));
    }
    Ok(())
}

fn sha1hex(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    if args.len() != 1 {
        return Err(raised("wrong number of arguments"));
    }
    let bytes = args.front().and_then(text).unwrap_or_default();
    Ok(Value::String(lua.create_string(sha1::hex(&bytes))?))
}

fn error_reply(lua: &Lua, args: &MultiValue) -> mlua::Result<Table> {
    let words = match (args.len(), args.front()) {
        (1, Some(Value::String(words))) => convert::line_of(&words.as_bytes()),
        _ => "ERR wrong number or type of arguments".into(),
    };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", convert::coded(words.strip_prefix('-').unwrap_or(&words)))?;
    Ok(table)
}

fn status_reply(lua: &Lua, args: &MultiValue) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    match (args.len(), args.front()) {
        (1, Some(Value::String(words))) => table.raw_set("ok", words)?,
        _ => table.raw_set("err", "ERR wrong number or type of arguments")?,
    }
    Ok(table)
}

/// Nothing is replicated: what is said is checked, and that is all.
fn set_repl(_: &Lua, args: &MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(raised("redis.set_repl() requires two arguments."));
    }
    let flags = args.front().and_then(number).unwrap_or(0.0) as i64;
    if !(0..=3).contains(&flags) {
        return Err(raised("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."));
    }
    Ok(())
}

/// Whoever may run scripts may run every command.
fn acl_check_cmd(_: &Lua, args: &MultiValue) -> mlua::Result<bool> {
    let mut command = Command::default();
    call::gather(&mut command, args).map_err(|words| Raised::Table(words.into(), false))?;
    let args = command.args();
    let known = crate::table::find(args.name()).is_some_and(|spec| {
        spec.subcommands().is_empty()
            || args.len() < 2
            || crate::table::find_within(spec.subcommands(), args.at(1)).is_some()
    });
    if known || dispatch::resolve(args).is_ok() {
        return Ok(true);
    }
    Err(raised("Invalid command passed to redis.acl_check_cmd()"))
}

fn setresp(shared: &Shared, args: &MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(raised("redis.setresp() requires one argument."));
    }
    match args.front().and_then(number).unwrap_or(0.0) as i64 {
        2 => shared.resp3.set(false),
        3 => shared.resp3.set(true),
        _ => return Err(raised("RESP version must be 2 or 3.")),
    }
    Ok(())
}

fn register(shared: &Shared, args: &MultiValue) -> mlua::Result<()> {
    let mut registered = shared.registered.borrow_mut();
    let Some(registered) = &mut *registered else {
        return Err(raised("redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let function = match args.len() {
        1 => named_arguments(args.front())?,
        2 => positional(args)?,
        _ => return Err(raised("wrong number of arguments to redis.register_function")),
    };
    check_name(&function.name).map_err(|fail| Raised::Table(fail.line().into_owned(), false))?;
    if registered.iter().any(|known| known.name == function.name) {
        return Err(raised("Function already exists in the library"));
    }
    registered.push(function);
    Ok(())
}

fn positional(args: &MultiValue) -> mlua::Result<Registered> {
    let name = args.front().and_then(text);
    let name = name.ok_or_else(|| raised("first argument to redis.register_function must be a string"))?;
    let Some(Value::Function(callback)) = args.get(1).cloned() else {
        return Err(raised("second argument to redis.register_function must be a function"));
    };
    Ok(Registered { name, description: None, flags: ScriptFlags::default(), callback })
}

fn named_arguments(value: Option<&Value>) -> mlua::Result<Registered> {
    let Some(Value::Table(table)) = value else {
        return Err(raised(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ));
    };
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::default());
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = text(&key) else {
            return Err(raised("named argument key given to redis.register_function is not a string"));
        };
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => {
                let wrong = "function_name argument given to redis.register_function must be a string";
                name = Some(text(&value).ok_or_else(|| raised(wrong))?);
            }
            b"description" => {
                let wrong = "description argument given to redis.register_function must be a string";
                description = Some(text(&value).ok_or_else(|| raised(wrong))?);
            }
            b"callback" => {
                let Value::Function(function) = value else {
                    return Err(raised(
                        "callback argument given to redis.register_function must be a function",
                    ));
                };
                callback = Some(function);
            }
            b"flags" => {
                let Value::Table(list) = value else {
                    return Err(raised(
                        "flags argument to redis.register_function must be a table representing function flags",
                    ));
                };
                flags = read_flags(&list)?;
            }
            _ => return Err(raised("unknown argument given to redis.register_function")),
        }
    }
    let name = name.ok_or_else(|| raised("redis.register_function must get a function name argument"))?;
    let callback = callback.ok_or_else(|| raised("redis.register_function must get a callback argument"))?;
    Ok(Registered { name, description, flags, callback })
}

fn read_flags(list: &Table) -> mlua::Result<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for i in 1.. {
        let value: Value = list.get(i)?;
        if value == Value::Nil {
            break;
        }
        let flag = text(&value).and_then(|name| ScriptFlags::named(&name.to_ascii_lowercase()));
        flags = flags.and(flag.ok_or_else(|| raised("unknown flag given"))?);
    }
    Ok(flags)
}

/// `math.random`, as Redis has it: the same numbers for the same seed on every machine.
fn roll(lua: &Lua, shared: &Shared, args: &MultiValue) -> mlua::Result<f64> {
    let mut state = shared.random.get();
    let share = random::share(&mut state);
    shared.random.set(state);
    let int = |at: usize| integer(lua, args, at, "random");
    match args.len() {
        0 => Ok(share),
        1 => {
            let high = int(0)?;
            if high < 1 {
                return Err(bad_argument(lua, 1, "random", "interval is empty"));
            }
            Ok((share * f64::from(high)).floor() + 1.0)
        }
        2 => {
            let (low, high) = (int(0)?, int(1)?);
            if low > high {
                return Err(bad_argument(lua, 2, "random", "interval is empty"));
            }
            let span = high.wrapping_sub(low).wrapping_add(1);
            Ok((share * f64::from(span)).floor() + f64::from(low))
        }
        _ => Err(failed(lua, "wrong number of arguments")),
    }
}

fn seed(lua: &Lua, shared: &Shared, args: &MultiValue) -> mlua::Result<()> {
    shared.random.set(random::seeded(integer(lua, args, 0, "randomseed")?));
    Ok(())
}

fn integer(lua: &Lua, args: &MultiValue, at: usize, name: &str) -> mlua::Result<i32> {
    let value = args.get(at).and_then(number);
    let value = value.ok_or_else(|| bad_type(lua, at + 1, name, "number", args.get(at)))?;
    Ok(convert::c_long(value) as i32)
}

/// A number, or a text that reads as one, as Lua's `lua_tonumber` takes it.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => super::text::parse(&text.as_bytes()),
        _ => None,
    }
}

/// A text, or a number as one, as Lua's `lua_tolstring` takes it.
pub(super) fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(super::text::lua_number(*number as f64).into_bytes()),
        Value::Number(number) => Some(super::text::lua_number(*number).into_bytes()),
        _ => None,
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_same_in_both_forms() {
        let parts = REDIS_VERSION.split('.').map(|part| part.parse::<u32>().unwrap());
        assert_eq!(parts.fold(0, |number, part| number << 8 | part), REDIS_VERSION_NUMBER);
    }
}
