//! How a request becomes a call: finding the row, checking arity and rights, queueing in MULTI. It touches nothing.
//!
//! A listener calls [`plan`] for every request, in order, and executes the result.

use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use keystead_core::Millis;

use crate::args::Args;
use crate::bounds::{MULTI_BYTES_MAX, MULTI_COMMANDS_MAX, REPEATED_BYTES_MAX, REPEATED_KEYS_FREE};
use crate::conn::Conn;
use crate::ctx::{Ctx, Dialect};
use crate::errors::{self, Fail};
use crate::hub::{Cluster, Hub};
use crate::meter::{self, ReplyBound};
use crate::reply::Reply;
use crate::session::{Multi, Protocol, Queued, Session};
use crate::spec::{Control, Run, Spec, flag};
use crate::table;

/// What a listener does with a request.
#[derive(Debug)]
pub enum Plan {
    /// Send this reply; there is nothing to run.
    Reply(Reply),
    /// Run it on the keyspace, with [`run_data`].
    Data(&'static Spec),
    /// Run it on the connection, with [`run_conn`].
    Conn(&'static Spec),
    /// Run the queued transaction.
    Exec,
    /// Watch the keys among its arguments.
    Watch,
    /// Unwatch all keys, then send this reply. The transaction is already discarded.
    Unwatch(Reply),
}

/// The row of a request with a valid number of arguments.
///
/// # Errors
/// Redis's errors for unknown commands and wrong numbers of arguments.
#[inline]
pub fn resolve(args: Args<'_>) -> Result<&'static Spec, Fail> {
    resolve_in(Dialect::Redis, args)
}

/// As [`resolve`], for a dialect: Upstash accepts some commands without arguments.
///
/// # Errors
/// As [`resolve`].
#[inline]
pub fn resolve_in(dialect: Dialect, args: Args<'_>) -> Result<&'static Spec, Fail> {
    let Some(mut spec) = table::find(args.name()) else {
        return Err(errors::unknown_command(args));
    };
    if let Run::Within(rows) = spec.run {
        if args.len() < 2 {
            let alone = rows.first().filter(|_| spec.accepts(args.len()));
            return alone.ok_or_else(|| errors::wrong_arity(spec.full_name));
        }
        spec = table::find_within(rows, args.at(1)).ok_or_else(|| errors::unknown_subcommand(args))?;
    }
    if !spec.accepts_in(dialect, args.len()) {
        return Err(errors::wrong_arity(spec.full_name));
    }
    Ok(spec)
}

/// What to do with a request of this connection.
pub fn plan(session: &mut Session, hub: &Hub, args: Args<'_>) -> Plan {
    plan_resolved(session, hub, resolve(args), args)
}

/// The same for a request that was [resolved](resolve) before.
#[inline]
pub fn plan_resolved(
    session: &mut Session,
    hub: &Hub,
    resolved: Result<&'static Spec, Fail>,
    args: Args<'_>,
) -> Plan {
    let spec = match resolved {
        Ok(spec) => spec,
        Err(fail) => return reject(session, args, fail),
    };
    if !session.authenticated && !spec.flags.has(flag::NO_AUTH) {
        if hub.host.needs_token() {
            return reject(session, args, errors::NO_AUTH);
        }
        session.authenticated = true;
    }
    if let Some(cluster) = hub.cluster.get()
        && let Some(plan) = redirect(session, cluster, spec, args)
    {
        return plan;
    }
    if session.is_subscribed() && session.protocol == Protocol::Resp2 && !allowed_while_subscribed(spec) {
        let words = format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            spec.full_name
        );
        return reject(session, args, Fail::text(words));
    }
    if session.monitor.is_some() && matches!(spec.run, Run::Data(_)) {
        return reject(session, args, errors::WATCHES_COMMANDS);
    }
    if !hub.monitors.is_empty() {
        monitor(session, hub, spec, args);
    }
    if let Run::Control(control) = spec.run {
        return control_transaction(session, hub, control);
    }
    if session.multi.is_some() {
        // Queueing takes memory, too, so Redis rejects every command then.
        if hub.host.is_out_of_memory(spec, args) {
            return reject(session, args, errors::OUT_OF_MEMORY);
        }
        return queue(session, spec, args);
    }
    match spec.run {
        Run::Conn(_) | Run::Shared(_) => Plan::Conn(spec),
        _ => Plan::Data(spec),
    }
}

/// What a node of a cluster does with a request on keys that it does not serve; `None` for any other. A transaction must have all its
/// keys in one slot; the error of EXEC discards it, as in Redis.
fn redirect(session: &mut Session, cluster: &Cluster, spec: &'static Spec, args: Args<'_>) -> Option<Plan> {
    if !matches!(spec.run, Run::Control(Control::Exec)) {
        let fail = cluster.rejection(spec, args)?.into();
        return Some(reject(session, args, fail));
    }
    let fail = cluster.rejection_of_queue(&session.multi.as_ref()?.queue)?.into();
    end_multi(session);
    Some(Plan::Unwatch(Reply::Error(fail)))
}

/// Sends a request to the MONITOR clients: not when it is queued, but when the transaction runs, followed by EXEC. QUIT is not
/// shown.
#[cold]
fn monitor(session: &Session, hub: &Hub, spec: &Spec, args: Args<'_>) {
    let (address, now) = (&session.client.address, Millis(session.client.last_ms.load(Ordering::Relaxed)));
    match (spec.run, &session.multi) {
        (Run::Control(Control::Quit), _) => {}
        (Run::Control(Control::Exec), Some(multi)) => {
            let runs = multi.queue.iter().filter(|_| !multi.dirty);
            runs.for_each(|queued| hub.monitor(queued.spec, address, now, queued.command.args()));
            hub.monitor(spec, address, now, args);
        }
        (Run::Control(_), _) | (_, None) => hub.monitor(spec, address, now, args),
        (_, Some(_)) => {}
    }
}

/// A request that cannot be queued marks the transaction as dirty; an EXEC that cannot run discards it.
fn reject(session: &mut Session, args: Args<'_>, fail: Fail) -> Plan {
    if args.name().eq_ignore_ascii_case(b"EXEC") {
        end_multi(session);
        let line = fail.line();
        let why = line.strip_prefix("ERR ").unwrap_or(&line);
        let words = format!("EXECABORT Transaction discarded because of: {why}");
        return Plan::Unwatch(Reply::Error(Fail::text(words)));
    }
    if let Some(multi) = &mut session.multi {
        multi.dirty = true;
    }
    Plan::Reply(Reply::Error(fail))
}

fn queue(session: &mut Session, spec: &'static Spec, args: Args<'_>) -> Plan {
    if spec.flags.has(flag::NO_MULTI) {
        return reject(session, args, errors::NOT_IN_MULTI);
    }
    let Some(multi) = &mut session.multi else { return Plan::Reply(Reply::Ok) };
    let command = args.to_command();
    let bytes = command.mem_bytes() + size_of::<Queued>();
    if multi.queue.len() >= MULTI_COMMANDS_MAX || multi.bytes + bytes > MULTI_BYTES_MAX {
        return reject(session, args, errors::QUEUE_TOO_LONG);
    }
    multi.bytes += bytes;
    multi.queue.push(Queued { spec, command });
    session.client.shown().queued = Some(multi.queue.len());
    Plan::Reply(Reply::status("QUEUED"))
}

fn control_transaction(session: &mut Session, hub: &Hub, control: Control) -> Plan {
    match control {
        Control::Multi if session.multi.is_some() => Plan::Reply(Reply::Error(errors::MULTI_NESTED)),
        Control::Multi => {
            session.multi = Some(Multi::default());
            session.client.shown().queued = Some(0);
            Plan::Reply(Reply::Ok)
        }
        Control::Exec if session.multi.is_none() => Plan::Reply(Reply::Error(errors::EXEC_WITHOUT_MULTI)),
        Control::Exec if session.multi.as_ref().is_some_and(|multi| multi.dirty) => {
            end_multi(session);
            Plan::Unwatch(Reply::Error(errors::EXEC_ABORT))
        }
        Control::Exec => Plan::Exec,
        Control::Discard if session.multi.is_none() => {
            Plan::Reply(Reply::Error(errors::DISCARD_WITHOUT_MULTI))
        }
        Control::Discard => {
            end_multi(session);
            Plan::Unwatch(Reply::Ok)
        }
        Control::Watch if session.multi.is_some() => Plan::Reply(Reply::Error(errors::WATCH_INSIDE_MULTI)),
        Control::Watch => Plan::Watch,
        Control::Unwatch if session.multi.is_some() => {
            let Some(spec) = table::find(b"UNWATCH") else { return Plan::Reply(Reply::Ok) };
            queue(session, spec, crate::Command::new(["UNWATCH"]).args())
        }
        Control::Unwatch => Plan::Unwatch(Reply::Ok),
        Control::Reset => {
            end_multi(session);
            crate::families::connection::reset(session, hub);
            Plan::Unwatch(Reply::status("RESET"))
        }
        Control::Quit => {
            session.closing = true;
            Plan::Reply(Reply::Ok)
        }
    }
}

/// Removes the transaction from a session.
pub fn end_multi(session: &mut Session) -> Option<Multi> {
    session.client.shown().queued = None;
    session.multi.take()
}

fn allowed_while_subscribed(spec: &Spec) -> bool {
    spec.full_name.ends_with("subscribe") || matches!(spec.full_name, "ping" | "quit" | "reset")
}

/// Runs a command on the keyspace, within the bounds of its reply and its work.
#[inline]
pub fn run_data(ctx: &mut Ctx<'_>, spec: &Spec, args: Args<'_>) -> Reply {
    let Run::Data(run) = spec.run else { return Reply::Error(errors::unknown_command(args)) };
    if let Some(denial) = ctx.rights.denial(spec) {
        return Reply::Error(denial);
    }
    // A command that was blocked was accepted when it came.
    if ctx.out_of_memory && spec.flags.has(flag::DENY_OOM) && !ctx.woken {
        return Reply::Error(errors::OUT_OF_MEMORY);
    }
    if spec.flags.has(flag::WHOLE) && args.len() > REPEATED_KEYS_FREE && repeats(ctx, spec, args) {
        return Reply::Error(errors::REPEATED_KEYS);
    }
    meter::run(ctx.reply, ctx.hub.waiting.bytes(), || run(ctx, args)).into()
}

/// Whether a command repeats large keys: its work would be their size times the number of repetitions.
#[cold]
fn repeats(ctx: &mut Ctx<'_>, spec: &Spec, args: Args<'_>) -> bool {
    let (mut named, mut bytes) = (HashSet::with_hasher(RandomState::default()), 0_usize);
    for at in spec.keys(args).unwrap_or_default() {
        if !named.insert(args.at(at)) {
            // The command itself reports what is wrong with a key.
            let size = ctx.keys.mem_bytes_of(args.at(at), ctx.now).ok().flatten();
            bytes = bytes.saturating_add(size.unwrap_or(0));
        }
    }
    bytes > REPEATED_BYTES_MAX
}

/// Runs a command on the connection, within the same bounds.
pub fn run_conn(conn: &mut Conn<'_>, spec: &Spec, args: Args<'_>) -> Reply {
    let run = || match spec.run {
        Run::Conn(run) => run(conn, args),
        Run::Shared(run) => run(conn.hub, conn.now, args),
        _ => Err(errors::unknown_command(args)),
    };
    meter::run(ReplyBound::default(), 0, run).into()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Desk, shown};

    const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

    /// A desk with some keys, whose memory bound is reached.
    fn full() -> Desk {
        let mut desk = Desk::in_memory();
        desk.expect(&[("SET a 1", "+OK"), ("SET b 2", "+OK"), ("RPUSH l x y", ":2")]);
        desk.keys.set_memory_bound(1, false);
        desk
    }

    #[test]
    fn at_the_memory_bound_only_commands_that_could_add_memory_fail() {
        let mut desk = full();
        desk.expect(&[
            ("SET c 3", OOM),
            ("SET a 3", OOM),
            ("INCR a", OOM),
            ("COPY a c", OOM),
            ("LMOVE l l LEFT RIGHT", OOM),
            ("CL.THROTTLE k 15 30 60", OOM),
            ("GET a", "$1 1"),
            ("EXPIRE a 10", ":1"),
            ("RENAME a c", "+OK"),
            ("LPOP l", "$1 x"),
            ("DEL b", ":1"),
        ]);
        desk.woken = true;
        assert_eq!(desk.resp("BLMOVE l m LEFT RIGHT 0"), "$1 y", "it was accepted before it blocked");
        desk.woken = false;
        desk.keys.set_memory_bound(usize::MAX, false);
        desk.expect(&[("SET c 3", "+OK")]);
    }

    #[test]
    fn a_script_is_rejected_before_its_first_write_and_not_after_it() {
        let mut desk = full();
        for (script, reply) in [
            ("return redis.call('get','a')", "$1 1"),
            ("return redis.pcall('set','x','1')", OOM),
            ("redis.call('del','b'); return redis.call('set','x','1')", "+OK"),
            // What one script may do, the next may not.
            ("return redis.pcall('set','y','1')", OOM),
            ("redis.pcall('set','y','1'); return redis.pcall('set','y','1')", OOM),
        ] {
            assert_eq!(shown(&desk.run_args(&["EVAL", script, "0"])), reply, "{script}");
        }
    }
}
