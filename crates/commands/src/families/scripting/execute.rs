//! One run of a script or a function: its inputs, its permissions, and the handling of its end.
//! It touches the keyspace, through the commands that it calls.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use keystead_lua::{Error, Result, SourcePosition, Value, Vm};

use super::call::Running;
use super::convert;
use super::world::{Deadline, Run, Stop, World};
use crate::args::{Args, Command};
use crate::bounds::{SCRIPT_MEMORY_BYTES_MAX, SCRIPT_MEMORY_SWEEP_BYTES};
use crate::ctx::Ctx;
use crate::errors::{CommandResult, Fail};
use crate::number;
use crate::session::Session;

/// A script or function to run.
pub(super) struct Job<'a> {
    /// Its name in errors: the SHA-1, or the function's name.
    pub(super) name: &'a str,
    pub(super) function: Value,
    /// Whether KEYS and ARGV are globals, or arguments.
    pub(super) globals: bool,
    /// The arguments of the command; keys begin at 3.
    pub(super) args: Args<'a>,
    /// How many keys there are.
    pub(super) keys: usize,
    /// Whether write commands return an error.
    pub(super) read_only: bool,
    /// Whether its commands may add memory beyond the bound.
    pub(super) allow_oom: bool,
}

/// The number of keys in the arguments, checked as in Redis.
pub(super) fn count_keys(args: Args<'_>, not_a_number: Fail) -> Result<usize, Fail> {
    let count = number::parse_int(args.at(2)).ok_or(not_a_number)?;
    let count = usize::try_from(count).map_err(|_| Fail::fixed("ERR Number of keys can't be negative"))?;
    if count > args.len() - 3 {
        return Err(Fail::fixed("ERR Number of keys can't be greater than number of args"));
    }
    Ok(count)
}

/// Runs it. The second value says whether its world can be reused.
pub(super) fn run(
    world: &mut World,
    session: &mut Session,
    ctx: &mut Ctx<'_>,
    job: &Job<'_>,
) -> (CommandResult, bool) {
    let may_wait = std::mem::replace(&mut ctx.may_wait, false);
    let out_of_memory = ctx.out_of_memory;
    ctx.out_of_memory &= !job.allow_oom;
    let deadline = Deadline::new(ctx.hub.config.script_ms_max(), &world.kills);
    let running = Running {
        ctx: &mut *ctx,
        session,
        command: Command::default(),
        read_only: job.read_only,
        broken: None,
    };
    let mut run = Run::new(world, deadline, Some(running));
    world.begin();
    let (reply, fit) = match caught(world, &mut run, job) {
        Some(reply) => {
            let used = world.vm.used_bytes().saturating_sub(world.vm.base_bytes());
            finish(world);
            (reply, used < SCRIPT_MEMORY_SWEEP_BYTES)
        }
        None => {
            let what = "the interpreter failed, which is a defect of the server; what it changed is undone";
            (Err(Fail::Undone(format!("ERR Error running script {}, {what}", job.name).into())), false)
        }
    };
    let Run { running, log, .. } = run;
    drop(running);
    (ctx.may_wait, ctx.wait, ctx.out_of_memory) = (may_wait, None, out_of_memory);
    for (level, line) in log {
        ctx.hub.host.log(level, &line);
    }
    (reply, fit)
}

/// The reply, or nothing if the interpreter itself panicked: such a bug costs the script and its world, not the shard. A
/// panic of a command is propagated, because its keys may be half changed.
fn caught(world: &mut World, run: &mut Run<'_, '_>, job: &Job<'_>) -> Option<CommandResult> {
    let reply = catch_unwind(AssertUnwindSafe(|| {
        let ended = within(world, run, job);
        settle(&mut world.vm, run, job.name, ended)
    }));
    match reply {
        Ok(reply) => Some(reply),
        Err(panic) if run.in_command => resume_unwind(panic),
        Err(_) => None,
    }
}

/// Sets its inputs, and calls it.
fn within(world: &mut World, run: &mut Run<'_, '_>, job: &Job<'_>) -> Result<Value> {
    let keys = list(&mut world.vm, job.args.from(3).take(job.keys))?;
    let args = list(&mut world.vm, job.args.from(3 + job.keys))?;
    if job.globals {
        let names = world.names;
        world.set_global(names.keys, keys)?;
        world.set_global(names.argv, args)?;
        return world.vm.run_for_one(run, job.function, &[]);
    }
    world.vm.run_for_one(run, job.function, &[keys, args])
}

/// The state is restored to that before the run.
fn finish(world: &mut World) {
    let names = world.names;
    for name in [names.keys, names.argv] {
        // They existed before, so nothing is allocated; a world for functions does not have them.
        let _ = world.clear_global(name);
    }
    world.vm.reset();
}

fn list<'a>(vm: &mut Vm, items: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Value> {
    let table = vm.table(items.len(), 0)?;
    for (i, item) in items.enumerate() {
        let item = vm.string(item)?;
        vm.raw_set(table, Value::Num((i + 1) as f64), item)?;
    }
    Ok(table.into())
}

/// The reply of a run that has ended.
fn settle(vm: &mut Vm, run: &mut Run<'_, '_>, name: &str, ended: Result<Value>) -> CommandResult {
    let names = run.names;
    let resp3 = run.resp3;
    let result = match ended {
        Ok(value) => convert::to_reply(vm, run, &names, value, resp3),
        Err(error) => Err(error),
    };
    if let Some(fail) = run.running.as_mut().and_then(|running| running.broken.take()) {
        return Err(fail);
    }
    match result {
        Ok(reply) => Ok(reply),
        Err(error) if error.stopped().is_some() => Err(stopped(run.stop.unwrap_or(Stop::Memory), name)),
        Err(error) => Err(failed(vm, &error, name)),
    }
}

/// The reply to a script that was stopped. It is rolled back.
pub(super) fn stopped(stop: Stop, name: &str) -> Fail {
    let killed = "Script killed by user with SCRIPT KILL...";
    let words = match stop {
        Stop::Memory => format!(
            "OOM Error running script {name}, not enough memory: it wanted more than {} MB, and what it changed is undone",
            SCRIPT_MEMORY_BYTES_MAX >> 20
        ),
        Stop::Time(ms) => format!(
            "ERR Error running script {name}, {killed} or because it took longer than {ms} ms; what it changed is undone"
        ),
        Stop::Killed | Stop::Broken => {
            format!("ERR Error running script {name}, {killed}; what it changed is undone")
        }
    };
    Fail::Undone(words.into())
}

/// The text of an uncaught error, as Redis's handler formats it.
pub(super) fn words_of(vm: &Vm, error: &Error) -> Option<String> {
    let (value, _) = error.raised()?;
    let text = |value: Value| match value {
        Value::Str(id) => Some(convert::line_of(vm.bytes(id))),
        Value::Num(number) => Some(keystead_lua::number::format(number)),
        _ => None,
    };
    match value {
        Value::Table(table) => text(vm.raw_field(table, b"err")),
        Value::Nil => Some("ERR nil".into()),
        Value::Bool(yes) => Some(format!("ERR {yes}")),
        other => Some(format!("ERR {}", text(other).unwrap_or_else(|| other.type_name().into()))),
    }
}

/// The reply to a script that ended with an error: its text and position. Its changes stay.
fn failed(vm: &Vm, error: &Error, name: &str) -> Fail {
    let Some(mut line) = words_of(vm, error) else {
        return Fail::text(format!("ERR Error running script {name}, execution failure"));
    };
    if let Some((_, Some(SourcePosition { source, line: at }))) = error.raised() {
        line.push_str(&format!(" script: {name}, on {source}:{at}."));
    }
    Fail::text(line)
}
