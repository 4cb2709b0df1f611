//! `cjson.encode`. It touches only the Lua VM.

use keystead_lua::number::general;
use keystead_lua::{Args, Host, Result, TableId, Value, Vm};

use super::{Settings, depth_max};
use crate::families::scripting::world::Run;

pub(super) fn run(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args, n: usize) -> Result<usize> {
    let settings = run.cjson[n].clone();
    let value = vm.arg(args, 0);
    let mut encoder = Encoder { vm: &mut *vm, host: run, settings: &settings, out: Vec::new() };
    encoder.value(value, 0)?;
    let out = encoder.out;
    let text = vm.string_owned(out)?;
    vm.one(text)
}

struct Encoder<'a> {
    vm: &'a mut Vm,
    host: &'a mut dyn Host,
    settings: &'a Settings,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn reject<T>(&mut self, value: Value, reason: &str) -> Result<T> {
        Err(self.vm.error(format!("Cannot serialise {}: {reason}", value.type_name())))
    }

    fn value(&mut self, value: Value, depth: usize) -> Result<()> {
        // A table that occurs many times is written many times.
        self.vm.work(self.host, 4)?;
        self.vm.check_room(2 * self.out.len())?;
        match value {
            Value::Str(id) => {
                let len = self.vm.bytes(id).len();
                self.vm.work(self.host, len / 4)?;
                self.vm.check_room(self.out.len() + len)?;
                text(self.vm.bytes(id), &mut self.out);
            }
            Value::Num(number) => self.number(number)?,
            Value::Bool(yes) => self.out.extend_from_slice(if yes { b"true" } else { b"false" }),
            Value::Nil | Value::Null => self.out.extend_from_slice(b"null"),
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return self.reject(other, "type not supported"),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<()> {
        let invalid = !number.is_finite();
        match self.settings.encode_invalid_numbers {
            0 if invalid => return self.reject(Value::Num(number), "must not be NaN or Inf"),
            1 if number.is_nan() => self.out.extend_from_slice(b"nan"),
            2 if invalid => self.out.extend_from_slice(b"null"),
            _ => {
                let text = general(number, self.settings.precision as usize);
                self.out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }

    fn table(&mut self, table: TableId, depth: usize) -> Result<()> {
        if depth > depth_max(self.settings.encode_depth_max) {
            return Err(self.vm.error(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.list_len(table)? {
            Some(len) if len > 0 => {
                for i in 1..=len {
                    self.out.push(if i == 1 { b'[' } else { b',' });
                    self.value(self.vm.raw_index(table, i as usize), depth)?;
                }
                self.out.push(b']');
                Ok(())
            }
            _ => self.object(table, depth),
        }
    }

    /// The highest index, if there are no other keys.
    fn list_len(&mut self, table: TableId) -> Result<Option<i32>> {
        let (mut highest, mut items) = (0i32, 0i32);
        let mut key = Value::Nil;
        while let Some((next, _)) = self.vm.raw_next(table, key)
            && !next.is_nil()
        {
            self.vm.work(self.host, 2)?;
            let Value::Num(index) = next else { return Ok(None) };
            if index.floor() != index || index < 1.0 {
                return Ok(None);
            }
            if index > f64::from(highest) {
                // C's conversion: a number that does not fit becomes the smallest integer.
                highest = if index > f64::from(i32::MAX) { i32::MIN } else { index as i32 };
            }
            items = items.wrapping_add(1);
            key = next;
        }
        let settings = self.settings;
        let sparse = settings.sparse_ratio > 0
            && highest > items.wrapping_mul(settings.sparse_ratio)
            && highest > settings.sparse_safe;
        if sparse && !settings.sparse_convert {
            return self.reject(Value::Table(table), "excessively sparse array");
        }
        Ok((!sparse).then_some(highest))
    }

    fn object(&mut self, table: TableId, depth: usize) -> Result<()> {
        self.out.push(b'{');
        let mut at = Value::Nil;
        while let Some((key, value)) = self.vm.raw_next(table, at)
            && !key.is_nil()
        {
            if !at.is_nil() {
                self.out.push(b',');
            }
            match key {
                Value::Num(number) => {
                    self.out.push(b'"');
                    self.number(number)?;
                    self.out.push(b'"');
                }
                Value::Str(_) => self.value(key, depth)?,
                other => return self.reject(other, "table key must be a number or string"),
            }
            self.out.push(b':');
            self.value(value, depth)?;
            at = key;
        }
        self.out.push(b'}');
        Ok(())
    }
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=31 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
