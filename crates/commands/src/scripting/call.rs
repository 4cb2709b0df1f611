//! `redis.call`: one command of a script. `redis.pcall` is made of it in the prelude.
//! It touches the keyspace, through the command.

use keystead_core::key::shard_of;
use mlua::{Lua, MultiValue, Value};

use super::convert::{self, Names};
use super::raise::Raised;
use super::text;
use crate::args::Command;
use crate::conn::Conn;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::errors::Fail;
use crate::hub::SCRIPT;
use crate::reply::Reply;
use crate::session::Session;
use crate::spec::{Run, Spec, Spread, flag};
use crate::table;

/// A script that runs, as its commands see it.
pub(super) struct Running<'r, 'c> {
    pub(super) ctx: &'r mut Ctx<'c>,
    /// The connection that commands about the connection see: that of nobody.
    pub(super) session: &'r mut Session,
    /// Where the arguments of the next command are put together.
    pub(super) command: Command,
    /// Whether commands that write are refused.
    pub(super) read_only: bool,
    /// A command failed in such a way that all is undone.
    pub(super) broken: Option<Fail>,
}

const NO_ARGUMENTS: &str = "ERR Please specify at least one argument for this redis lib call";
const NOT_TEXT: &str = "ERR Lua redis lib command arguments must be strings or integers";

impl Running<'_, '_> {
    /// Runs a command, or raises an error.
    pub(super) fn call(
        &mut self,
        lua: &Lua,
        names: &Names,
        values: &MultiValue,
        resp3: bool,
    ) -> mlua::Result<Value> {
        gather(&mut self.command, values).map_err(|words| Raised::Table(words.into(), false))?;
        let command = std::mem::take(&mut self.command);
        let reply = self.run(&command);
        self.command = command;
        match reply {
            Reply::Error(fail) if fail.undoes() => {
                self.broken = Some(fail);
                Err(Raised::Stop.into())
            }
            Reply::Error(fail) => Err(Raised::Table(convert::error_words(&fail), true).into()),
            reply => convert::to_lua(lua, names, &reply, resp3),
        }
    }

    fn run(&mut self, command: &Command) -> Reply {
        let args = command.args();
        let spec = match self.allowed(args) {
            Ok(spec) => spec,
            Err(words) => return Reply::Error(Fail::fixed(words)),
        };
        if let Some(refusal) = self.ctx.rights.refusal(spec).or_else(|| blocks(spec, args)) {
            return Reply::Error(refusal);
        }
        self.ctx.hub.monitor(spec, SCRIPT, self.ctx.now, args);
        self.ctx.wait = None;
        match spec.run {
            Run::Conn(_) | Run::Shared(_) => {
                let mut conn = Conn::new(self.session, self.ctx.hub, self.ctx.now);
                conn.dialect = self.ctx.dialect;
                dispatch::run_conn(&mut conn, spec, args)
            }
            _ => dispatch::run_data(self.ctx, spec, args),
        }
    }

    /// The row of a command, if this script may run it.
    fn allowed(&self, args: crate::Args<'_>) -> Result<&'static Spec, &'static str> {
        let spec = dispatch::resolve_in(self.ctx.dialect, args).map_err(|_| unknown(args))?;
        if spec.flags.has(flag::NO_SCRIPT) || matches!(spec.run, Run::Control(_)) {
            return Err("ERR This Redis command is not allowed from script");
        }
        if self.read_only && (spec.writes() || is_message(spec)) {
            return Err("ERR Write commands are not allowed from read-only scripts.");
        }
        let shards = self.ctx.hub.host.shards();
        if shards > 1 && matches!(spec.run, Run::Data(_)) {
            let keys = spec.keys(args).unwrap_or_default();
            let elsewhere = keys.iter().any(|key| shard_of(args.at(*key), shards) != self.ctx.shard);
            if elsewhere || (keys.is_empty() && spec.spread != Spread::Here) {
                return Err("ERR Script attempted to access a non local key in a cluster node");
            }
        }
        Ok(spec)
    }
}

fn unknown(args: crate::Args<'_>) -> &'static str {
    let known = table::find(args.name()).is_some_and(|spec| match spec.run {
        Run::Within(rows) if args.len() > 1 => table::find_within(rows, args.at(1)).is_some(),
        _ => true,
    });
    if known {
        "ERR Wrong number of args calling Redis command from script"
    } else {
        "ERR Unknown Redis command called from script"
    }
}

/// Reading streams does not wait within scripts, and says so.
fn blocks(spec: &Spec, args: crate::Args<'_>) -> Option<Fail> {
    if !matches!(spec.name, "XREAD" | "XREADGROUP") {
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

/// Publishing reaches others, so a script that only reads may not do it.
fn is_message(spec: &Spec) -> bool {
    matches!(spec.name, "PUBLISH" | "SPUBLISH")
}

/// Puts the arguments of a command together.
pub(super) fn gather(command: &mut Command, values: &MultiValue) -> Result<(), &'static str> {
    command.clear();
    if values.is_empty() {
        return Err(NO_ARGUMENTS);
    }
    for value in values {
        match value {
            Value::String(text) => command.push(&text.as_bytes()),
            Value::Integer(number) => command.push_int(*number),
            Value::Number(number) => command.push(text::general(*number, 17).as_bytes()),
            _ => return Err(NOT_TEXT),
        }
    }
    Ok(())
}
