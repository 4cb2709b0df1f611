//! `cjson`: JSON, as in lua-cjson 2.1. It touches only the Lua VM.
//!
//! Settings of a script hold until it ends: the next one starts with Redis's defaults.

mod decode;
mod encode;

use keystead_lua::{Args, Result, TableId, Value, Vm};

use super::describe;
use crate::bounds::SCRIPT_DECODE_DEPTH_MAX;
use crate::families::scripting::api;
use crate::families::scripting::world::Run;

/// The settings.
#[derive(Clone)]
pub(in crate::families::scripting) struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth_max: i32,
    decode_depth_max: i32,
    /// 0: error, 1: as they are, 2: as null.
    encode_invalid_numbers: usize,
    decode_invalid_numbers: bool,
    keep_buffer: bool,
    precision: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            encode_invalid_numbers: 0,
            decode_invalid_numbers: true,
            keep_buffer: true,
            precision: 14,
        }
    }
}

/// The maximum depth in both directions, whatever is set: each level uses the thread's stack.
fn depth_max(set: i32) -> usize {
    usize::try_from(set).unwrap_or(0).min(SCRIPT_DECODE_DEPTH_MAX)
}

type Function = fn(&mut Run<'_, '_>, &mut Vm, Args, usize) -> Result<usize>;

/// The functions, with their maximum numbers of arguments. Those of the n-th table that `new` returned use its settings.
const ROWS: &[(&str, usize, Function)] = &[
    ("encode", 1, encode::run),
    ("decode", 1, decode::run),
    ("encode_sparse_array", 3, sparse_array),
    ("encode_max_depth", 1, |run, vm, args, n| {
        integer(vm, args, 0, &mut run.cjson[n].encode_depth_max, 1, i32::MAX)
    }),
    ("decode_max_depth", 1, |run, vm, args, n| {
        integer(vm, args, 0, &mut run.cjson[n].decode_depth_max, 1, i32::MAX)
    }),
    ("encode_number_precision", 1, |run, vm, args, n| {
        integer(vm, args, 0, &mut run.cjson[n].precision, 1, 14)
    }),
    ("encode_keep_buffer", 1, |run, vm, args, n| switch(vm, args, 0, &mut run.cjson[n].keep_buffer)),
    ("encode_invalid_numbers", 1, |run, vm, args, n| {
        choice(vm, args, 0, &mut run.cjson[n].encode_invalid_numbers, &["off", "on", "null"])
    }),
    ("decode_invalid_numbers", 1, |run, vm, args, n| {
        switch(vm, args, 0, &mut run.cjson[n].decode_invalid_numbers)
    }),
    ("new", usize::MAX, new),
];

/// The memory of a table that `new` returns, with its settings and functions.
const TABLE_BYTES: usize = 2048;

/// The table, with the n-th settings.
pub(super) fn table(vm: &mut Vm, n: usize) -> Result<TableId> {
    let table = vm.table(0, 16)?;
    for (at, (name, ..)) in ROWS.iter().enumerate() {
        let function = vm.host_function((api::ROWS.len() + n * ROWS.len() + at) as u32);
        vm.set_field(table, name, function)?;
    }
    vm.set_field(table, "null", Value::Null)?;
    describe(vm, table, &[("_NAME", "cjson"), ("_VERSION", "2.1.0")])?;
    Ok(table)
}

/// Calls a function by its index among those of all tables.
pub(in crate::families::scripting) fn call(
    run: &mut Run<'_, '_>,
    vm: &mut Vm,
    function: u32,
    args: Args,
) -> Result<usize> {
    let (n, at) = (function as usize / ROWS.len(), function as usize % ROWS.len());
    let (_, max, function) = ROWS[at];
    match at {
        0 | 1 if args.len() != 1 => Err(vm.bad_argument(args, 0, "expected 1 argument")),
        _ if args.len() > max => Err(vm.bad_argument(args, max, "found too many arguments")),
        _ => function(run, vm, args, n),
    }
}

fn new(run: &mut Run<'_, '_>, vm: &mut Vm, _: Args, _: usize) -> Result<usize> {
    vm.charge(TABLE_BYTES)?;
    run.cjson.push(Settings::default());
    let table = table(vm, run.cjson.len() - 1)?;
    vm.one(table)
}

fn sparse_array(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args, n: usize) -> Result<usize> {
    let settings = &mut run.cjson[n];
    Ok(switch(vm, args, 0, &mut settings.sparse_convert)?
        + integer(vm, args, 1, &mut settings.sparse_ratio, 0, i32::MAX)?
        + integer(vm, args, 2, &mut settings.sparse_safe, 0, i32::MAX)?)
}

fn integer(vm: &mut Vm, args: Args, at: usize, setting: &mut i32, min: i32, max: i32) -> Result<usize> {
    if !vm.arg(args, at).is_nil() {
        let value = vm.check_int(args, at)? as i32;
        if !(min..=max).contains(&value) {
            return Err(vm.bad_argument(args, 0, &format!("expected integer between {min} and {max}")));
        }
        *setting = value;
    }
    vm.one(f64::from(*setting))
}

fn switch(vm: &mut Vm, args: Args, at: usize, setting: &mut bool) -> Result<usize> {
    let mut chosen = usize::from(*setting);
    let count = choice(vm, args, at, &mut chosen, &["off", "on"])?;
    *setting = chosen == 1;
    Ok(count)
}

/// One of these words; the first two may also be given as false and true.
fn choice(vm: &mut Vm, args: Args, at: usize, setting: &mut usize, words: &[&str]) -> Result<usize> {
    match vm.arg(args, at) {
        Value::Nil => {}
        Value::Bool(yes) => *setting = usize::from(yes),
        _ => {
            let id = vm.check_str(args, at)?;
            let found = words.iter().position(|known| known.as_bytes() == vm.bytes(id));
            let Some(found) = found else {
                let words = format!("invalid option '{}'", String::from_utf8_lossy(vm.bytes(id)));
                return Err(vm.bad_argument(args, at, &words));
            };
            *setting = found;
        }
    }
    match *setting {
        chosen @ (0 | 1) => vm.one(chosen == 1),
        chosen => {
            let word = vm.string(words[chosen].as_bytes())?;
            vm.one(word)
        }
    }
}
