//! Lua's libraries without access to the system: one file each. Every function counts its work and charges what it allocates.

mod base;
mod check;
mod coroutine;
mod format;
mod gsub;
mod math;
pub(crate) mod pattern;
mod random;
mod strings;
mod tables;

use crate::error::Result;
use crate::value::TableId;
use crate::vm::{NativeFn, Vm};

pub(crate) type Row = (&'static str, NativeFn);

/// A table of functions.
pub(crate) fn library(vm: &mut Vm, rows: &[Row]) -> Result<TableId> {
    let table = vm.table(0, rows.len())?;
    fill(vm, table, rows)?;
    Ok(table)
}

fn fill(vm: &mut Vm, table: TableId, rows: &[Row]) -> Result<()> {
    for (name, function) in rows {
        let function = vm.native(*function);
        vm.set_field(table, name, function)?;
    }
    Ok(())
}

/// Adds all libraries to the globals.
pub(crate) fn open(vm: &mut Vm) -> Result<()> {
    let globals = vm.globals();
    base::open(vm, globals)?;
    for (name, rows) in [
        ("coroutine", coroutine::ROWS),
        ("string", strings::ROWS),
        ("table", tables::ROWS),
        ("os", &[("clock", base::clock as NativeFn)][..]),
    ] {
        let table = library(vm, rows)?;
        vm.set_field(globals, name, table.into())?;
        if name == "string" {
            let meta = vm.table(0, 1)?;
            vm.set_field(meta, "__index", table.into())?;
            vm.string_meta = Some(meta);
        }
    }
    vm.gmatch = [vm.built_in(gsub::GMATCH)?, vm.native(gsub::gmatch_next)];
    vm.wrap = [vm.built_in(coroutine::WRAP)?, vm.native(coroutine::wrap_resume)];
    math::open(vm, globals)
}
