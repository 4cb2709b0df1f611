//! Answers as Lua values, and Lua values as answers, as Redis converts them. It touches nothing.

use keystead_model::Bytes;
use mlua::{Lua, LuaString, Table, Value};

use super::raise;
use crate::errors::Fail;
use crate::limits::SCRIPT_REPLY_DEPTH_MAX;
use crate::number::format_float;
use crate::reply::Reply;

/// Names of fields, which need not be made anew for every table.
pub(super) struct Names {
    ok: LuaString,
    okay: LuaString,
    err: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    map: LuaString,
    set: LuaString,
}

impl Names {
    pub(super) fn new(lua: &Lua) -> mlua::Result<Names> {
        Ok(Names {
            ok: lua.create_string("ok")?,
            okay: lua.create_string("OK")?,
            err: lua.create_string("err")?,
            double: lua.create_string("double")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
        })
    }
}

/// An answer as a script gets it. `resp3`: the script asked for maps, sets and doubles (`redis.setresp(3)`).
pub(super) fn to_lua(lua: &Lua, names: &Names, reply: &Reply, resp3: bool) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Ok => Value::Table(field(lua, &names.ok, &names.okay)?),
        Reply::Status(text) => Value::Table(field(lua, &names.ok, &**text)?),
        Reply::Int(value) => Value::Number(*value as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Nil | Reply::NilArray if resp3 => Value::Nil,
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        Reply::Array(items) | Reply::Push(items) | Reply::Several(items) => {
            list(lua, names, items.iter(), items.len(), resp3)?
        }
        Reply::Set(items) if resp3 => {
            let set = lua.create_table_with_capacity(0, items.len())?;
            for item in items {
                set.raw_set(to_lua(lua, names, item, resp3)?, true)?;
            }
            Value::Table(field(lua, &names.set, set)?)
        }
        Reply::Set(items) => list(lua, names, items.iter(), items.len(), resp3)?,
        Reply::Map(pairs) | Reply::Dict(pairs) if resp3 => map(lua, names, pairs)?,
        Reply::Map(pairs) => flat(lua, names, pairs, resp3)?,
        Reply::Pairs(pairs) if !resp3 => flat(lua, names, pairs, resp3)?,
        Reply::Pairs(pairs) | Reply::Dict(pairs) => {
            let table = lua.create_table_with_capacity(pairs.len(), 0)?;
            for (name, value) in pairs {
                table.raw_push(list(lua, names, [name, value].into_iter(), 2, resp3)?)?;
            }
            Value::Table(table)
        }
        Reply::Double(value) if resp3 => Value::Table(field(lua, &names.double, *value)?),
        Reply::Double(value) => Value::String(lua.create_string(format_float(*value))?),
        Reply::Number(text) if resp3 => {
            let value = crate::number::parse_float(text.as_bytes()).unwrap_or(f64::NAN);
            Value::Table(field(lua, &names.double, value)?)
        }
        Reply::BigNumber(text) if resp3 => Value::Table(field(lua, &names.big_number, &**text)?),
        Reply::Number(text) | Reply::BigNumber(text) => Value::String(lua.create_string(text)?),
        Reply::Bool(yes) if resp3 => Value::Boolean(*yes),
        Reply::Bool(yes) => Value::Number(f64::from(u8::from(*yes))),
        Reply::Verbatim(text) if resp3 => {
            let parts = field(lua, "string", &**text)?;
            parts.raw_set("format", "txt")?;
            Value::Table(field(lua, &names.verbatim_string, parts)?)
        }
        Reply::Verbatim(text) => Value::String(lua.create_string(text)?),
        Reply::Error(fail) => raise::table(lua, &error_words(fail), true)?,
    })
}

/// The words of a refusal as scripts get them: one without a code becomes an `ERR`.
pub(super) fn error_words(fail: &Fail) -> String {
    coded(&fail.line())
}

/// An error's words with a code before them.
pub(super) fn coded(line: &str) -> String {
    match line.split_once(' ') {
        Some((code, words)) => format!("{code} {}", words.trim_matches(['\r', '\n'])),
        None => format!("ERR {}", line.trim_matches(['\r', '\n'])),
    }
}

fn field(lua: &Lua, name: impl mlua::IntoLua, value: impl mlua::IntoLua) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(table)
}

fn list<'r>(
    lua: &Lua,
    names: &Names,
    items: impl Iterator<Item = &'r Reply>,
    count: usize,
    resp3: bool,
) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(count, 0)?;
    // By index: nothing (RESP3's null) leaves a hole.
    for (i, item) in items.enumerate() {
        table.raw_set(i + 1, to_lua(lua, names, item, resp3)?)?;
    }
    Ok(Value::Table(table))
}

fn flat(lua: &Lua, names: &Names, pairs: &[(Reply, Reply)], resp3: bool) -> mlua::Result<Value> {
    list(lua, names, pairs.iter().flat_map(|(name, value)| [name, value]), pairs.len() * 2, resp3)
}

fn map(lua: &Lua, names: &Names, pairs: &[(Reply, Reply)]) -> mlua::Result<Value> {
    let map = lua.create_table_with_capacity(0, pairs.len())?;
    for (name, value) in pairs {
        map.raw_set(to_lua(lua, names, name, true)?, to_lua(lua, names, value, true)?)?;
    }
    Ok(Value::Table(field(lua, &names.map, map)?))
}

/// What a script returned, as the answer to the client.
pub(super) fn to_reply(names: &Names, value: &Value, resp3: bool) -> mlua::Result<Reply> {
    nested(names, value, resp3, 0)
}

fn nested(names: &Names, value: &Value, resp3: bool, depth: usize) -> mlua::Result<Reply> {
    if depth > SCRIPT_REPLY_DEPTH_MAX {
        return Ok(Reply::Error(Fail::fixed("ERR reached lua stack limit")));
    }
    Ok(match value {
        Value::String(text) => Reply::Bulk(Bytes::from(&*text.as_bytes())),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(c_long(*number)),
        Value::Boolean(yes) if resp3 => Reply::Bool(*yes),
        Value::Boolean(true) => Reply::Int(1),
        Value::Boolean(false) => Reply::Nil,
        Value::Table(table) => from_table(names, table, resp3, depth + 1)?,
        _ => Reply::Nil,
    })
}

/// C's conversion of a double to a long: what does not fit is the smallest one, as x86 has it.
pub(super) fn c_long(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

fn from_table(names: &Names, table: &Table, resp3: bool, depth: usize) -> mlua::Result<Reply> {
    if let Value::String(words) = table.raw_get(&names.err)? {
        return Ok(Reply::Error(Fail::text(line_of(&words.as_bytes()))));
    }
    if let Value::String(words) = table.raw_get(&names.ok)? {
        let words = c_text(&words.as_bytes()).replace(['\r', '\n'], " ");
        return Ok(Reply::Status(words.into()));
    }
    match table.raw_get(&names.double)? {
        Value::Number(number) => return Ok(Reply::Double(number)),
        Value::Integer(number) => return Ok(Reply::Double(number as f64)),
        _ => {}
    }
    if let Value::String(digits) = table.raw_get(&names.big_number)? {
        return Ok(Reply::BigNumber(digits.to_string_lossy().replace(['\r', '\n'], " ")));
    }
    if let Value::Table(parts) = table.raw_get(&names.verbatim_string)?
        && let (Value::String(_), Value::String(text)) = (parts.raw_get("format")?, parts.raw_get("string")?)
    {
        return Ok(Reply::Verbatim(text.to_string_lossy()));
    }
    if let Value::Table(map) = table.raw_get(&names.map)? {
        let mut pairs = Vec::new();
        for pair in map.pairs::<Value, Value>() {
            let (name, value) = pair?;
            pairs.push((nested(names, &name, resp3, depth)?, nested(names, &value, resp3, depth)?));
        }
        return Ok(Reply::Map(pairs));
    }
    if let Value::Table(set) = table.raw_get(&names.set)? {
        let mut items = Vec::new();
        for pair in set.pairs::<Value, Value>() {
            items.push(nested(names, &pair?.0, resp3, depth)?);
        }
        return Ok(Reply::Set(items));
    }
    let mut items = Vec::with_capacity(table.raw_len());
    for i in 1.. {
        match table.raw_get(i)? {
            Value::Nil => break,
            value => items.push(nested(names, &value, resp3, depth)?),
        }
    }
    Ok(Reply::Array(items))
}

/// The words of an error as they go to the wire.
pub(super) fn line_of(words: &[u8]) -> String {
    c_text(words).trim_matches(['\r', '\n']).to_owned()
}

/// A text as C sees it: it ends at a zero byte.
fn c_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
