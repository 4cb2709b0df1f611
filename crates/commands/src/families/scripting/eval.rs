//! `EVAL script numkeys [key [key ...]] [arg [arg ...]]`, `EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]`
//! `EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]`, `EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]`

use super::compiled::Scripts;
use super::execute::{self, Job};
use super::flags::ScriptFlags;
use super::sha1::{self, Digits};
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult, Fail};

pub(super) const WRITES: Fail =
    Fail::fixed("ERR Can not execute a script with write flag using *_ro command.");

pub(super) fn eval(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, sha1::hex(args.at(1)), Some(args.at(1)), false)
}

pub(super) fn eval_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, sha1::hex(args.at(1)), Some(args.at(1)), true)
}

pub(super) fn evalsha(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, digits(args)?, None, false)
}

pub(super) fn evalsha_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, digits(args)?, None, true)
}

fn digits(args: Args<'_>) -> Result<Digits, Fail> {
    let mut digits = Digits::try_from(args.at(1)).map_err(|_| errors::NO_SCRIPT)?;
    digits.make_ascii_lowercase();
    Ok(digits)
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, digits: Digits, text: Option<&[u8]>, ro: bool) -> CommandResult {
    let keys = execute::count_keys(args, errors::NOT_INT)?;
    let mut scripts = Scripts::take(ctx.hub)?;
    let (reply, healthy) = match prepare(ctx, &mut scripts, digits, text) {
        Ok(()) => run_compiled(ctx, &mut scripts, args, keys, &digits, ro),
        Err(fail) => (Err(fail), true),
    };
    if healthy {
        scripts.put_back();
    }
    reply
}

/// Compiles a script if it is not compiled yet.
fn prepare(ctx: &Ctx<'_>, scripts: &mut Scripts, digits: Digits, text: Option<&[u8]>) -> Result<(), Fail> {
    if scripts.has(&digits) {
        return Ok(());
    }
    let max_ms = ctx.hub.config.script_ms_max();
    if let Some(text) = text {
        scripts.compile(digits, text, max_ms)?;
        return ctx.hub.scripts.keep(digits, text, ctx.rights.into());
    }
    let text = ctx.hub.scripts.text(&digits).ok_or(errors::NO_SCRIPT)?;
    scripts.compile(digits, &text, max_ms)
}

fn run_compiled(
    ctx: &mut Ctx<'_>,
    scripts: &mut Scripts,
    args: Args<'_>,
    keys: usize,
    digits: &Digits,
    ro: bool,
) -> (CommandResult, bool) {
    let Some((script, world, session)) = scripts.get(digits) else {
        return (Err(errors::NO_SCRIPT), true);
    };
    let no_writes = script.flags.is_some_and(|flags| flags.has(ScriptFlags::NO_WRITES));
    if ro && script.flags.is_some() && !no_writes {
        return (Err(WRITES), true);
    }
    if ctx.out_of_memory && script.flags.is_some_and(|flags| !flags.runs_out_of_memory()) {
        return (Err(errors::OUT_OF_MEMORY), true);
    }
    let allow_oom = script.flags.is_some_and(|flags| flags.has(ScriptFlags::ALLOW_OOM));
    let job = Job {
        name: std::str::from_utf8(digits).unwrap_or_default(),
        function: script.function,
        globals: true,
        args,
        keys,
        read_only: ro || no_writes,
        allow_oom,
    };
    let _entered = ctx.hub.scripts.scripts.enter();
    execute::run(world, session, ctx, &job)
}
