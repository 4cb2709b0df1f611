//! Errors on their way through Lua: how functions written in Rust raise them, and what a script gets when it catches one.
//! It touches nothing.

use mlua::{Error, Lua, Value};

/// What a function raises.
#[derive(Debug)]
pub(super) enum Raised {
    /// Words, as Lua's own functions raise them.
    Words(Vec<u8>),
    /// A table with the words in `err`, as redis.call raises it; whether a command refused, and has counted it.
    Table(String, bool),
    /// The script has been stopped: nothing may catch this.
    Stop,
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Words(words) => f.write_str(&String::from_utf8_lossy(words)),
            Raised::Table(words, _) => f.write_str(words),
            Raised::Stop => f.write_str("the script has been stopped"),
        }
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for Error {
    fn from(raised: Raised) -> Error {
        Error::external(raised)
    }
}

/// C's `luaL_error`: the words with the place of the caller before them.
pub(super) fn failed(lua: &Lua, words: impl AsRef<[u8]>) -> Error {
    let place = lua.inspect_stack(1, |debug| {
        let line = debug.current_line()?;
        Some(format!("{}:{line}: ", debug.source().short_src?))
    });
    let mut text = place.flatten().unwrap_or_default().into_bytes();
    text.extend_from_slice(words.as_ref());
    Raised::Words(text).into()
}

/// The chunk that the prelude's functions are of.
pub(super) const PRELUDE: &str = "=keystead";

/// Where an error happened, for the handler of errors that nobody caught: source and line. As Redis has it, where a C
/// function failed that is where it was called; functions of the prelude stand for C functions.
pub(super) fn place(lua: &Lua) -> (Option<String>, i64) {
    // 0 is this function, 1 the handler.
    let frame = |level: usize| {
        lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let line = debug.current_line().and_then(|line| i64::try_from(line).ok()).unwrap_or(-1);
            (source.what, source.source.map(|source| source.into_owned()), line)
        })
    };
    let mut level = 2;
    let mut found = frame(level);
    if found.as_ref().is_some_and(|(what, ..)| *what == "C") {
        level += 1;
        found = frame(level);
    }
    // A call of the prelude that took the place of another leaves a mark in between.
    let mut within = false;
    while let Some((what, source, _)) = &found {
        let prelude = source.as_deref() == Some(PRELUDE);
        if !(prelude || within && *what == "tail") {
            break;
        }
        within |= prelude;
        level += 1;
        found = frame(level);
    }
    found.map_or((None, -1), |(_, source, line)| (source, line))
}

/// C's `luaL_argerror`.
pub(super) fn bad_argument(lua: &Lua, number: usize, name: &str, words: &str) -> Error {
    failed(lua, format!("bad argument #{number} to '{name}' ({words})"))
}

/// C's `luaL_typerror`.
pub(super) fn bad_type(lua: &Lua, number: usize, name: &str, wanted: &str, got: Option<&Value>) -> Error {
    let got = got.map_or("no value", type_name);
    bad_argument(lua, number, name, &format!("{wanted} expected, got {got}"))
}

/// The name of a value's type, as Lua has it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// An error as a script sees it that has caught it.
pub(super) fn shown(lua: &Lua, value: Value) -> mlua::Result<Value> {
    match value {
        Value::Error(error) => from_error(lua, &error),
        other => Ok(other),
    }
}

fn from_error(lua: &Lua, error: &Error) -> mlua::Result<Value> {
    match error {
        Error::CallbackError { cause, .. } => from_error(lua, cause),
        Error::ExternalError(inner) => match inner.downcast_ref::<Raised>() {
            Some(Raised::Words(words)) => lua.create_string(words).map(Value::String),
            Some(Raised::Table(words, counted)) => table(lua, words, *counted),
            Some(Raised::Stop) | None => lua.create_string(error.to_string()).map(Value::String),
        },
        Error::MemoryError(_) => lua.create_string("not enough memory").map(Value::String),
        Error::RuntimeError(words) => lua.create_string(words).map(Value::String),
        other => lua.create_string(other.to_string()).map(Value::String),
    }
}

/// An error table, as redis.pcall gives it.
pub(super) fn table(lua: &Lua, words: &str, counted: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", words)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

/// Whether memory ran out.
pub(super) fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } => is_memory(cause),
        _ => false,
    }
}
