//! `struct`: packing and unpacking of binary data. It touches nothing.

use keystead_lua::number::to_long;
use keystead_lua::{Args, Host, Result, TableId, Value, Vm};

use super::library;

const INT_SIZE_MAX: usize = 32;
const ALIGN_MAX: usize = 8;
/// Values that one call returns.
const VALUES_MAX: usize = keystead_lua::bounds::VALUES_MAX;

pub(super) fn table(vm: &mut Vm) -> Result<TableId> {
    library(vm, &[("pack", pack), ("unpack", unpack), ("size", size)])
}

/// A format, parsed option by option.
struct Format<'a> {
    text: &'a [u8],
    at: usize,
    little: bool,
    align: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format { text: &text[..end], at: 0, little: true, align: 1 }
    }

    /// The next option with its size.
    fn next(&mut self, vm: &mut Vm) -> Result<Option<(u8, usize)>> {
        let Some(&option) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(vm, 1)?,
            b'i' | b'I' => {
                let size = self.number(vm, 4)?;
                if size > INT_SIZE_MAX {
                    let words = format!("integral size {size} is larger than limit of {INT_SIZE_MAX}");
                    return Err(vm.error(words));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((option, size)))
    }

    fn number(&mut self, vm: &mut Vm, default: usize) -> Result<usize> {
        let mut number = None;
        while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            let next = number.unwrap_or(0i32).checked_mul(10);
            let next = next.and_then(|n| n.checked_add(i32::from(digit - b'0')));
            let Some(next) = next else { return Err(vm.error("integral size overflow")) };
            number = Some(next);
            self.at += 1;
        }
        Ok(number.map_or(default, |number| number as usize))
    }

    /// Padding bytes that align an element.
    fn padding(&self, position: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        size.wrapping_sub(position & size.wrapping_sub(1)) & size.wrapping_sub(1)
    }

    /// Options that are not elements: byte order, alignment, space.
    fn control(&mut self, vm: &mut Vm, args: Args, option: u8) -> Result<()> {
        match option {
            b' ' => {}
            b'>' => self.little = false,
            b'<' => self.little = true,
            b'!' => {
                let align = self.number(vm, ALIGN_MAX)?;
                if !align.is_power_of_two() {
                    return Err(vm.error(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                let words = format!("invalid format option '{}'", char::from(option));
                return Err(vm.bad_argument(args, 0, &words));
            }
        }
        Ok(())
    }

    /// Bytes in the selected order, from the native one (little-endian).
    fn ordered(&self, bytes: &mut [u8]) {
        if !self.little {
            bytes.reverse();
        }
    }
}

fn is_integer(option: u8) -> bool {
    matches!(option, b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I')
}

/// A copy of a string, while it is read.
fn bytes_of(vm: &mut Vm, args: Args, at: usize) -> Result<Vec<u8>> {
    let id = vm.check_str(args, at)?;
    vm.check_room(vm.bytes(id).len())?;
    Ok(vm.bytes(id).to_vec())
}

/// As in the original, a nil follows the arguments and stands for a missing one.
fn pack_number(vm: &mut Vm, args: Args, at: usize) -> Result<f64> {
    if at == args.len() {
        return Err(vm.bad_argument(args, at, "number expected, got nil"));
    }
    vm.check_num(args, at)
}

fn pack_text(vm: &mut Vm, args: Args, at: usize) -> Result<Vec<u8>> {
    if at == args.len() {
        return Err(vm.bad_argument(args, at, "string expected, got nil"));
    }
    bytes_of(vm, args, at)
}

fn pack(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let text = bytes_of(vm, args, 0)?;
    let mut format = Format::new(&text);
    let (mut out, mut arg) = (Vec::new(), 1);
    // Counted separately from what is written: Redis's library counts sizes of 0 differently.
    let mut position = 0usize;
    while let Some((option, mut size)) = format.next(vm)? {
        let padding = format.padding(position, option, size);
        position += padding;
        vm.check_room(out.len() + padding)?;
        out.resize(out.len() + padding, 0);
        match option {
            _ if is_integer(option) => {
                let number = pack_number(vm, args, arg)?;
                arg += 1;
                let value = if number < 0.0 { to_long(number) as u64 } else { number as u64 };
                let mut bytes = [0; INT_SIZE_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                format.ordered(&mut bytes[..size]);
                out.extend_from_slice(&bytes[..size]);
            }
            b'x' => out.push(0),
            b'f' => {
                let mut bytes = (pack_number(vm, args, arg)? as f32).to_le_bytes();
                arg += 1;
                format.ordered(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'd' => {
                let mut bytes = pack_number(vm, args, arg)?.to_le_bytes();
                arg += 1;
                format.ordered(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            b'c' | b's' => {
                let bytes = pack_text(vm, args, arg)?;
                arg += 1;
                size = if size == 0 { bytes.len() } else { size };
                if bytes.len() < size {
                    return Err(vm.bad_argument(args, arg, "string too short"));
                }
                vm.work(host, size / 16)?;
                out.extend_from_slice(&bytes[..size]);
                if option == b's' {
                    out.push(0);
                    size += 1;
                }
            }
            _ => format.control(vm, args, option)?,
        }
        position += size;
        vm.work(host, 4)?;
        vm.check_room(2 * out.len())?;
    }
    let text = vm.string_owned(out)?;
    vm.one(text)
}

fn unpack(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let text = bytes_of(vm, args, 0)?;
    let data = bytes_of(vm, args, 1)?;
    let position = vm.opt_int(args, 2, 1)?;
    if position == 0 {
        return Err(vm.bad_argument(args, 2, "offset must be 1 or greater"));
    }
    let mut at = (position as usize).wrapping_sub(1);
    let mut format = Format::new(&text);
    let mut values: Vec<Value> = Vec::new();
    while let Some((option, mut size)) = format.next(vm)? {
        at = at.wrapping_add(format.padding(at, option, size));
        let fits = |size: usize| size <= data.len() && at <= data.len() - size;
        if !fits(size) {
            return Err(vm.bad_argument(args, 1, "data string too short"));
        }
        if values.len() >= VALUES_MAX {
            return Err(vm.error("too many results"));
        }
        vm.work(host, 4)?;
        match option {
            _ if is_integer(option) => {
                values.push(Value::Num(integer(&data[at..at + size], &format, option)));
            }
            b'x' => {}
            b'f' | b'd' => {
                let mut bytes = [0; 8];
                bytes[..size].copy_from_slice(&data[at..at + size]);
                format.ordered(&mut bytes[..size]);
                let [a, b, c, d, ..] = bytes;
                let single = f64::from(f32::from_le_bytes([a, b, c, d]));
                values.push(Value::Num(if option == b'f' { single } else { f64::from_le_bytes(bytes) }));
            }
            b'c' => {
                if size == 0 {
                    let previous = values.pop().and_then(|value| vm.to_number(value));
                    let Some(previous) = previous else {
                        return Err(vm.error("format 'c0' needs a previous size"));
                    };
                    size = to_long(previous) as usize;
                    if !fits(size) {
                        return Err(vm.bad_argument(args, 1, "data string too short"));
                    }
                }
                values.push(vm.string(&data[at..at + size])?);
            }
            b's' => {
                let end = data[at..].iter().position(|byte| *byte == 0);
                let Some(end) = end else { return Err(vm.error("unfinished string in data")) };
                vm.work(host, end / 16)?;
                values.push(vm.string(&data[at..at + end])?);
                size = end + 1;
            }
            _ => format.control(vm, args, option)?,
        }
        at += size;
    }
    values.push(Value::Num(at.wrapping_add(1) as f64));
    values.iter().for_each(|value| vm.push(*value));
    Ok(values.len())
}

fn integer(bytes: &[u8], format: &Format<'_>, option: u8) -> f64 {
    let step = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if format.little { bytes.iter().rev().fold(0, step) } else { bytes.iter().fold(0, step) };
    if option.is_ascii_uppercase() {
        return value as f64;
    }
    // C takes the shift distance modulo 64.
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    let value = if value & mask != 0 { value | mask } else { value };
    value as i64 as f64
}

fn size(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let text = bytes_of(vm, args, 0)?;
    vm.work(host, text.len())?;
    let mut format = Format::new(&text);
    let mut at = 0usize;
    while let Some((option, size)) = format.next(vm)? {
        at += format.padding(at, option, size);
        if option == b's' || (option == b'c' && size == 0) {
            let words = format!("option '{}' has no fixed size", if option == b's' { "s" } else { "c0" });
            return Err(vm.bad_argument(args, 0, &words));
        }
        if !option.is_ascii_alphanumeric() {
            format.control(vm, args, option)?;
        }
        at += size;
    }
    vm.one(at as f64)
}
