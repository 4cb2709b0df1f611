//! `cjson`: JSON, as lua-cjson 2.1 has it. It touches nothing.
//!
//! As in Redis, what a script sets here stays set for those that follow.

mod decode;
mod encode;

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use super::{check, check_number, check_text, one};
use crate::limits::SCRIPT_DECODE_DEPTH_MAX;
use crate::scripting::convert::c_long;
use crate::scripting::raise::bad_argument;

/// What a script can set.
struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth_max: i32,
    decode_depth_max: i32,
    /// 0: refused, 1: as they are, 2: as null.
    encode_invalid_numbers: usize,
    decode_invalid_numbers: bool,
    keep_buffer: bool,
    precision: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            encode_invalid_numbers: 0,
            decode_invalid_numbers: true,
            keep_buffer: true,
            precision: 14,
        }
    }
}

type Shared = Rc<RefCell<Settings>>;

/// Deeper than this neither way, whatever is set: each level takes from the thread's stack.
fn depth_max(set: i32) -> usize {
    usize::try_from(set).unwrap_or(0).min(SCRIPT_DECODE_DEPTH_MAX)
}

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let settings = Shared::default();
    let add = |name: &'static str, f: fn(&Lua, &Settings, &MultiValue) -> mlua::Result<Value>| {
        let settings = Rc::clone(&settings);
        let function = lua.create_function(move |lua, args: MultiValue| {
            check(lua, args.len() == 1, 1, name, "expected 1 argument")?;
            f(lua, &settings.borrow(), &args)
        })?;
        table.raw_set(name, function)
    };
    add("encode", |lua, settings, args| encode::run(lua, settings, args.front()))?;
    add("decode", |lua, settings, args| decode::run(lua, settings, &check_text(lua, args, 0, "decode")?))?;
    let set = |name: &'static str, max: usize, f: Setter| {
        let settings = Rc::clone(&settings);
        let function = lua.create_function(move |lua, args: MultiValue| {
            check(lua, args.len() <= max, max + 1, name, "found too many arguments")?;
            f(&Given { lua, name, args: &args }, &mut settings.borrow_mut())
        })?;
        table.raw_set(name, function)
    };
    set("encode_sparse_array", 3, |given, settings| {
        let convert = given.switch(0, &mut settings.sparse_convert)?;
        let ratio = given.integer(1, &mut settings.sparse_ratio, 0, i32::MAX)?;
        let safe = given.integer(2, &mut settings.sparse_safe, 0, i32::MAX)?;
        Ok(MultiValue::from_iter([convert, ratio, safe]))
    })?;
    set("encode_max_depth", 1, |given, settings| {
        given.integer(0, &mut settings.encode_depth_max, 1, i32::MAX).map(one)
    })?;
    set("decode_max_depth", 1, |given, settings| {
        given.integer(0, &mut settings.decode_depth_max, 1, i32::MAX).map(one)
    })?;
    set("encode_number_precision", 1, |given, settings| {
        given.integer(0, &mut settings.precision, 1, 14).map(one)
    })?;
    set("encode_keep_buffer", 1, |given, settings| given.switch(0, &mut settings.keep_buffer).map(one))?;
    set("encode_invalid_numbers", 1, |given, settings| {
        given.choice(0, &mut settings.encode_invalid_numbers, &["off", "on", "null"]).map(one)
    })?;
    set("decode_invalid_numbers", 1, |given, settings| {
        given.switch(0, &mut settings.decode_invalid_numbers).map(one)
    })?;
    table.raw_set("new", lua.create_function(|lua, _: MultiValue| self::table(lua))?)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

type Setter = fn(&Given<'_>, &mut Settings) -> mlua::Result<MultiValue>;

/// The arguments of a function that sets something.
struct Given<'a> {
    lua: &'a Lua,
    name: &'static str,
    args: &'a MultiValue,
}

impl Given<'_> {
    fn given(&self, at: usize) -> Option<&Value> {
        self.args.get(at).filter(|value| !value.is_nil())
    }

    fn integer(&self, at: usize, setting: &mut i32, min: i32, max: i32) -> mlua::Result<Value> {
        if self.given(at).is_some() {
            let value = c_long(check_number(self.lua, self.args, at, self.name)?) as i32;
            let words = format!("expected integer between {min} and {max}");
            check(self.lua, min <= value && value <= max, 1, self.name, &words)?;
            *setting = value;
        }
        Ok(Value::Number(f64::from(*setting)))
    }

    fn switch(&self, at: usize, setting: &mut bool) -> mlua::Result<Value> {
        let mut choice = usize::from(*setting);
        let value = self.choice(at, &mut choice, &["off", "on"])?;
        *setting = choice == 1;
        Ok(value)
    }

    /// One of these words; the first two may also be said as false and true.
    fn choice(&self, at: usize, setting: &mut usize, words: &[&str]) -> mlua::Result<Value> {
        match self.given(at) {
            None => {}
            Some(Value::Boolean(yes)) => *setting = usize::from(*yes),
            Some(_) => {
                let word = check_text(self.lua, self.args, at, self.name)?;
                let found = words.iter().position(|known| known.as_bytes() == word);
                *setting = found.ok_or_else(|| {
                    let words = format!("invalid option '{}'", String::from_utf8_lossy(&word));
                    bad_argument(self.lua, at + 1, self.name, &words)
                })?;
            }
        }
        match *setting {
            choice @ (0 | 1) => Ok(Value::Boolean(choice == 1)),
            choice => self.lua.create_string(words[choice]).map(Value::String),
        }
    }
}
