//! `cmsgpack`: MessagePack. It touches nothing.

use mlua::{Lua, MultiValue, Table, Value};

use super::{check, check_number, check_text, library, one, opt_integer, string};
use crate::limits::{SCRIPT_DECODE_DEPTH_MAX, SCRIPT_UNPACKED_MAX};
use crate::scripting::convert::c_long;
use crate::scripting::raise::{Raised, bad_argument, failed};

/// Tables within tables beyond so many are nothing, so circles end.
const NESTING_MAX: usize = 16;

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = library(
        lua,
        &[("pack", pack), ("unpack", unpack), ("unpack_one", unpack_one), ("unpack_limit", unpack_limit)],
    )?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn pack(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    if args.is_empty() {
        return Err(bad_argument(lua, 0, "pack", "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for value in args {
        encode(value, 0, &mut out)?;
    }
    Ok(one(string(lua, &out)?))
}

fn encode(value: &Value, level: usize, out: &mut Vec<u8>) -> mlua::Result<()> {
    match value {
        Value::String(text) => encode_text(&text.as_bytes(), out),
        Value::Boolean(yes) => out.push(if *yes { 0xC3 } else { 0xC2 }),
        Value::Integer(number) => encode_int(*number, out),
        Value::Number(number) if is_integer(*number) => encode_int(*number as i64, out),
        Value::Number(number) => encode_double(*number, out),
        Value::Table(table) if level < NESTING_MAX => encode_table(table, level, out)?,
        _ => out.push(0xC0),
    }
    Ok(())
}

fn is_integer(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9.3e18 && c_long(number) as f64 == number
}

/// A mark, and a number in as many bytes as it says, high byte first.
fn sized(mark: u8, number: u64, bytes: usize, out: &mut Vec<u8>) {
    out.push(mark);
    out.extend_from_slice(&number.to_be_bytes()[8 - bytes..]);
}

fn encode_text(bytes: &[u8], out: &mut Vec<u8>) {
    match bytes.len() as u64 {
        len @ 0..=31 => out.push(0xA0 | len as u8),
        len @ 32..=0xFF => sized(0xD9, len, 1, out),
        len @ 0x100..=0xFFFF => sized(0xDA, len, 2, out),
        len => sized(0xDB, len, 4, out),
    }
    out.extend_from_slice(bytes);
}

fn encode_int(number: i64, out: &mut Vec<u8>) {
    match number {
        -32..=127 => out.push(number as u8),
        128..=0xFF => sized(0xCC, number as u64, 1, out),
        0x100..=0xFFFF => sized(0xCD, number as u64, 2, out),
        0x1_0000..=0xFFFF_FFFF => sized(0xCE, number as u64, 4, out),
        0x1_0000_0000.. => sized(0xCF, number as u64, 8, out),
        -128..=-33 => sized(0xD0, number as u64, 1, out),
        -32768..=-129 => sized(0xD1, number as u64, 2, out),
        -2_147_483_648..=-32769 => sized(0xD2, number as u64, 4, out),
        _ => sized(0xD3, number as u64, 8, out),
    }
}

fn encode_double(number: f64, out: &mut Vec<u8>) {
    let single = number as f32;
    if f64::from(single) == number {
        sized(0xCA, u64::from(single.to_bits()), 4, out);
    } else {
        sized(0xCB, number.to_bits(), 8, out);
    }
}

fn encode_table(table: &Table, level: usize, out: &mut Vec<u8>) -> mlua::Result<()> {
    let (mut count, mut highest, mut is_list) = (0u64, 0.0f64, true);
    for pair in table.pairs::<Value, Value>() {
        count += 1;
        match pair?.0 {
            Value::Integer(key) if key > 0 && key <= i64::from(i32::MAX) => highest = highest.max(key as f64),
            _ => is_list = false,
        }
    }
    if is_list && highest as u64 == count {
        let len = table.raw_len() as u64;
        match len {
            0..=15 => out.push(0x90 | len as u8),
            16..=0xFFFF => sized(0xDC, len, 2, out),
            _ => sized(0xDD, len, 4, out),
        }
        for i in 1..=len {
            encode(&table.get::<Value>(i)?, level + 1, out)?;
        }
        return Ok(());
    }
    match count {
        0..=15 => out.push(0x80 | count as u8),
        16..=0xFFFF => sized(0xDE, count, 2, out),
        _ => sized(0xDF, count, 4, out),
    }
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        encode(&key, level + 1, out)?;
        encode(&value, level + 1, out)?;
    }
    Ok(())
}

fn unpack(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let bytes = check_text(lua, args, 0, "unpack")?;
    unpack_from(lua, "unpack", &bytes, 0, 0)
}

fn unpack_one(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let offset = opt_integer(lua, args, 1, "unpack_one", 0)?;
    let bytes = check_text(lua, args, 0, "unpack_one")?;
    unpack_from(lua, "unpack_one", &bytes, 1, offset)
}

fn unpack_limit(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let limit = c_long(check_number(lua, args, 1, "unpack_limit")?);
    let offset = opt_integer(lua, args, 2, "unpack_limit", 0)?;
    let bytes = check_text(lua, args, 0, "unpack_limit")?;
    unpack_from(lua, "unpack_limit", &bytes, limit, offset)
}

fn unpack_from(lua: &Lua, name: &str, bytes: &[u8], limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let all = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        let words = format!(
            "Invalid request to unpack with offset of {} and limit of {}.",
            offset as i32,
            bytes.len()
        );
        return Err(failed(lua, words));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else {
        let words = format!("Start offset {} greater than input length {}.", offset as i32, bytes.len());
        return Err(failed(lua, words));
    };
    let mut input = Input { lua, rest };
    let mut values = Vec::new();
    while !input.rest.is_empty() && (all || (values.len() as i64) < limit) {
        check(
            lua,
            values.len() < SCRIPT_UNPACKED_MAX,
            1,
            name,
            "too many return values at once; use unpack_one or unpack_limit instead.",
        )?;
        values.push(input.value(0)?);
    }
    if !all {
        let left = input.rest.len();
        let next = if left == 0 { -1.0 } else { (bytes.len() - left) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(MultiValue::from_vec(values))
}

struct Input<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> mlua::Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(failed(self.lua, "Missing bytes in input."));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A number of so many bytes, high byte first.
    fn number(&mut self, bytes: usize) -> mlua::Result<u64> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn text(&mut self, len: u64) -> mlua::Result<Value> {
        let bytes = self.take(len as usize)?;
        string(self.lua, bytes)
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        let first = self.number(1)? as u8;
        let signed = |number: i64| Ok(Value::Number(number as f64));
        match first {
            0..=0x7F => signed(i64::from(first)),
            0xE0.. => signed(i64::from(first as i8)),
            0xA0..=0xBF => self.text(u64::from(first & 0x1F)),
            0x90..=0x9F => self.list(u64::from(first & 0xF), depth),
            0x80..=0x8F => self.map(u64::from(first & 0xF), depth),
            0xC0 => Ok(Value::Nil),
            0xC2 => Ok(Value::Boolean(false)),
            0xC3 => Ok(Value::Boolean(true)),
            0xCA => Ok(Value::Number(f64::from(f32::from_bits(self.number(4)? as u32)))),
            0xCB => Ok(Value::Number(f64::from_bits(self.number(8)?))),
            0xCC => signed(self.number(1)? as i64),
            0xCD => signed(self.number(2)? as i64),
            0xCE => signed(self.number(4)? as i64),
            0xCF => Ok(Value::Number(self.number(8)? as i64 as f64)),
            0xD0 => signed(i64::from(self.number(1)? as i8)),
            0xD1 => signed(i64::from(self.number(2)? as i16)),
            0xD2 => signed(i64::from(self.number(4)? as i32)),
            0xD3 => signed(self.number(8)? as i64),
            0xD9..=0xDB => {
                let len = self.number(1 << (first - 0xD9))?;
                self.text(len)
            }
            0xDC | 0xDD => {
                let len = self.number(if first == 0xDC { 2 } else { 4 })?;
                self.list(len, depth)
            }
            0xDE | 0xDF => {
                let len = self.number(if first == 0xDE { 2 } else { 4 })?;
                self.map(len, depth)
            }
            _ => Err(failed(self.lua, "Bad data format in input.")),
        }
    }

    fn deeper(&self, depth: usize) -> mlua::Result<usize> {
        if depth >= SCRIPT_DECODE_DEPTH_MAX {
            return Err(failed(self.lua, "stack overflow (in function mp_decode_to_lua_array)"));
        }
        Ok(depth + 1)
    }

    fn list(&mut self, len: u64, depth: usize) -> mlua::Result<Value> {
        let depth = self.deeper(depth)?;
        let table = self.lua.create_table()?;
        for i in 1..=len {
            table.raw_set(i, self.value(depth)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: u64, depth: usize) -> mlua::Result<Value> {
        let depth = self.deeper(depth)?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth)?;
            let value = self.value(depth)?;
            match key {
                Value::Nil => return Err(Raised::Words(b"table index is nil".to_vec()).into()),
                Value::Number(number) if number.is_nan() => {
                    return Err(Raised::Words(b"table index is NaN".to_vec()).into());
                }
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}
