//! The basic functions. They touch nothing outside of the machine.

use super::Row;
use crate::bounds::VALUES_MAX;
use crate::error::{Error, Kind, Result};
use crate::number;
use crate::value::{TableId, Value};
use crate::vm::{Args, Event, Host, Vm};

const ROWS: &[Row] = &[
    ("assert", assert),
    ("collectgarbage", collect_garbage),
    ("error", error),
    ("gcinfo", gc_info),
    ("getmetatable", get_metatable),
    ("ipairs", ipairs),
    ("load", load),
    ("loadstring", load_string),
    ("next", next),
    ("pairs", pairs),
    ("pcall", pcall),
    ("rawequal", raw_equal),
    ("rawget", raw_get),
    ("rawset", raw_set),
    ("select", select),
    ("setmetatable", set_metatable),
    ("tonumber", to_number),
    ("tostring", to_string),
    ("type", type_of),
    ("unpack", unpack),
    ("xpcall", xpcall),
];

pub(super) fn open(vm: &mut Vm, globals: TableId) -> Result<()> {
    super::fill(vm, globals, ROWS)?;
    let version = vm.string(b"Lua 5.1")?;
    vm.set_field(globals, "_VERSION", version)?;
    vm.set_field(globals, "_G", globals.into())?;
    if let Value::Native(id) = vm.raw_field(globals, b"next") {
        vm.next = Some(id);
    }
    let step = vm.native(ipairs_step);
    vm.ipairs_step = step;
    Ok(())
}

fn assert(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    if !vm.check_any(args, 0)?.truthy() {
        if vm.arg(args, 1).is_nil() {
            return Err(vm.error("assertion failed!"));
        }
        let message = vm.check_str(args, 1)?;
        let words = vm.bytes(message).to_vec();
        return Err(vm.error(words));
    }
    for i in 0..args.len() {
        vm.push(vm.arg(args, i));
    }
    Ok(args.len())
}

/// Scripts cannot tune the collector.
fn collect_garbage(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let what = if vm.arg(args, 0).is_nil() {
        b"collect".to_vec()
    } else {
        vm.check_str(args, 0).map(|id| vm.bytes(id).to_vec())?
    };
    let result = match &what[..] {
        b"stop" | b"restart" => 0.0,
        b"setpause" | b"setstepmul" => 200.0,
        b"count" => vm.used_bytes() as f64 / 1024.0,
        b"collect" | b"step" => {
            // It visits everything.
            vm.work(host, 1000 + vm.used_bytes() / 64)?;
            vm.collect();
            if what == b"step" {
                return vm.one(true);
            }
            0.0
        }
        other => {
            let words = format!("invalid option '{}'", String::from_utf8_lossy(other));
            return Err(vm.bad_argument(args, 0, &words));
        }
    };
    vm.one(result)
}

fn gc_info(vm: &mut Vm, _: &mut dyn Host, _: Args) -> Result<usize> {
    vm.one((vm.used_bytes() / 1024) as f64)
}

fn error(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let level = vm.opt_int(args, 1, 1)? as i32;
    let value = vm.arg(args, 0);
    // A number is accepted as a string.
    if level > 0
        && let Some(id) = vm.coerce_str(value)?
    {
        let mut words = vm.position_of_caller(usize::try_from(level).unwrap_or(usize::MAX)).into_bytes();
        words.extend_from_slice(vm.bytes(id));
        let value = vm.string_owned(words)?;
        return Err(Error::raise(value));
    }
    Err(Error::raise(value))
}

fn get_metatable(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let value = vm.check_any(args, 0)?;
    let Some(meta) = vm.metatable(value) else { return vm.one(Value::Nil) };
    let shown = vm.handler(meta, Event::Metatable);
    vm.one(if shown.is_nil() { Value::Table(meta) } else { shown })
}

fn set_metatable(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let meta = match vm.arg(args, 1) {
        Value::Nil if args.len() > 1 => None,
        Value::Table(meta) => Some(meta),
        _ => return Err(vm.bad_argument(args, 1, "nil or table expected")),
    };
    if let Some(old) = vm.heap.get_table(table).meta
        && !vm.handler(old, Event::Metatable).is_nil()
    {
        return Err(vm.error("cannot change a protected metatable"));
    }
    vm.check_writable(table)?;
    vm.heap.table_mut(table)?.meta = meta;
    vm.one(table)
}

fn ipairs(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    vm.push(vm.ipairs_step);
    vm.push(Value::Table(table));
    vm.push(Value::Num(0.0));
    Ok(3)
}

fn ipairs_step(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let index = vm.check_int(args, 1)?.wrapping_add(1) as i32;
    let table = vm.check_table(args, 0)?;
    let value = vm.heap.raw_get(table, Value::Num(f64::from(index)));
    if value.is_nil() {
        return Ok(0);
    }
    vm.push(Value::Num(f64::from(index)));
    vm.push(value);
    Ok(2)
}

fn next(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let key = vm.arg(args, 1);
    let Some((key, value)) = vm.raw_next(table, key) else {
        return Err(vm.fault("invalid key to 'next'"));
    };
    vm.work(host, 1)?;
    if key.is_nil() {
        return vm.one(Value::Nil);
    }
    vm.push(key);
    vm.push(value);
    Ok(2)
}

fn pairs(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    vm.push(vm.next.map_or(Value::Nil, Value::Native));
    vm.push(Value::Table(table));
    vm.push(Value::Nil);
    Ok(3)
}

fn load_text(vm: &mut Vm, host: &mut dyn Host, text: &[u8], name: &[u8]) -> Result<usize> {
    vm.work(host, text.len())?;
    match vm.compile(host, text, name)? {
        Ok(script) => vm.one(script.value()),
        Err(words) => {
            let words = vm.string_owned(words)?;
            vm.push(Value::Nil);
            vm.push(words);
            Ok(2)
        }
    }
}

fn load_string(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let text = vm.check_str(args, 0)?;
    let name = if vm.arg(args, 1).is_nil() { text } else { vm.check_str(args, 1)? };
    let (text, name) = (vm.bytes(text).to_vec(), vm.bytes(name).to_vec());
    load_text(vm, host, &text, &name)
}

fn load(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let reader = vm.arg(args, 0);
    if !matches!(reader, Value::Func(_) | Value::Native(_)) {
        return Err(vm.bad_type(args, 0, "function"));
    }
    let name = if vm.arg(args, 1).is_nil() {
        b"=(load)".to_vec()
    } else {
        vm.check_str(args, 1).map(|id| vm.bytes(id).to_vec())?
    };
    let (frames, stack) = (vm.co.frames.len(), vm.co.stack.len());
    match read_pieces(vm, host, reader) {
        Ok(text) => load_text(vm, host, &text, &name),
        Err(error) => {
            let value = caught(vm, error, frames, stack)?;
            vm.push(Value::Nil);
            vm.push(value);
            Ok(2)
        }
    }
}

fn read_pieces(vm: &mut Vm, host: &mut dyn Host, reader: Value) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let piece = vm.call_for_one(host, reader, &[])?;
        match vm.coerce_str(piece)? {
            Some(id) if !vm.bytes(id).is_empty() => {
                vm.check_room(text.len() + vm.bytes(id).len())?;
                text.extend_from_slice(vm.bytes(id));
            }
            Some(_) => return Ok(text),
            None if piece.is_nil() => return Ok(text),
            None => return Err(vm.error("reader function must return a string")),
        }
    }
}

fn pcall(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    if args.is_empty() {
        if !vm.pcall_unwraps {
            return Err(vm.bad_argument(args, 0, "value expected"));
        }
        // Redis's interpreter takes its flag for the function.
        vm.push(Value::Bool(false));
        let words = vm.string(b"attempt to call a boolean value")?;
        vm.push(words);
        return Ok(2);
    }
    let frames = vm.co.frames.len();
    let stack = vm.co.stack.len();
    vm.push(Value::Bool(true));
    match vm.call_args(host, args, 0) {
        Ok(count) => Ok(count + 1),
        Err(error) => {
            let mut value = caught(vm, error, frames, stack)?;
            if vm.pcall_unwraps
                && let Value::Table(table) = value
                && let words @ (Value::Str(_) | Value::Num(_)) = vm.raw_field(table, b"err")
            {
                value = words;
            }
            vm.push(Value::Bool(false));
            vm.push(value);
            Ok(2)
        }
    }
}

/// The value of an error that may be caught; the stack is restored to before the call.
fn caught(vm: &mut Vm, error: Error, frames: usize, stack: usize) -> Result<Value> {
    match *error.0 {
        Kind::Raised(value, _) => {
            vm.unwind(frames, stack);
            Ok(value)
        }
        _ => Err(error),
    }
}

fn xpcall(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    if args.len() < 2 {
        return Err(vm.bad_argument(args, 1, "value expected"));
    }
    let frames = vm.co.frames.len();
    let stack = vm.co.stack.len();
    vm.push(Value::Bool(true));
    let function = vm.arg(args, 0);
    match vm.call(host, function, &[]) {
        Ok(count) => Ok(count + 1),
        Err(error) => {
            let value = caught(vm, error, frames, stack)?;
            vm.push(Value::Bool(false));
            let handler = vm.arg(args, 1);
            match vm.call_for_one(host, handler, &[value]) {
                Ok(value) => vm.push(value),
                Err(error) => {
                    caught(vm, error, frames, stack)?;
                    vm.push(Value::Bool(false));
                    let words = vm.string(b"error in error handling")?;
                    vm.push(words);
                }
            }
            Ok(2)
        }
    }
}

fn raw_equal(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let equal = vm.check_any(args, 0)? == vm.check_any(args, 1)?;
    vm.one(equal)
}

fn raw_get(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let key = vm.check_any(args, 1)?;
    vm.one(vm.heap.raw_get(table, key))
}

fn raw_set(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let key = vm.check_any(args, 1)?;
    let value = vm.check_any(args, 2)?;
    vm.check_writable(table)?;
    match key {
        Value::Nil => return Err(vm.raise(b"table index is nil")),
        Value::Num(number) if number.is_nan() => return Err(vm.raise(b"table index is NaN")),
        _ => vm.heap.raw_set(table, key, value)?,
    }
    vm.one(table)
}

fn select(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    if let Value::Str(id) = vm.arg(args, 0)
        && vm.bytes(id).first() == Some(&b'#')
    {
        return vm.one((args.len() - 1) as f64);
    }
    // C's int, which truncates.
    let mut from = i64::from(vm.check_int(args, 0)? as i32);
    if from < 0 {
        from += args.len() as i64;
    }
    if from < 1 {
        return Err(vm.bad_argument(args, 0, "index out of range"));
    }
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(args.len());
    for i in from..args.len() {
        vm.push(vm.arg(args, i));
    }
    Ok(args.len() - from)
}

fn to_number(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let base = vm.opt_int(args, 1, 10)? as i32;
    let value = vm.check_any(args, 0)?;
    if base == 10 {
        if let Value::Str(id) = value {
            vm.work(host, vm.bytes(id).len() / 4)?;
        }
        return vm.one(vm.to_number(value).map_or(Value::Nil, Value::Num));
    }
    let id = vm.check_str(args, 0)?;
    if !(2..=36).contains(&base) {
        return Err(vm.bad_argument(args, 1, "base out of range"));
    }
    vm.work(host, vm.bytes(id).len() / 4)?;
    vm.one(with_base(vm.bytes(id), base as u32).map_or(Value::Nil, Value::Num))
}

/// C's strtoul: out of range it is the largest value.
fn with_base(text: &[u8], base: u32) -> Option<f64> {
    let start = text.iter().position(|byte| !number::is_space(*byte))?;
    let end = text.iter().rposition(|byte| !number::is_space(*byte))? + 1;
    let mut text = &text[start..end];
    let negative = text.first() == Some(&b'-');
    if let Some(b'-' | b'+') = text.first() {
        text = &text[1..];
    }
    if base == 16
        && text.len() > 2
        && text[0] == b'0'
        && matches!(text[1], b'x' | b'X')
        && text[2].is_ascii_hexdigit()
    {
        text = &text[2..];
    }
    if text.is_empty() {
        return None;
    }
    let (mut value, mut fits) = (0_u64, true);
    for byte in text {
        let digit = char::from(*byte).to_digit(base)?;
        match value.checked_mul(u64::from(base)).and_then(|value| value.checked_add(u64::from(digit))) {
            Some(next) => value = next,
            None => fits = false,
        }
    }
    Some(match (fits, negative) {
        (false, _) => u64::MAX as f64,
        (true, false) => value as f64,
        (true, true) => value.wrapping_neg() as f64,
    })
}

fn to_string(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let value = vm.check_any(args, 0)?;
    let text = vm.shown(host, value)?;
    vm.one(text)
}

fn type_of(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let name = vm.check_any(args, 0)?.type_name();
    let name = vm.string(name.as_bytes())?;
    vm.one(name)
}

fn unpack(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let table = vm.check_table(args, 0)?;
    let first = i64::from(vm.opt_int(args, 1, 1)? as i32);
    let len = vm.raw_len(table) as i64;
    let last = i64::from(vm.opt_int(args, 2, len)? as i32);
    if first > last {
        return Ok(0);
    }
    // In a wider type, so that it does not overflow.
    let count = (last - first) as usize;
    if count >= VALUES_MAX {
        return Err(vm.error("too many results to unpack"));
    }
    for i in first..=last {
        vm.push(vm.heap.raw_get(table, Value::Num(i as f64)));
    }
    Ok(count + 1)
}

pub(super) fn clock(vm: &mut Vm, host: &mut dyn Host, _: Args) -> Result<usize> {
    let seconds = host.clock();
    vm.one(seconds)
}

impl Vm {
    /// A value as `tostring` returns it.
    ///
    /// # Errors
    /// What `__tostring` raises, or when the memory budget is exceeded.
    pub fn shown(&mut self, host: &mut dyn Host, value: Value) -> Result<Value> {
        let handler = self.meta_of(value, Event::ToString);
        if !handler.is_nil() {
            return self.call_for_one(host, handler, &[value]);
        }
        let text = match value {
            Value::Str(_) => return Ok(value),
            Value::Num(number) => number::format(number),
            Value::Nil => "nil".into(),
            Value::Bool(yes) => yes.to_string(),
            Value::Null => "userdata: (nil)".into(),
            Value::Table(id) => address("table", 1, id.0),
            Value::Func(id) => address("function", 2, id.0),
            Value::Native(id) => address("function: builtin", 3, id.0),
            Value::Thread(id) => address("thread", 4, id.0),
        };
        self.string(text.as_bytes())
    }
}

/// The substitute of an address: different for different objects, and the same in every run.
fn address(kind: &str, area: u64, id: u32) -> String {
    format!("{kind}: 0x{:012x}", 0x7f00_0000_0000 + (area << 36) + u64::from(id) * 64)
}
