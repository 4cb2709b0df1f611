//! `redis.call` and `redis.pcall`: one command of a script. They touch the keyspace, through the command.

use keystead_core::key::shard_of;
use keystead_lua::number::general;
use keystead_lua::{Args, Error, Result, Stop as Ended, Value, Vm};

use super::api;
use super::convert;
use super::world::{Run, Stop};
use crate::args::Command;
use crate::conn::Conn;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::errors::Fail;
use crate::hub::{SCRIPT, slots_of};
use crate::reply::Reply;
use crate::session::Session;
use crate::spec::{Run as Runs, Spec, Spread, flag};
use crate::table;

/// A running script, as its commands see it.
pub(super) struct Running<'r, 'c> {
    pub(super) ctx: &'r mut Ctx<'c>,
    /// The connection that connection commands of a script use. It belongs to no client.
    pub(super) session: &'r mut Session,
    /// The buffer for the arguments of the next command.
    pub(super) command: Command,
    /// Whether write commands return an error.
    pub(super) read_only: bool,
    /// A command failed in such a way that everything is rolled back.
    pub(super) broken: Option<Fail>,
}

const NO_ARGUMENTS: &str = "ERR Please specify at least one argument for this redis lib call";
const NON_LOCAL: &str = "ERR Script attempted to access a non local key in a cluster node";
const NOT_TEXT: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// The cost of a command besides the work on its arguments.
const COMMAND_WORK: usize = 50;

pub(super) fn call(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    match execute(run, vm, args)? {
        Ok(value) => vm.one(value),
        Err((words, counted)) => Err(api::raised(run, vm, &words, counted)),
    }
}

/// The same; an error is returned as the table that `call` raises.
pub(super) fn pcall(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<usize> {
    let value = match execute(run, vm, args)? {
        Ok(value) => value,
        Err((words, counted)) => convert::error_table(vm, &run.names, &words, counted)?,
    };
    vm.one(value)
}

/// Runs a command: its reply, or the text of its error and whether it was counted.
fn execute(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args) -> Result<Result<Value, (String, bool)>> {
    let Some(running) = &mut run.running else {
        return Ok(Err(("ERR redis.call is not available here".into(), false)));
    };
    let mut command = std::mem::take(&mut running.command);
    if let Err(words) = gather(vm, run, &mut command, args)? {
        return Ok(Err((words.into(), false)));
    }
    let Some(running) = &mut run.running else { return Ok(Ok(Value::Nil)) };
    run.in_command = true;
    let (reply, sent) = running.run(&command);
    run.in_command = false;
    running.command = command;
    if sent > 0 {
        // Messages are held until the script ends.
        vm.charge(sent)?;
    }
    match reply {
        Reply::Error(fail) if fail.undoes() => {
            running.broken = Some(fail);
            run.stop = Some(Stop::Broken);
            Err(Error::stop(Ended::Interrupted))
        }
        Reply::Error(fail) => Ok(Err((convert::error_words(&fail), true))),
        reply => convert::to_lua(vm, &run.names, &reply, run.resp3).map(Ok),
    }
}

/// Collects the arguments of a command.
pub(super) fn gather(
    vm: &mut Vm,
    run: &mut Run<'_, '_>,
    command: &mut Command,
    args: Args,
) -> Result<Result<(), &'static str>> {
    command.clear();
    if args.is_empty() {
        return Ok(Err(NO_ARGUMENTS));
    }
    let mut bytes = 0;
    for value in vm.args_from(args, 0) {
        bytes += if let Value::Str(id) = value { vm.bytes(*id).len() } else { 24 };
    }
    // The same string may occur many times.
    vm.check_room(bytes)?;
    vm.work(run, COMMAND_WORK + bytes / 16)?;
    for value in vm.args_from(args, 0) {
        match value {
            Value::Str(id) => command.push(vm.bytes(*id)),
            Value::Num(number) => command.push(general(*number, 17).as_bytes()),
            _ => return Ok(Err(NOT_TEXT)),
        }
    }
    Ok(Ok(()))
}

impl Running<'_, '_> {
    /// Runs a command; returns its reply, and the bytes that it published.
    fn run(&mut self, command: &Command) -> (Reply, usize) {
        let args = command.args();
        let spec = match self.allowed(args) {
            Ok(spec) => spec,
            Err(words) => return (Reply::Error(Fail::fixed(words)), 0),
        };
        if let Some(denial) = self.ctx.rights.denial(spec).or_else(|| blocks(spec, args)) {
            return (Reply::Error(denial), 0);
        }
        self.ctx.hub.monitor(spec, SCRIPT, self.ctx.now, args);
        self.ctx.wait = None;
        let reply = match spec.run {
            Runs::Conn(_) | Runs::Shared(_) => {
                let mut conn = Conn::new(self.session, self.ctx.hub, self.ctx.now);
                conn.dialect = self.ctx.dialect;
                dispatch::run_conn(&mut conn, spec, args)
            }
            _ => dispatch::run_data(self.ctx, spec, args),
        };
        if spec.writes() && !matches!(reply, Reply::Error(_)) {
            // As in Redis, only the first write is rejected: a script is not stopped half way.
            self.ctx.out_of_memory = false;
        }
        let sent = if is_message(spec) { args.from(1).map(<[u8]>::len).sum() } else { 0 };
        (reply, sent)
    }

    /// The row of a command, if this script may run it.
    fn allowed(&self, args: crate::Args<'_>) -> Result<&'static Spec, &'static str> {
        let spec = dispatch::resolve_in(self.ctx.dialect, args).map_err(|_| unknown(args))?;
        if spec.flags.has(flag::NO_SCRIPT) || matches!(spec.run, Runs::Control(_)) {
            return Err("ERR This Redis command is not allowed from script");
        }
        if self.read_only && (spec.writes() || is_message(spec)) {
            return Err("ERR Write commands are not allowed from read-only scripts.");
        }
        if let Some(cluster) = self.ctx.hub.cluster.get()
            && matches!(spec.run, Runs::Data(_))
            && slots_of(spec, args).iter().any(|slot| !cluster.serves(*slot))
        {
            return Err(NON_LOCAL);
        }
        let shards = self.ctx.hub.host.shards();
        if shards > 1 && matches!(spec.run, Runs::Data(_)) {
            let keys = spec.keys(args).unwrap_or_default();
            let elsewhere = keys.iter().any(|key| shard_of(args.at(*key), shards) != self.ctx.shard);
            if elsewhere || (keys.is_empty() && spec.spread != Spread::Local) {
                return Err(NON_LOCAL);
            }
        }
        Ok(spec)
    }
}

fn unknown(args: crate::Args<'_>) -> &'static str {
    let known = table::find(args.name()).is_some_and(|spec| match spec.run {
        Runs::Within(rows) if args.len() > 1 => table::find_within(rows, args.at(1)).is_some(),
        _ => true,
    });
    if known {
        "ERR Wrong number of args calling Redis command from script"
    } else {
        "ERR Unknown Redis command called from script"
    }
}

/// Reading streams does not block within scripts: BLOCK is an error.
fn blocks(spec: &Spec, args: crate::Args<'_>) -> Option<Fail> {
    if !matches!(spec.full_name, "xread" | "xreadgroup") {
        return None;
    }
    let is = |at: usize, word: &str| args.at(at).eq_ignore_ascii_case(word.as_bytes());
    let mut at = if is(1, "GROUP") { 4 } else { 1 };
    while at < args.len() && !is(at, "STREAMS") {
        if is(at, "BLOCK") {
            let name = spec.full_name;
            let words = format!("ERR {name} command is not allowed with BLOCK option from scripts");
            return Some(Fail::text(words));
        }
        at += if is(at, "COUNT") { 2 } else { 1 };
    }
    None
}

/// Publishing is visible to others, so a read-only script may not do it.
fn is_message(spec: &Spec) -> bool {
    matches!(spec.full_name, "publish" | "spublish")
}
