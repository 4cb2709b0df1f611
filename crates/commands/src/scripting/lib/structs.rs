//! `struct`: bytes from values and values from bytes. It touches nothing.

use mlua::{Lua, MultiValue, Table, Value};

use super::{check, check_number, check_text, library, one, opt_integer, string};
use crate::limits::SCRIPT_STRUCT_BYTES_MAX;
use crate::scripting::convert::c_long;
use crate::scripting::raise::{bad_argument, failed};

const INT_SIZE_MAX: usize = 32;
const ALIGN_MAX: usize = 8;

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    library(lua, &[("pack", pack), ("unpack", unpack), ("size", size)])
}

/// A format, read option by option.
struct Format<'a> {
    lua: &'a Lua,
    name: &'static str,
    text: &'a [u8],
    at: usize,
    little: bool,
    align: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, name: &'static str, text: &'a [u8]) -> Self {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format { lua, name, text: &text[..end], at: 0, little: true, align: 1 }
    }

    /// The next option with its size.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        let Some(&option) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INT_SIZE_MAX {
                    let words = format!("integral size {size} is larger than limit of {INT_SIZE_MAX}");
                    return Err(failed(self.lua, words));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((option, size)))
    }

    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let mut number = None;
        while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            let next = number.unwrap_or(0i32).checked_mul(10);
            let next = next.and_then(|n| n.checked_add(i32::from(digit - b'0')));
            number = Some(next.ok_or_else(|| failed(self.lua, "integral size overflow"))?);
            self.at += 1;
        }
        Ok(number.map_or(default, |number| number as usize))
    }

    /// Bytes that bring an element to its place.
    fn padding(&self, position: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        size.wrapping_sub(position & size.wrapping_sub(1)) & size.wrapping_sub(1)
    }

    /// What is no element: the order of bytes, alignment, space.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.little = false,
            b'<' => self.little = true,
            b'!' => {
                let align = self.number(ALIGN_MAX)?;
                if !align.is_power_of_two() {
                    return Err(failed(self.lua, format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                let words = format!("invalid format option '{}'", char::from(option));
                return Err(bad_argument(self.lua, 1, self.name, &words));
            }
        }
        Ok(())
    }

    /// Bytes in the wanted order, from the native one (little end first).
    fn ordered(&self, bytes: &mut [u8]) {
        if !self.little {
            bytes.reverse();
        }
    }
}

fn is_integer(option: u8) -> bool {
    matches!(option, b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I')
}

fn pack(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let text = check_text(lua, args, 0, "pack")?;
    // As in the original, a nil stands behind the arguments and is what a missing one is called.
    let mut args = args.clone();
    args.push_back(Value::Nil);
    let args = &args;
    let mut format = Format::new(lua, "pack", &text);
    let (mut out, mut arg) = (Vec::new(), 1);
    // Counted apart from what is written: Redis's library counts sizes that are 0 otherwise.
    let mut position = 0usize;
    while let Some((option, mut size)) = format.next()? {
        let padding = format.padding(position, option, size);
        position += padding;
        out.resize(out.len() + padding, 0);
        match option {
            _ if is_integer(option) => {
                let number = check_number(lua, args, arg, "pack")?;
                arg += 1;
                let value = if number < 0.0 { c_long(number) as u64 } else { number as u64 };
                let mut bytes = [0; INT_SIZE_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                format.ordered(&mut bytes[..size]);
                out.extend_from_slice(&bytes[..size]);
            }
            b'x' => out.push(0),
            b'f' => {
                let mut bytes = (check_number(lua, args, arg, "pack")? as f32).to_le_bytes();
                arg += 1;
                format.ordered(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'd' => {
                let mut bytes = check_number(lua, args, arg, "pack")?.to_le_bytes();
                arg += 1;
                format.ordered(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'c' | b's' => {
                let bytes = check_text(lua, args, arg, "pack")?;
                arg += 1;
                size = if size == 0 { bytes.len() } else { size };
                check(lua, bytes.len() >= size, arg + 1, "pack", "string too short")?;
                out.extend_from_slice(&bytes[..size]);
                if option == b's' {
                    out.push(0);
                    size += 1;
                }
            }
            _ => format.control(option)?,
        }
        position += size;
        if out.len() > SCRIPT_STRUCT_BYTES_MAX {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
    }
    Ok(one(string(lua, &out)?))
}

fn unpack(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let text = check_text(lua, args, 0, "unpack")?;
    let data = check_text(lua, args, 1, "unpack")?;
    let position = opt_integer(lua, args, 2, "unpack", 1)?;
    check(lua, position != 0, 3, "unpack", "offset must be 1 or greater")?;
    let mut at = (position as usize).wrapping_sub(1);
    let mut format = Format::new(lua, "unpack", &text);
    let mut values: Vec<Value> = Vec::new();
    while let Some((option, mut size)) = format.next()? {
        at = at.wrapping_add(format.padding(at, option, size));
        let fits = |size: usize| size <= data.len() && at <= data.len() - size;
        check(lua, fits(size), 2, "unpack", "data string too short")?;
        match option {
            _ if is_integer(option) => {
                values.push(Value::Number(integer(&data[at..at + size], &format, option)));
            }
            b'x' => {}
            b'f' | b'd' => {
                let mut bytes = [0; 8];
                bytes[..size].copy_from_slice(&data[at..at + size]);
                format.ordered(&mut bytes[..size]);
                let [a, b, c, d, ..] = bytes;
                let single = f64::from(f32::from_le_bytes([a, b, c, d]));
                values.push(Value::Number(if option == b'f' { single } else { f64::from_le_bytes(bytes) }));
            }
            b'c' => {
                if size == 0 {
                    let previous = values.last().and_then(crate::scripting::api::number);
                    let previous =
                        previous.ok_or_else(|| failed(lua, "format 'c0' needs a previous size"))?;
                    values.pop();
                    size = c_long(previous) as usize;
                    check(lua, fits(size), 2, "unpack", "data string too short")?;
                }
                values.push(string(lua, &data[at..at + size])?);
            }
            b's' => {
                let end = data[at..].iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| failed(lua, "unfinished string in data"))?;
                values.push(string(lua, &data[at..at + end])?);
                size = end + 1;
            }
            _ => format.control(option)?,
        }
        at += size;
    }
    values.push(Value::Number(at.wrapping_add(1) as f64));
    Ok(MultiValue::from_vec(values))
}

fn integer(bytes: &[u8], format: &Format<'_>, option: u8) -> f64 {
    let step = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if format.little { bytes.iter().rev().fold(0, step) } else { bytes.iter().fold(0, step) };
    if option.is_ascii_uppercase() {
        return value as f64;
    }
    // C shifts by what is left of the distance in 64 bits.
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    let value = if value & mask != 0 { value | mask } else { value };
    value as i64 as f64
}

fn size(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let text = check_text(lua, args, 0, "size")?;
    let mut format = Format::new(lua, "size", &text);
    let mut at = 0usize;
    while let Some((option, size)) = format.next()? {
        at += format.padding(at, option, size);
        if option == b's' || (option == b'c' && size == 0) {
            let words = format!("option '{}' has no fixed size", if option == b's' { "s" } else { "c0" });
            return Err(bad_argument(lua, 1, "size", &words));
        }
        if !option.is_ascii_alphanumeric() {
            format.control(option)?;
        }
        at += size;
    }
    Ok(one(Value::Number(at as f64)))
}
