//! `FCALL function numkeys [key [key ...]] [arg [arg ...]]`, `FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]`

use super::compiled::Functions;
use super::eval::WRITES;
use super::execute::{self, Job};
use super::flags::ScriptFlags;
use crate::args::Args;
use crate::ctx::{Ctx, Dialect};
use crate::errors::{self, CommandResult, Fail};

pub(super) fn fcall(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, false)
}

pub(super) fn fcall_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, true)
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, ro: bool) -> CommandResult {
    let libraries = ctx.hub.scripts.libraries();
    let (library, row) = libraries.function(args.at(1)).ok_or(Fail::fixed("ERR Function not found"))?;
    let keys = execute::count_keys(args, Fail::fixed("ERR Bad number of keys provided"))?;
    let no_writes = row.flags.has(ScriptFlags::NO_WRITES);
    // Upstash runs it, and returns an error if it writes.
    if ro && !no_writes && ctx.dialect == Dialect::Redis {
        return Err(WRITES);
    }
    if ctx.out_of_memory && !row.flags.runs_out_of_memory() {
        return Err(errors::OUT_OF_MEMORY);
    }
    let mut functions = Functions::take(ctx.hub)?;
    let function = match functions.get(library, &row.name) {
        Ok(function) => function,
        Err(fail) => {
            functions.put_back();
            return Err(fail);
        }
    };
    let name = String::from_utf8_lossy(&row.name);
    let read_only = ro || no_writes;
    let allow_oom = row.flags.has(ScriptFlags::ALLOW_OOM);
    let job = Job { name: &name, function, globals: false, args, keys, read_only, allow_oom };
    let _entered = ctx.hub.scripts.functions.enter();
    let Functions { world, session, .. } = &mut *functions;
    let (reply, healthy) = execute::run(world, session, ctx, &job);
    if healthy {
        functions.put_back();
    }
    reply
}
