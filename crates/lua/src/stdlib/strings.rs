//! `string`. It touches nothing outside of the machine.

use super::gsub::{find, gmatch, gsub, match_};
use super::{Row, format};
use crate::bounds::VALUES_MAX;
use crate::error::Result;
use crate::value::Value;
use crate::vm::{Args, Host, Vm};

pub(super) const ROWS: &[Row] = &[
    ("byte", byte),
    ("char", char_),
    ("find", find),
    ("format", format::format),
    ("gfind", gmatch),
    ("gmatch", gmatch),
    ("gsub", gsub),
    ("len", len),
    ("lower", lower),
    ("match", match_),
    ("rep", rep),
    ("reverse", reverse),
    ("sub", sub),
    ("upper", upper),
];

/// An index of a string, counted from its end if it is negative.
pub(super) fn position(at: i64, len: usize) -> i64 {
    let at = if at < 0 { at.saturating_add(len as i64 + 1) } else { at };
    at.max(0)
}

/// Bytes from one index to another, both counted.
fn slice(bytes: &[u8], from: i64, to: i64) -> &[u8] {
    let from = position(from, bytes.len()).max(1);
    let to = position(to, bytes.len()).min(bytes.len() as i64);
    if from > to { &[] } else { &bytes[from as usize - 1..to as usize] }
}

fn byte(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let id = vm.check_str(args, 0)?;
    let from = vm.opt_int(args, 1, 1)?;
    let to = vm.opt_int(args, 2, position(from, vm.bytes(id).len()))?;
    let bytes = slice(vm.bytes(id), from, to);
    if bytes.len() >= VALUES_MAX {
        return Err(vm.error("string slice too long"));
    }
    let bytes = bytes.to_vec();
    for byte in &bytes {
        vm.push(Value::Num(f64::from(*byte)));
    }
    Ok(bytes.len())
}

fn char_(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let mut bytes = Vec::with_capacity(args.len());
    for i in 0..args.len() {
        let code = vm.check_int(args, i)? as i32;
        match u8::try_from(code) {
            Ok(byte) => bytes.push(byte),
            Err(_) => return Err(vm.bad_argument(args, i, "invalid value")),
        }
    }
    let text = vm.string_owned(bytes)?;
    vm.one(text)
}

fn len(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let id = vm.check_str(args, 0)?;
    vm.one(vm.bytes(id).len() as f64)
}

/// A string of the same length, made of another.
fn mapped(vm: &mut Vm, host: &mut dyn Host, args: Args, map: impl Fn(&[u8]) -> Vec<u8>) -> Result<usize> {
    let id = vm.check_str(args, 0)?;
    let len = vm.bytes(id).len();
    vm.check_room(len)?;
    vm.work(host, len / 16)?;
    let bytes = map(vm.bytes(id));
    let text = vm.string_owned(bytes)?;
    vm.one(text)
}

fn lower(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    mapped(vm, host, args, <[u8]>::to_ascii_lowercase)
}

fn upper(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    mapped(vm, host, args, <[u8]>::to_ascii_uppercase)
}

fn reverse(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    mapped(vm, host, args, |bytes| bytes.iter().rev().copied().collect())
}

fn rep(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let id = vm.check_str(args, 0)?;
    let count = usize::try_from(vm.check_int(args, 1)? as i32).unwrap_or(0);
    let len = vm.bytes(id).len().saturating_mul(count);
    vm.check_room(len)?;
    vm.work(host, len / 16)?;
    let bytes = vm.bytes(id);
    let bytes = if bytes.is_empty() { Vec::new() } else { bytes.repeat(count) };
    let text = vm.string_owned(bytes)?;
    vm.one(text)
}

fn sub(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let id = vm.check_str(args, 0)?;
    let from = vm.check_int(args, 1)?;
    let to = vm.opt_int(args, 2, -1)?;
    let bytes = slice(vm.bytes(id), from, to);
    let len = bytes.len();
    vm.check_room(len)?;
    let bytes = slice(vm.bytes(id), from, to).to_vec();
    vm.work(host, len / 16)?;
    let text = vm.string_owned(bytes)?;
    vm.one(text)
}
