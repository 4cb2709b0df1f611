//! The functions that only Redis's scripts have: the `redis` table, and the access to undefined globals.
//! `call` and `pcall` touch the keyspace; the others touch nothing.

use keystead_lua::{Args, Error, Result, TableId, Value, Vm};

use super::call;
use super::convert::{self, error_table};
use super::flags::{ScriptFlags, check_name};
use super::sha1;
use super::world::{For, Run};
use crate::args::Command;
use crate::bounds::{SCRIPT_LOG_LINE_BYTES_MAX, SCRIPT_LOG_LINES_MAX};
use crate::dispatch;
use crate::families::connection::REDIS_VERSION;

/// The version as one number: a byte for each of its parts.
const REDIS_VERSION_NUMBER: u32 = 0x0007_0400;

/// A function that a library registers.
#[derive(Clone)]
pub(super) struct Registered {
    pub(super) name: Vec<u8>,
    pub(super) description: Option<Vec<u8>>,
    pub(super) flags: ScriptFlags,
    pub(super) callback: Value,
}

type HostFn = fn(&mut Run<'_, '_>, &mut Vm, Args) -> Result<usize>;

/// All of them. The lists below say which of them a script sees.
pub(super) const ROWS: &[(&str, HostFn)] = &[
    ("call", call::call),
    ("pcall", call::pcall),
    ("log", log),
    ("sha1hex", sha1hex),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("set_repl", set_repl),
    ("acl_check_cmd", acl_check_cmd),
    ("setresp", setresp),
    ("breakpoint", |_, vm, _| vm.one(false)),
    ("debug", |_, _, _| Ok(0)),
    ("replicate_commands", |_, vm, _| vm.one(true)),
    ("register_function", register),
    ("missing", missing),
    ("__redis__err__handler", handler),
];

const REDIS: &[&str] = &[
    "call",
    "pcall",
    "log",
    "sha1hex",
    "error_reply",
    "status_reply",
    "set_repl",
    "acl_check_cmd",
    "setresp",
];

/// Those that scripts have and functions do not.
const OF_SCRIPTS: &[&str] = &["breakpoint", "debug", "replicate_commands"];

/// A function of [`ROWS`] by its name.
pub(super) fn host_function(vm: &mut Vm, name: &str) -> Value {
    let at = ROWS.iter().position(|(known, _)| *known == name).unwrap_or(ROWS.len());
    vm.host_function(at as u32)
}

fn add(vm: &mut Vm, table: TableId, names: &[&str]) -> Result<()> {
    for name in names {
        let function = host_function(vm, name);
        vm.set_field(table, name, function)?;
    }
    Ok(())
}

/// The functions that both `redis` tables have.
fn common(vm: &mut Vm) -> Result<TableId> {
    let table = vm.table(0, 32)?;
    let version = vm.string(REDIS_VERSION.as_bytes())?;
    vm.set_field(table, "REDIS_VERSION", version)?;
    vm.set_field(table, "REDIS_VERSION_NUM", Value::Num(f64::from(REDIS_VERSION_NUMBER)))?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate() {
        vm.set_field(table, name, Value::Num(level as f64))?;
    }
    Ok(table)
}

/// The table `redis`.
pub(super) fn redis(vm: &mut Vm, purpose: For) -> Result<TableId> {
    let table = common(vm)?;
    for (name, value) in
        [("REPL_NONE", 0.0), ("REPL_AOF", 1.0), ("REPL_SLAVE", 2.0), ("REPL_REPLICA", 2.0), ("REPL_ALL", 3.0)]
    {
        vm.set_field(table, name, Value::Num(value))?;
    }
    add(vm, table, REDIS)?;
    if purpose == For::Scripts {
        add(vm, table, OF_SCRIPTS)?;
    }
    Ok(table)
}

/// The same while a library is being loaded.
pub(super) fn loading(vm: &mut Vm) -> Result<TableId> {
    let table = common(vm)?;
    add(vm, table, &["log", "register_function"])?;
    Ok(table)
}

/// An error table with this message.
pub(super) fn raised(run: &Run<'_, '_>, vm: &mut Vm, words: &str, counted: bool) -> Error {
    match error_table(vm, &run.names, words, counted) {
        Ok(table) => Error::raise(table),
        Err(error) => error,
    }
}

fn script_error(run: &Run<'_, '_>, vm: &mut Vm, words: &str) -> Error {
    raised(run, vm, &format!("ERR {words}"), false)
}

/// `__index` of the globals.
fn missing(_: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    let name = vm.arg(args, 1);
    match vm.coerce_str(name)? {
        Some(name) => {
            let name = String::from_utf8_lossy(vm.bytes(name)).into_owned();
            Err(vm.error(format!("Script attempted to access nonexistent global variable '{name}'")))
        }
        None => Err(vm.error("Second argument to luaRegisterErrorHandler must be a string or number")),
    }
}

/// An error as Redis's error table.
fn handler(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    let value = vm.arg(args, 0);
    if let Value::Table(_) = value {
        return vm.one(value);
    }
    let shown = vm.shown(run, value)?;
    let words = match shown {
        Value::Str(id) => String::from_utf8_lossy(vm.bytes(id)).into_owned(),
        _ => String::new(),
    };
    let table = error_table(vm, &run.names, &format!("ERR {words}"), false)?;
    vm.one(table)
}

fn log(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    if args.len() < 2 {
        return Err(script_error(run, vm, "redis.log() requires two arguments or more."));
    }
    let Some(level) = vm.to_number(vm.arg(args, 0)) else {
        return Err(script_error(run, vm, "First argument must be a number (log level)."));
    };
    let Some(level) = u8::try_from(level as i64).ok().filter(|level| *level <= 3) else {
        return Err(script_error(run, vm, "Invalid debug level."));
    };
    if run.log.len() >= SCRIPT_LOG_LINES_MAX {
        return Ok(0);
    }
    let mut words = Vec::new();
    for at in 1..args.len() {
        let value = vm.arg(args, at);
        let Some(id) = vm.coerce_str(value)? else { continue };
        if !words.is_empty() {
            words.push(b' ');
        }
        let left = SCRIPT_LOG_LINE_BYTES_MAX.saturating_sub(words.len());
        words.extend(vm.bytes(id).iter().take(left));
    }
    run.log.push((level, String::from_utf8_lossy(&words).into_owned()));
    Ok(0)
}

fn sha1hex(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    if args.len() != 1 {
        return Err(script_error(run, vm, "wrong number of arguments"));
    }
    let value = vm.arg(args, 0);
    let digits = match vm.coerce_str(value)? {
        Some(id) => {
            vm.work(run, vm.bytes(id).len() / 2)?;
            sha1::hex(vm.bytes(id))
        }
        None => sha1::hex(b""),
    };
    let digits = vm.string(&digits)?;
    vm.one(digits)
}

fn error_reply(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    let words = match (args.len(), vm.arg(args, 0)) {
        (1, Value::Str(id)) => {
            vm.check_room(2 * vm.bytes(id).len())?;
            convert::line_of(vm.bytes(id))
        }
        _ => "ERR wrong number or type of arguments".into(),
    };
    let words = convert::coded(words.strip_prefix('-').unwrap_or(&words));
    let table = error_table(vm, &run.names, &words, false)?;
    vm.one(table)
}

fn status_reply(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    if let (1, words @ Value::Str(_)) = (args.len(), vm.arg(args, 0)) {
        let table = vm.table(0, 1)?;
        vm.raw_set(table, run.names.ok, words)?;
        return vm.one(table);
    }
    let table = error_table(vm, &run.names, "ERR wrong number or type of arguments", false)?;
    vm.one(table)
}

/// Nothing is replicated: the argument is only checked.
fn set_repl(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    if args.len() != 1 {
        return Err(script_error(run, vm, "redis.set_repl() requires two arguments."));
    }
    let flags = vm.to_number(vm.arg(args, 0)).unwrap_or(0.0) as i64;
    if !(0..=3).contains(&flags) {
        let words = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(script_error(run, vm, words));
    }
    Ok(0)
}

/// A client that may run scripts may run every command.
fn acl_check_cmd(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    let mut command = Command::default();
    if let Err(words) = call::gather(vm, run, &mut command, args)? {
        return Err(raised(run, vm, words, false));
    }
    let args = command.args();
    let known = crate::table::find(args.name()).is_some_and(|spec| {
        spec.subcommands().is_empty()
            || args.len() < 2
            || crate::table::find_within(spec.subcommands(), args.at(1)).is_some()
    });
    if known || dispatch::resolve(args).is_ok() {
        return vm.one(true);
    }
    Err(script_error(run, vm, "Invalid command passed to redis.acl_check_cmd()"))
}

fn setresp(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    if args.len() != 1 {
        return Err(script_error(run, vm, "redis.setresp() requires one argument."));
    }
    match vm.to_number(vm.arg(args, 0)).unwrap_or(0.0) as i64 {
        2 => run.resp3 = false,
        3 => run.resp3 = true,
        _ => return Err(script_error(run, vm, "RESP version must be 2 or 3.")),
    }
    Ok(0)
}

fn register(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    if run.registered.is_none() {
        let words = "redis.register_function can only be called on FUNCTION LOAD command";
        return Err(script_error(run, vm, words));
    }
    let function = match args.len() {
        1 => named_arguments(run, vm, args)?,
        2 => positional(run, vm, args)?,
        _ => return Err(script_error(run, vm, "wrong number of arguments to redis.register_function")),
    };
    if let Err(fail) = check_name(&function.name) {
        return Err(raised(run, vm, &fail.line(), false));
    }
    vm.charge(size_of::<Registered>() + function.name.len())?;
    let known = run.registered.get_or_insert_default();
    if known.iter().any(|known| known.name == function.name) {
        return Err(script_error(run, vm, "Function already exists in the library"));
    }
    let count = run.registered.as_ref().map_or(0, Vec::len);
    vm.work(run, count)?;
    run.registered.get_or_insert_default().push(function);
    Ok(0)
}

/// A string, or a number as one.
fn text(vm: &mut Vm, value: Value) -> Result<Option<Vec<u8>>> {
    Ok(vm.coerce_str(value)?.map(|id| vm.bytes(id).to_vec()))
}

fn is_function(value: Value) -> bool {
    matches!(value, Value::Func(_) | Value::Native(_))
}

fn positional(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<Registered> {
    let name = vm.arg(args, 0);
    let Some(name) = text(vm, name)? else {
        return Err(script_error(run, vm, "first argument to redis.register_function must be a string"));
    };
    let callback = vm.arg(args, 1);
    if !is_function(callback) {
        return Err(script_error(run, vm, "second argument to redis.register_function must be a function"));
    }
    Ok(Registered { name, description: None, flags: ScriptFlags::default(), callback })
}

fn named_arguments(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<Registered> {
    let Value::Table(table) = vm.arg(args, 0) else {
        let words = "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).";
        return Err(script_error(run, vm, words));
    };
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::default());
    let mut at = Value::Nil;
    while let Some((key, value)) = vm.raw_next(table, at)
        && !key.is_nil()
    {
        at = key;
        let Some(key) = text(vm, key)? else {
            let words = "named argument key given to redis.register_function is not a string";
            return Err(script_error(run, vm, words));
        };
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => name = Some(named_text(run, vm, value, "function_name")?),
            b"description" => description = Some(named_text(run, vm, value, "description")?),
            b"callback" if is_function(value) => callback = Some(value),
            b"callback" => {
                let words = "callback argument given to redis.register_function must be a function";
                return Err(script_error(run, vm, words));
            }
            b"flags" => {
                let Value::Table(list) = value else {
                    let words = "flags argument to redis.register_function must be a table representing function flags";
                    return Err(script_error(run, vm, words));
                };
                flags = read_flags(run, vm, list)?;
            }
            _ => return Err(script_error(run, vm, "unknown argument given to redis.register_function")),
        }
    }
    let Some(name) = name else {
        return Err(script_error(run, vm, "redis.register_function must get a function name argument"));
    };
    let Some(callback) = callback else {
        return Err(script_error(run, vm, "redis.register_function must get a callback argument"));
    };
    Ok(Registered { name, description, flags, callback })
}

fn named_text(run: &mut Run<'_, '_>, vm: &mut Vm, value: Value, what: &str) -> Result<Vec<u8>> {
    match text(vm, value)? {
        Some(bytes) => {
            vm.charge(bytes.len())?;
            Ok(bytes)
        }
        None => {
            let words = format!("{what} argument given to redis.register_function must be a string");
            Err(script_error(run, vm, &words))
        }
    }
}

fn read_flags(run: &mut Run<'_, '_>, vm: &mut Vm, list: TableId) -> Result<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for i in 1.. {
        let value = vm.raw_index(list, i);
        if value.is_nil() {
            break;
        }
        let name = text(vm, value)?;
        match name.and_then(|name| ScriptFlags::named(&name.to_ascii_lowercase())) {
            Some(flag) => flags = flags.and(flag),
            None => return Err(script_error(run, vm, "unknown flag given")),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_same_in_both_forms() {
        let parts = REDIS_VERSION.split('.').map(|part| part.parse::<u32>().unwrap());
        assert_eq!(parts.fold(0, |number, part| number << 8 | part), REDIS_VERSION_NUMBER);
    }

    #[test]
    fn every_function_of_a_table_exists() {
        for name in [REDIS, OF_SCRIPTS, &["log", "register_function"]].concat() {
            assert!(ROWS.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
