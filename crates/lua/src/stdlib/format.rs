//! `string.format`: C's printf. It touches nothing outside of the machine.

use crate::error::Result;
use crate::number::{general, not_finite, sign, to_long};
use crate::vm::{Args, Host, Vm};

/// A conversion: `%-08.3d`.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

pub(super) fn format(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let id = vm.check_str(args, 0)?;
    let format = vm.bytes(id).to_vec();
    let (mut result, mut at, mut argument) = (Vec::new(), 0, 0);
    vm.work(host, format.len() / 8)?;
    while let Some(byte) = format.get(at) {
        at += 1;
        if *byte != b'%' {
            result.push(*byte);
            continue;
        }
        if format.get(at) == Some(&b'%') {
            result.push(b'%');
            at += 1;
            continue;
        }
        argument += 1;
        let spec = match parse(&format, &mut at) {
            Ok(spec) => spec,
            Err(words) => return Err(vm.error(words)),
        };
        let conversion = format.get(at).copied().unwrap_or(0);
        at += 1;
        if argument >= args.len() {
            return Err(vm.bad_argument(args, argument, "no value"));
        }
        one(vm, host, args, argument, &spec, conversion, &mut result)?;
        vm.check_room(result.len() * 2)?;
    }
    let text = vm.string_owned(result)?;
    vm.one(text)
}

fn parse(format: &[u8], at: &mut usize) -> Result<Spec, &'static str> {
    let mut spec = Spec::default();
    let begin = *at;
    while let Some(flag) = format.get(*at)
        && b"-+ #0".contains(flag)
    {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternate = true,
            _ => spec.zero = true,
        }
        *at += 1;
    }
    if *at - begin >= 6 {
        return Err("invalid format (repeated flags)");
    }
    let digits = |at: &mut usize| {
        let (mut value, from) = (0, *at);
        while *at < from + 2
            && let Some(digit @ b'0'..=b'9') = format.get(*at)
        {
            value = value * 10 + usize::from(digit - b'0');
            *at += 1;
        }
        value
    };
    spec.width = digits(at);
    if format.get(*at) == Some(&b'.') {
        *at += 1;
        spec.precision = Some(digits(at));
    }
    if format.get(*at).is_some_and(u8::is_ascii_digit) {
        return Err("invalid format (width or precision too long)");
    }
    Ok(spec)
}

fn one(
    vm: &mut Vm,
    host: &mut dyn Host,
    args: Args,
    at: usize,
    spec: &Spec,
    conversion: u8,
    result: &mut Vec<u8>,
) -> Result<()> {
    match conversion {
        b'c' => {
            let code = vm.check_num(args, at)?;
            // As in C, the text ends at a zero byte.
            let mut padded = Vec::new();
            pad(spec, &[to_long(code) as u8], &mut padded);
            result.extend(padded.into_iter().take_while(|byte| *byte != 0));
        }
        b'd' | b'i' => {
            let value = to_long(vm.check_num(args, at)?);
            let digits = with_precision(&value.unsigned_abs().to_string(), spec);
            numeric(spec, sign_of(spec, value < 0), &digits, spec.precision.is_none(), result);
        }
        b'u' | b'o' | b'x' | b'X' => {
            let value = unsigned(vm.check_num(args, at)?);
            let (prefix, digits) = match conversion {
                b'u' => ("", value.to_string()),
                b'o' => ("", if spec.alternate { format!("0{value:o}") } else { format!("{value:o}") }),
                b'x' => (if spec.alternate && value != 0 { "0x" } else { "" }, format!("{value:x}")),
                _ => (if spec.alternate && value != 0 { "0X" } else { "" }, format!("{value:X}")),
            };
            let digits = with_precision(&digits, spec);
            numeric(spec, prefix, &digits, spec.precision.is_none(), result);
        }
        b'e' | b'E' | b'f' | b'g' | b'G' => {
            let value = vm.check_num(args, at)?;
            float(spec, conversion, value, result);
        }
        b'q' => {
            let id = vm.check_str(args, at)?;
            let len = vm.bytes(id).len();
            vm.work(host, len / 8)?;
            vm.check_room(result.len() + len * 4)?;
            quoted(vm.bytes(id), result);
        }
        b's' => {
            let id = vm.check_str(args, at)?;
            let bytes = vm.bytes(id);
            vm.check_room(result.len() + bytes.len())?;
            let bytes = vm.bytes(id);
            // As in Lua: a long string is used as it is, a short one ends at a zero byte.
            if spec.precision.is_none() && bytes.len() >= 100 {
                result.extend_from_slice(bytes);
            } else {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                let end = spec.precision.map_or(end, |precision| end.min(precision));
                pad(spec, &bytes[..end], result);
            }
            let work = bytes.len() / 16;
            vm.work(host, work)?;
        }
        other => {
            let shown = if other == 0 { String::new() } else { char::from(other).to_string() };
            return Err(vm.error(format!("invalid option '%{shown}' to 'format'")));
        }
    }
    Ok(())
}

/// C's conversion of a double to an unsigned long, as x86 does it.
fn unsigned(value: f64) -> u64 {
    if value >= 9_223_372_036_854_775_808.0 { value as u64 } else { to_long(value) as u64 }
}

fn sign_of(spec: &Spec, negative: bool) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

/// At least as many digits as the precision; none for a zero with precision 0.
fn with_precision(digits: &str, spec: &Spec) -> String {
    match spec.precision {
        Some(0) if digits == "0" => String::new(),
        Some(precision) => format!("{digits:0>precision$}"),
        None => digits.to_owned(),
    }
}

fn pad(spec: &Spec, text: &[u8], result: &mut Vec<u8>) {
    let fill = spec.width.saturating_sub(text.len());
    if !spec.left {
        result.extend(std::iter::repeat_n(b' ', fill));
    }
    result.extend_from_slice(text);
    if spec.left {
        result.extend(std::iter::repeat_n(b' ', fill));
    }
}

/// A number with its sign or prefix, padded with zeros or spaces.
fn numeric(spec: &Spec, prefix: &str, digits: &str, may_fill: bool, result: &mut Vec<u8>) {
    let len = prefix.len() + digits.len();
    if spec.zero && !spec.left && may_fill && len < spec.width {
        result.extend_from_slice(prefix.as_bytes());
        result.extend(std::iter::repeat_n(b'0', spec.width - len));
        result.extend_from_slice(digits.as_bytes());
        return;
    }
    pad(spec, format!("{prefix}{digits}").as_bytes(), result);
}

fn float(spec: &Spec, conversion: u8, value: f64, result: &mut Vec<u8>) {
    let magnitude = value.abs();
    let precision = spec.precision.unwrap_or(6);
    let is_number = value.is_finite();
    let mut digits = match (not_finite(magnitude), conversion) {
        (Some(word), _) => word.to_owned(),
        (None, b'f') => format!("{magnitude:.precision$}"),
        (None, b'e' | b'E') => scientific(magnitude, precision, spec.alternate),
        (None, _) if spec.alternate => general_with_zeros(magnitude, precision.max(1)),
        (None, _) => general(magnitude, precision),
    };
    if spec.alternate && is_number && !digits.contains('.') && conversion == b'f' {
        digits.push('.');
    }
    if conversion.is_ascii_uppercase() {
        digits.make_ascii_uppercase();
    }
    numeric(spec, sign_of(spec, value.is_sign_negative()), &digits, is_number, result);
}

fn scientific(value: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{digits}{point}e{}{:02}", sign(exponent), exponent.abs())
}

/// `%#g`: zeros at the end stay.
fn general_with_zeros(value: f64, precision: usize) -> String {
    let text = format!("{value:.*e}", precision - 1);
    let exponent: i32 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        return scientific(value, precision - 1, true);
    }
    let decimals = usize::try_from(precision as i32 - 1 - exponent).unwrap_or(0);
    let mut digits = format!("{value:.decimals$}");
    if !digits.contains('.') {
        digits.push('.');
    }
    digits
}

/// `%q`: as Lua reads it back.
fn quoted(bytes: &[u8], result: &mut Vec<u8>) {
    result.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' | b'\n' => result.extend_from_slice(&[b'\\', *byte]),
            b'\r' => result.extend_from_slice(b"\\r"),
            0 => result.extend_from_slice(b"\\000"),
            _ => result.push(*byte),
        }
    }
    result.push(b'"');
}
