//! The libraries of Redis's scripts, written anew: `bit`, `struct`, `cmsgpack`, `cjson`. They touch nothing.

mod bit;
mod cjson;
mod cmsgpack;
mod structs;

use mlua::{Lua, MultiValue, Table, Value};

use super::api;
use super::raise::{bad_argument, bad_type};

/// Puts them among what the prelude is handed.
pub(super) fn fill(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.raw_set("bit", bit::table(lua)?)?;
    native.raw_set("struct", structs::table(lua)?)?;
    native.raw_set("cmsgpack", cmsgpack::table(lua)?)?;
    native.raw_set("cjson", lua.create_function(|lua, ()| cjson::table(lua))?)
}

type Native = fn(&Lua, &MultiValue) -> mlua::Result<MultiValue>;

/// A library of these functions.
fn library(lua: &Lua, functions: &[(&str, Native)]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, functions.len())?;
    for &(name, function) in functions {
        table.raw_set(name, lua.create_function(move |lua, args: MultiValue| function(lua, &args))?)?;
    }
    Ok(table)
}

fn one(value: Value) -> MultiValue {
    MultiValue::from_iter([value])
}

fn string(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    lua.create_string(bytes).map(Value::String)
}

/// The text at `at`, as `luaL_checklstring` takes it.
fn check_text(lua: &Lua, args: &MultiValue, at: usize, name: &str) -> mlua::Result<Vec<u8>> {
    let text = args.get(at).and_then(api::text);
    text.ok_or_else(|| bad_type(lua, at + 1, name, "string", args.get(at)))
}

/// The number at `at`, as `luaL_checknumber` takes it.
fn check_number(lua: &Lua, args: &MultiValue, at: usize, name: &str) -> mlua::Result<f64> {
    let number = args.get(at).and_then(api::number);
    number.ok_or_else(|| bad_type(lua, at + 1, name, "number", args.get(at)))
}

/// The integer at `at`, or another where nothing is given.
fn opt_integer(lua: &Lua, args: &MultiValue, at: usize, name: &str, default: i64) -> mlua::Result<i64> {
    match args.get(at) {
        None | Some(Value::Nil) => Ok(default),
        Some(_) => Ok(super::convert::c_long(check_number(lua, args, at, name)?)),
    }
}

/// `luaL_argcheck`.
fn check(lua: &Lua, holds: bool, number: usize, name: &str, words: &str) -> mlua::Result<()> {
    if holds { Ok(()) } else { Err(bad_argument(lua, number, name, words)) }
}
