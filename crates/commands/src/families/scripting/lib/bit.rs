//! `bit`: operations on 32 bits, as in Lua BitOp. It touches nothing.

use keystead_lua::{Args, Host, Result, TableId, Vm};

use super::library;

pub(super) fn table(vm: &mut Vm) -> Result<TableId> {
    library(
        vm,
        &[
            ("tobit", |vm, _, args| map(vm, args, |x| x)),
            ("bnot", |vm, _, args| map(vm, args, |x| !x)),
            ("band", |vm, _, args| fold(vm, args, |a, b| a & b)),
            ("bor", |vm, _, args| fold(vm, args, |a, b| a | b)),
            ("bxor", |vm, _, args| fold(vm, args, |a, b| a ^ b)),
            ("lshift", |vm, _, args| shift(vm, args, |b, n| b << n)),
            ("rshift", |vm, _, args| shift(vm, args, |b, n| b >> n)),
            ("arshift", |vm, _, args| shift(vm, args, |b, n| (b as i32 >> n) as u32)),
            ("rol", |vm, _, args| shift(vm, args, u32::rotate_left)),
            ("ror", |vm, _, args| shift(vm, args, u32::rotate_right)),
            ("bswap", |vm, _, args| map(vm, args, |x| x.swap_bytes())),
            ("tohex", tohex),
        ],
    )
}

fn map(vm: &mut Vm, args: Args, op: fn(u32) -> u32) -> Result<usize> {
    let value = arg(vm, args, 0)?;
    bits(vm, op(value))
}

fn bits(vm: &mut Vm, value: u32) -> Result<usize> {
    vm.one(f64::from(value as i32))
}

/// A number's lowest 32 bits, rounded as the addition of 2^52 + 2^51 rounds.
fn arg(vm: &mut Vm, args: Args, at: usize) -> Result<u32> {
    let number = vm.check_num(args, at)?;
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn fold(vm: &mut Vm, args: Args, op: fn(u32, u32) -> u32) -> Result<usize> {
    let mut value = arg(vm, args, 0)?;
    for at in (1..args.len()).rev() {
        value = op(value, arg(vm, args, at)?);
    }
    bits(vm, value)
}

fn shift(vm: &mut Vm, args: Args, op: fn(u32, u32) -> u32) -> Result<usize> {
    let value = arg(vm, args, 0)?;
    let by = arg(vm, args, 1)? & 31;
    bits(vm, op(value, by))
}

fn tohex(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let value = arg(vm, args, 0)?;
    let count = if args.len() < 2 { 8 } else { arg(vm, args, 1)? as i32 };
    let digits = count.unsigned_abs().min(8) as usize;
    let text = if count < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let text = vm.string(&text.as_bytes()[8 - digits..])?;
    vm.one(text)
}
