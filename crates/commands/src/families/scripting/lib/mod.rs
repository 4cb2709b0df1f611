//! The libraries of Redis's scripts: `bit`, `struct`, `cmsgpack`, `cjson`. They touch only the Lua VM.

mod bit;
pub(super) mod cjson;
mod cmsgpack;
mod structs;

use keystead_lua::{NativeFn, Result, TableId, Value, Vm};

/// Registers them as globals.
pub(super) fn fill(vm: &mut Vm, globals: TableId) -> Result<()> {
    for (name, make) in [
        ("bit", bit::table as fn(&mut Vm) -> Result<TableId>),
        ("struct", structs::table),
        ("cmsgpack", cmsgpack::table),
        ("cjson", |vm| cjson::table(vm, 0)),
    ] {
        let table = make(vm)?;
        vm.set_field(globals, name, table.into())?;
    }
    Ok(())
}

/// A library of these functions.
fn library(vm: &mut Vm, functions: &[(&str, NativeFn)]) -> Result<TableId> {
    let table = vm.table(0, functions.len())?;
    for (name, function) in functions {
        let function = vm.native(*function);
        vm.set_field(table, name, function)?;
    }
    Ok(table)
}

/// Strings among the fields of a library.
fn describe(vm: &mut Vm, table: TableId, fields: &[(&str, &str)]) -> Result<()> {
    for (name, words) in fields {
        let words: Value = vm.string(words.as_bytes())?;
        vm.set_field(table, name, words)?;
    }
    Ok(())
}
