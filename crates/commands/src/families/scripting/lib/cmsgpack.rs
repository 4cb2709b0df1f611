//! `cmsgpack`: MessagePack. It touches only the Lua VM.

use keystead_lua::number::to_long;
use keystead_lua::{Args, Host, Result, TableId, Value, Vm};

use super::{describe, library};
use crate::bounds::{SCRIPT_DECODE_DEPTH_MAX, SCRIPT_UNPACKED_MAX};

/// Tables nested deeper are encoded as nil, so cycles end.
const NESTING_MAX: usize = 16;

pub(super) fn table(vm: &mut Vm) -> Result<TableId> {
    let table = library(
        vm,
        &[("pack", pack), ("unpack", unpack), ("unpack_one", unpack_one), ("unpack_limit", unpack_limit)],
    )?;
    describe(
        vm,
        table,
        &[
            ("_NAME", "cmsgpack"),
            ("_VERSION", "lua-cmsgpack 0.4.0"),
            ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
            ("_DESCRIPTION", "MessagePack C implementation for Lua"),
        ],
    )?;
    Ok(table)
}

fn pack(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    if args.is_empty() {
        return Err(vm.error("bad argument #0 to 'pack' (MessagePack pack needs input.)"));
    }
    let mut out = Vec::new();
    for at in 0..args.len() {
        let value = vm.arg(args, at);
        Packer { vm: &mut *vm, host: &mut *host, out: &mut out }.value(value, 0)?;
    }
    let text = vm.string_owned(out)?;
    vm.one(text)
}

struct Packer<'a> {
    vm: &'a mut Vm,
    host: &'a mut dyn Host,
    out: &'a mut Vec<u8>,
}

impl Packer<'_> {
    fn value(&mut self, value: Value, level: usize) -> Result<()> {
        self.vm.work(self.host, 4)?;
        self.vm.check_room(2 * self.out.len())?;
        match value {
            Value::Str(id) => {
                let len = self.vm.bytes(id).len();
                self.vm.work(self.host, len / 16)?;
                self.vm.check_room(self.out.len() + len)?;
                encode_text(self.vm.bytes(id), self.out);
            }
            Value::Bool(yes) => self.out.push(if yes { 0xC3 } else { 0xC2 }),
            Value::Num(number) if is_integer(number) => encode_int(number as i64, self.out),
            Value::Num(number) => encode_double(number, self.out),
            Value::Table(table) if level < NESTING_MAX => self.table(table, level)?,
            _ => self.out.push(0xC0),
        }
        Ok(())
    }

    fn table(&mut self, table: TableId, level: usize) -> Result<()> {
        let (mut count, mut highest, mut is_list) = (0u64, 0.0f64, true);
        let mut key = Value::Nil;
        while let Some((next, _)) = self.vm.raw_next(table, key)
            && !next.is_nil()
        {
            self.vm.work(self.host, 2)?;
            count += 1;
            match next {
                Value::Num(index) if index > 0.0 && index.fract() == 0.0 && index <= f64::from(i32::MAX) => {
                    highest = highest.max(index);
                }
                _ => is_list = false,
            }
            key = next;
        }
        if is_list && highest as u64 == count {
            let len = self.vm.raw_len(table);
            match len as u64 {
                len @ 0..=15 => self.out.push(0x90 | len as u8),
                len @ 16..=0xFFFF => sized(0xDC, len, 2, self.out),
                len => sized(0xDD, len, 4, self.out),
            }
            for i in 1..=len {
                self.value(self.vm.raw_index(table, i), level + 1)?;
            }
            return Ok(());
        }
        match count {
            0..=15 => self.out.push(0x80 | count as u8),
            16..=0xFFFF => sized(0xDE, count, 2, self.out),
            _ => sized(0xDF, count, 4, self.out),
        }
        let mut key = Value::Nil;
        while let Some((next, value)) = self.vm.raw_next(table, key)
            && !next.is_nil()
        {
            self.value(next, level + 1)?;
            self.value(value, level + 1)?;
            key = next;
        }
        Ok(())
    }
}

fn is_integer(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9.3e18 && to_long(number) as f64 == number
}

/// A tag byte, and a number in as many bytes as it says, big-endian.
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

/// The bytes of an argument, while values are decoded from them.
fn bytes_of(vm: &mut Vm, args: Args, at: usize) -> Result<Vec<u8>> {
    let id = vm.check_str(args, at)?;
    vm.check_room(vm.bytes(id).len())?;
    Ok(vm.bytes(id).to_vec())
}

fn unpack(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let bytes = bytes_of(vm, args, 0)?;
    unpack_from(vm, host, args, &bytes, 0, 0)
}

fn unpack_one(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let offset = vm.opt_int(args, 1, 0)?;
    let bytes = bytes_of(vm, args, 0)?;
    unpack_from(vm, host, args, &bytes, 1, offset)
}

fn unpack_limit(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let limit = vm.check_int(args, 1)?;
    let offset = vm.opt_int(args, 2, 0)?;
    let bytes = bytes_of(vm, args, 0)?;
    unpack_from(vm, host, args, &bytes, limit, offset)
}

fn unpack_from(
    vm: &mut Vm,
    host: &mut dyn Host,
    args: Args,
    bytes: &[u8],
    limit: i64,
    offset: i64,
) -> Result<usize> {
    let all = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        let (offset, len) = (offset as i32, bytes.len());
        return Err(
            vm.error(format!("Invalid request to unpack with offset of {offset} and limit of {len}."))
        );
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else {
        let (offset, len) = (offset as i32, bytes.len());
        return Err(vm.error(format!("Start offset {offset} greater than input length {len}.")));
    };
    vm.work(host, rest.len() / 8)?;
    let mut input = Input { vm, host, rest };
    let mut values = Vec::new();
    while !input.rest.is_empty() && (all || (values.len() as i64) < limit) {
        if values.len() >= SCRIPT_UNPACKED_MAX {
            let words = "too many return values at once; use unpack_one or unpack_limit instead.";
            return Err(input.vm.bad_argument(args, 0, words));
        }
        values.push(input.value(0)?);
    }
    let left = input.rest.len();
    if !all {
        let next = if left == 0 { -1.0 } else { (bytes.len() - left) as f64 };
        vm.push(Value::Num(next));
    }
    values.iter().for_each(|value| vm.push(*value));
    Ok(values.len() + usize::from(!all))
}

struct Input<'v, 'a> {
    vm: &'v mut Vm,
    host: &'v mut dyn Host,
    rest: &'a [u8],
}

impl<'a> Input<'_, 'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.vm.error("Missing bytes in input."));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A number of so many bytes, big-endian.
    fn number(&mut self, bytes: usize) -> Result<u64> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn text(&mut self, len: u64) -> Result<Value> {
        let bytes = self.take(len as usize)?;
        self.vm.string(bytes)
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        self.vm.work(self.host, 4)?;
        let first = self.number(1)? as u8;
        let signed = |number: i64| Ok(Value::Num(number as f64));
        match first {
            0..=0x7F => signed(i64::from(first)),
            0xE0.. => signed(i64::from(first as i8)),
            0xA0..=0xBF => self.text(u64::from(first & 0x1F)),
            0x90..=0x9F => self.list(u64::from(first & 0xF), depth),
            0x80..=0x8F => self.map(u64::from(first & 0xF), depth),
            0xC0 => Ok(Value::Nil),
            0xC2 => Ok(Value::Bool(false)),
            0xC3 => Ok(Value::Bool(true)),
            0xCA => Ok(Value::Num(f64::from(f32::from_bits(self.number(4)? as u32)))),
            0xCB => Ok(Value::Num(f64::from_bits(self.number(8)?))),
            0xCC => signed(self.number(1)? as i64),
            0xCD => signed(self.number(2)? as i64),
            0xCE => signed(self.number(4)? as i64),
            0xCF => Ok(Value::Num(self.number(8)? as i64 as f64)),
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
            _ => Err(self.vm.error("Bad data format in input.")),
        }
    }

    fn deeper(&mut self, depth: usize) -> Result<usize> {
        if depth >= SCRIPT_DECODE_DEPTH_MAX {
            return Err(self.vm.error("stack overflow (in function mp_decode_to_lua_array)"));
        }
        Ok(depth + 1)
    }

    fn list(&mut self, len: u64, depth: usize) -> Result<Value> {
        let depth = self.deeper(depth)?;
        let table = self.vm.table(0, 0)?;
        for i in 1..=len {
            let value = self.value(depth)?;
            self.vm.raw_set(table, Value::Num(i as f64), value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: u64, depth: usize) -> Result<Value> {
        let depth = self.deeper(depth)?;
        let table = self.vm.table(0, 0)?;
        for _ in 0..len {
            let key = self.value(depth)?;
            let value = self.value(depth)?;
            match key {
                Value::Nil => return Err(self.vm.raise(b"table index is nil")),
                Value::Num(number) if number.is_nan() => {
                    return Err(self.vm.raise(b"table index is NaN"));
                }
                key => self.vm.raw_set(table, key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}
