//! `find`, `match`, `gmatch` and `gsub`. It touches nothing outside of the machine.

use super::pattern::{self, Capture, Found, Trouble};
use super::strings::position;
use crate::error::{Error, Result, Stop};
use crate::value::{StrId, Value};
use crate::vm::{Args, Host, Vm};

/// The magic characters of patterns.
const SPECIALS: &[u8] = b"^$*+?.([%-";

pub(super) fn find(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    find_or_match(vm, host, args, true)
}

pub(super) fn match_(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    find_or_match(vm, host, args, false)
}

fn find_or_match(vm: &mut Vm, host: &mut dyn Host, args: Args, is_find: bool) -> Result<usize> {
    let (text, pattern) = (vm.check_str(args, 0)?, vm.check_str(args, 1)?);
    let init = position(vm.opt_int(args, 2, 1)?, vm.bytes(text).len()).max(1) as usize - 1;
    let init = init.min(vm.bytes(text).len());
    let is_plain =
        || vm.arg(args, 3).truthy() || !vm.bytes(pattern).iter().any(|byte| SPECIALS.contains(byte));
    if is_find && is_plain() {
        let found = plain(vm, host, text, pattern, init)?;
        let Some(start) = found else { return vm.one(Value::Nil) };
        vm.push(Value::Num((start + 1) as f64));
        vm.push(Value::Num((start + vm.bytes(pattern).len()) as f64));
        return Ok(2);
    }
    let Some(found) = search(vm, host, text, pattern, init)? else { return vm.one(Value::Nil) };
    if is_find {
        vm.push(Value::Num((found.start + 1) as f64));
        vm.push(Value::Num(found.end as f64));
        return Ok(2 + push_captures(vm, text, &found, false)?);
    }
    push_captures(vm, text, &found, true)
}

/// The position of a text within another, in linear time.
fn plain(vm: &mut Vm, host: &mut dyn Host, text: StrId, wanted: StrId, init: usize) -> Result<Option<usize>> {
    let (hay, needle) = (&vm.bytes(text)[init..], vm.bytes(wanted));
    if needle.is_empty() {
        return Ok(Some(init));
    }
    let (hay_len, needle_len) = (hay.len(), needle.len());
    if needle_len > hay_len {
        return Ok(None);
    }
    let found = memchr::memmem::find(hay, needle).map(|at| init + at);
    vm.work(host, (hay_len + needle_len) / 16)?;
    Ok(found)
}

/// The first match of a pattern.
fn search(
    vm: &mut Vm,
    host: &mut dyn Host,
    text: StrId,
    pattern: StrId,
    init: usize,
) -> Result<Option<Found>> {
    let (bytes, whole) = (vm.bytes(text), vm.bytes(pattern));
    let anchored = whole.first() == Some(&b'^');
    let rest = if anchored { &whole[1..] } else { whole };
    let found = pattern::search(bytes, rest, init, anchored, &mut || host.is_over());
    settled(vm, found)
}

fn settled(vm: &mut Vm, found: Result<Option<Found>, Trouble>) -> Result<Option<Found>> {
    match found {
        Ok(found) => Ok(found),
        Err(Trouble::Malformed(words)) => Err(vm.error(words)),
        Err(Trouble::Stopped) => Err(Error::stop(Stop::Interrupted)),
    }
}

fn capture(vm: &mut Vm, text: StrId, capture: Capture) -> Result<Value> {
    match capture {
        Capture::Text(start, len) => {
            vm.check_room(len)?;
            let part = vm.bytes(text)[start..start + len].to_vec();
            vm.string_owned(part)
        }
        Capture::SourcePosition(at) => Ok(Value::Num((at + 1) as f64)),
        Capture::Open(_) => Err(vm.error("unfinished capture")),
    }
}

fn whole(found: &Found) -> Capture {
    Capture::Text(found.start, found.end - found.start)
}

/// Pushes the captures; with `or_whole` the whole match if there are none.
fn push_captures(vm: &mut Vm, text: StrId, found: &Found, or_whole: bool) -> Result<usize> {
    if found.captures.is_empty() && or_whole {
        let value = capture(vm, text, whole(found))?;
        return vm.one(value);
    }
    for part in &found.captures {
        let value = capture(vm, text, *part)?;
        vm.push(value);
    }
    Ok(found.captures.len())
}

/// Creates iterators: Lua functions around [`gmatch_next`], which returns the next position and the captures.
pub(super) const GMATCH: &[u8] = b"local next, text, pattern, at = ...
  local function after(init, ...) at = init return ... end
  return function() return after(next(text, pattern, at)) end";

pub(super) fn gmatch(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let (text, pattern) = (vm.check_str(args, 0)?, vm.check_str(args, 1)?);
    let [make, next] = vm.gmatch;
    let step = vm.call_for_one(host, make, &[next, text.into(), pattern.into(), Value::Num(0.0)])?;
    vm.one(step)
}

pub(super) fn gmatch_next(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let [Value::Str(text), Value::Str(pattern), Value::Num(init)] = [0, 1, 2].map(|at| vm.arg(args, at))
    else {
        return vm.one(Value::Nil);
    };
    let init = init as usize;
    if init > vm.bytes(text).len() {
        return vm.one(Value::Nil);
    }
    // In gmatch, ^ is no anchor.
    let found = pattern::search(vm.bytes(text), vm.bytes(pattern), init, false, &mut || host.is_over());
    let Some(found) = settled(vm, found)? else { return vm.one(Value::Nil) };
    let next = if found.end == found.start { found.end + 1 } else { found.end };
    vm.push(Value::Num(next as f64));
    Ok(1 + push_captures(vm, text, &found, true)?)
}

pub(super) fn gsub(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let (text, pattern) = (vm.check_str(args, 0)?, vm.check_str(args, 1)?);
    let replacement = match vm.arg(args, 2) {
        number @ Value::Num(_) => vm.coerce_str(number)?.map_or(Value::Nil, Value::Str),
        other @ (Value::Str(_) | Value::Table(_) | Value::Func(_) | Value::Native(_)) => other,
        _ => return Err(vm.bad_argument(args, 2, "string/function/table expected")),
    };
    let len = vm.bytes(text).len();
    let max = vm.opt_int(args, 3, len as i64 + 1)?;
    let anchored = vm.bytes(pattern).first() == Some(&b'^');
    let (mut result, mut at, mut count) = (Vec::new(), 0, 0_i64);
    while count < max {
        let Some(found) = search(vm, host, text, pattern, at)? else { break };
        count += 1;
        result.extend_from_slice(&vm.bytes(text)[at..found.start]);
        replace(vm, host, &mut result, text, &found, replacement)?;
        vm.check_room(result.len() * 2)?;
        at = found.end;
        if found.end == found.start {
            if at >= len {
                at = len + 1;
                break;
            }
            result.push(vm.bytes(text)[at]);
            at += 1;
        }
        if anchored || at > len {
            break;
        }
    }
    result.extend_from_slice(vm.bytes(text).get(at..).unwrap_or_default());
    let result = vm.string_owned(result)?;
    vm.push(result);
    vm.push(Value::Num(count as f64));
    Ok(2)
}

/// Appends the replacement of a match.
fn replace(
    vm: &mut Vm,
    host: &mut dyn Host,
    result: &mut Vec<u8>,
    text: StrId,
    found: &Found,
    replacement: Value,
) -> Result<()> {
    let value = match replacement {
        Value::Str(id) => return replace_text(vm, host, result, text, found, id),
        Value::Table(_) => {
            let first = found.captures.first().copied().unwrap_or_else(|| whole(found));
            let key = capture(vm, text, first)?;
            vm.index(host, replacement, key, None)?
        }
        function => {
            let slot = vm.co.stack.len();
            vm.push(function);
            let count = push_captures(vm, text, found, true)?;
            vm.call_pushed(host, slot, count)?
        }
    };
    match value {
        Value::Nil | Value::Bool(false) => {
            result.extend_from_slice(&vm.bytes(text)[found.start..found.end]);
        }
        _ => match vm.coerce_str(value)? {
            Some(id) => result.extend_from_slice(vm.bytes(id)),
            None => {
                let words = format!("invalid replacement value (a {})", value.type_name());
                return Err(vm.error(words));
            }
        },
    }
    Ok(())
}

fn replace_text(
    vm: &mut Vm,
    host: &mut dyn Host,
    result: &mut Vec<u8>,
    text: StrId,
    found: &Found,
    replacement: StrId,
) -> Result<()> {
    let len = vm.bytes(replacement).len();
    vm.work(host, len / 8)?;
    vm.check_room(result.len() + len)?;
    let mut at = 0;
    while at < len {
        let byte = vm.bytes(replacement)[at];
        at += 1;
        if byte != b'%' {
            result.push(byte);
            continue;
        }
        let sign = vm.bytes(replacement).get(at).copied().unwrap_or(0);
        at += 1;
        if !sign.is_ascii_digit() {
            result.push(sign);
            continue;
        }
        let part = match (sign, usize::from(sign - b'0')) {
            (b'0', _) => whole(found),
            (_, 1) if found.captures.is_empty() => whole(found),
            (_, number) => match found.captures.get(number - 1) {
                Some(part) => *part,
                None => return Err(vm.error("invalid capture index")),
            },
        };
        match part {
            Capture::Text(start, len) => {
                vm.check_room(result.len() + len)?;
                result.extend_from_slice(&vm.bytes(text)[start..start + len]);
            }
            Capture::Open(_) => return Err(vm.error("unfinished capture")),
            Capture::SourcePosition(at) => result.extend_from_slice((at + 1).to_string().as_bytes()),
        }
    }
    Ok(())
}
