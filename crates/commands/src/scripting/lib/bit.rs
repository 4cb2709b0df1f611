//! `bit`: operations on 32 bits, as Lua BitOp has them. It touches nothing.

use mlua::{Lua, MultiValue, Table, Value};

use super::{library, one, string};
use crate::scripting::api;
use crate::scripting::raise::bad_type;

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    library(
        lua,
        &[
            ("tobit", |lua, args| Ok(bits(arg(lua, args, 0, "tobit")?))),
            ("bnot", |lua, args| Ok(bits(!arg(lua, args, 0, "bnot")?))),
            ("band", |lua, args| fold(lua, args, "band", |a, b| a & b)),
            ("bor", |lua, args| fold(lua, args, "bor", |a, b| a | b)),
            ("bxor", |lua, args| fold(lua, args, "bxor", |a, b| a ^ b)),
            ("lshift", |lua, args| shift(lua, args, "lshift", |b, n| b << n)),
            ("rshift", |lua, args| shift(lua, args, "rshift", |b, n| b >> n)),
            ("arshift", |lua, args| shift(lua, args, "arshift", |b, n| (b as i32 >> n) as u32)),
            ("rol", |lua, args| shift(lua, args, "rol", u32::rotate_left)),
            ("ror", |lua, args| shift(lua, args, "ror", u32::rotate_right)),
            ("bswap", |lua, args| Ok(bits(arg(lua, args, 0, "bswap")?.swap_bytes()))),
            ("tohex", tohex),
        ],
    )
}

fn bits(value: u32) -> MultiValue {
    one(Value::Number(f64::from(value as i32)))
}

/// A number's lowest 32 bits, rounded as the addition of 2^52 + 2^51 rounds.
fn arg(lua: &Lua, args: &MultiValue, at: usize, name: &str) -> mlua::Result<u32> {
    let number = args.get(at).and_then(api::number);
    let number = number.ok_or_else(|| bad_type(lua, at + 1, name, "number", args.get(at)))?;
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn fold(lua: &Lua, args: &MultiValue, name: &str, op: fn(u32, u32) -> u32) -> mlua::Result<MultiValue> {
    let mut value = arg(lua, args, 0, name)?;
    for at in (1..args.len()).rev() {
        value = op(value, arg(lua, args, at, name)?);
    }
    Ok(bits(value))
}

fn shift(lua: &Lua, args: &MultiValue, name: &str, op: fn(u32, u32) -> u32) -> mlua::Result<MultiValue> {
    let value = arg(lua, args, 0, name)?;
    Ok(bits(op(value, arg(lua, args, 1, name)? & 31)))
}

fn tohex(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let value = arg(lua, args, 0, "tohex")?;
    let count = if args.len() < 2 { 8 } else { arg(lua, args, 1, "tohex")? as i32 };
    let digits = count.unsigned_abs().min(8) as usize;
    let text = if count < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    Ok(one(string(lua, &text.as_bytes()[8 - digits..])?))
}
