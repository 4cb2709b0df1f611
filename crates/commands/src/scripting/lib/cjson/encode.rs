//! `cjson.encode`. It touches nothing.

use mlua::{Lua, Table, Value};

use super::{Settings, depth_max};
use crate::limits::SCRIPT_MEMORY_BYTES_MAX;
use crate::scripting::raise::{failed, type_name};
use crate::scripting::text::general;

pub(super) fn run(lua: &Lua, settings: &Settings, value: Option<&Value>) -> mlua::Result<Value> {
    let mut encoder = Encoder { lua, settings, out: Vec::new() };
    encoder.value(value.unwrap_or(&Value::Nil), 0)?;
    lua.create_string(&encoder.out).map(Value::String)
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn refuse<T>(&self, value: &Value, reason: &str) -> mlua::Result<T> {
        Err(failed(self.lua, format!("Cannot serialise {}: {reason}", type_name(value))))
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        // The buffer is not Lua's: a table that many others hold is written many times.
        if self.out.len() > SCRIPT_MEMORY_BYTES_MAX {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
        match value {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(yes) => self.out.extend_from_slice(if *yes { b"true" } else { b"false" }),
            Value::Nil => self.out.extend_from_slice(b"null"),
            null if *null == Value::NULL => self.out.extend_from_slice(b"null"),
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return self.refuse(other, "type not supported"),
        }
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        for &byte in bytes {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                8 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..=31 | 127 => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        let invalid = !number.is_finite();
        match self.settings.encode_invalid_numbers {
            0 if invalid => self.refuse(&Value::Number(number), "must not be NaN or Inf"),
            1 if number.is_nan() => {
                self.out.extend_from_slice(b"nan");
                Ok(())
            }
            2 if invalid => {
                self.out.extend_from_slice(b"null");
                Ok(())
            }
            _ => {
                let text = general(number, self.settings.precision as usize);
                self.out.extend_from_slice(text.as_bytes());
                Ok(())
            }
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if depth > depth_max(self.settings.encode_depth_max) {
            return Err(failed(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.list_len(table)? {
            Some(len) if len > 0 => {
                for i in 1..=len {
                    self.out.push(if i == 1 { b'[' } else { b',' });
                    self.value(&table.raw_get::<Value>(i)?, depth)?;
                }
                self.out.push(b']');
                Ok(())
            }
            _ => self.object(table, depth),
        }
    }

    /// The highest index, if there are no other keys.
    fn list_len(&self, table: &Table) -> mlua::Result<Option<i32>> {
        let (mut highest, mut items) = (0i32, 0i32);
        for pair in table.pairs::<Value, Value>() {
            let key = match pair?.0 {
                Value::Integer(key) => key as f64,
                Value::Number(key) => key,
                _ => return Ok(None),
            };
            if key.floor() != key || key < 1.0 {
                return Ok(None);
            }
            if key > f64::from(highest) {
                // C's conversion: what does not fit is the smallest integer.
                highest = if key > f64::from(i32::MAX) { i32::MIN } else { key as i32 };
            }
            items += 1;
        }
        let settings = self.settings;
        let sparse = settings.sparse_ratio > 0
            && highest > items.wrapping_mul(settings.sparse_ratio)
            && highest > settings.sparse_safe;
        if sparse && !settings.sparse_convert {
            return self.refuse(&Value::Table(table.clone()), "excessively sparse array");
        }
        Ok((!sparse).then_some(highest))
    }

    fn object(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.out.push(b'{');
        for (i, pair) in table.pairs::<Value, Value>().enumerate() {
            let (key, value) = pair?;
            if i > 0 {
                self.out.push(b',');
            }
            match &key {
                Value::Integer(_) | Value::Number(_) => {
                    let number = key.as_number().or(key.as_integer().map(|n| n as f64)).unwrap_or_default();
                    self.out.push(b'"');
                    self.number(number)?;
                    self.out.push(b'"');
                }
                Value::String(text) => self.text(&text.as_bytes()),
                other => return self.refuse(other, "table key must be a number or string"),
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}
