//! Requests with an `Idempotency-Key`: their commands and the stored response are one atomic step.
//!
//! Touches the one shard of their keys. There is no step across shards, so keys on several shards are an error, and so are commands
//! that do not work on keys: after a crash it would be unknown which of them ran. The commands of a pipeline have a reply each, as
//! usual; but the pipeline is one step, so what undoes one of them (a full disk, a script that is killed) undoes all.

use std::sync::atomic::Ordering;

use keystead_commands::bounds::IDEMPOTENCY_RESPONSE_BYTES_MAX;
use keystead_commands::ctx::{Dialect, Publication};
use keystead_commands::errors::{self, Fail};
use keystead_commands::idempotency::{IdempotencyKey, StoredResponse};
use keystead_commands::session::Queued;
use keystead_commands::spec::{Run, Spread, flag};
use keystead_commands::{Command, Ctx, Random, Reply as RedisReply, Spec};
use keystead_core::Error;

use super::super::context::HttpContext;
use super::super::idempotency::{self, IdempotencyError};
use super::super::reply::Reply;
use super::super::request::HttpRequest;
use super::super::rights::Rights;
use super::response::{self, FORM_HEADERS, Form};
use super::run;
use crate::call::target;
use keystead_commands::transaction::run_queue;

const ON_SEVERAL_SHARDS: Fail = Fail::fixed(
    "CROSSSLOT With an Idempotency-Key all commands run in one step: give their keys the same {tag}, or send each with a key of its own",
);

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One command.
    One,
    /// Independent commands: one that cannot run has an error as its reply.
    Pipeline,
    /// All or nothing: if one cannot run, none does.
    Transaction,
}

/// Why a request was undone.
enum Undone {
    IdempotencyError(IdempotencyError),
    Fail(Fail),
}

impl From<IdempotencyError> for Undone {
    fn from(error: IdempotencyError) -> Self {
        Undone::IdempotencyError(error)
    }
}

impl From<Fail> for Undone {
    fn from(fail: Fail) -> Self {
        Undone::Fail(fail)
    }
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Undone::Fail(Fail::Broken(error))
    }
}

/// The idempotency key of a request, if it has one and writes: a read may run any number of times.
pub(super) fn of(
    request: &HttpRequest,
    commands: &[Command],
) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    let Some(idempotency_key) = idempotency::of(request, FORM_HEADERS)? else { return Ok(None) };
    Ok(commands.iter().any(|command| changes(request.rights, command)).then_some(idempotency_key))
}

/// The response for an error of the idempotency key.
pub(super) fn error_response(error: IdempotencyError) -> Reply {
    response::words(error.status(), &format!("ERR {}", error.words()))
}

/// Whether a command may run and has an effect: it changes keys, sends messages or changes settings.
fn changes(rights: Rights, command: &Command) -> bool {
    run::allowed(rights, command).is_ok_and(has_effect)
}

/// Whether a command has an effect.
pub(crate) fn has_effect(spec: &Spec) -> bool {
    let flags = spec.flags;
    flags.has(flag::WRITE)
        || match spec.run {
            Run::Data(_) => flags.has(flag::PUBSUB),
            // Scripts may run those that only report about the server.
            _ => flags.has(flag::NO_SCRIPT),
        }
}

/// Runs a request with an idempotency key, or returns its stored response.
pub(super) async fn run(
    context: &HttpContext,
    rights: Rights,
    idempotency_key: IdempotencyKey,
    commands: Vec<Command>,
    (shape, form): (Shape, Form),
) -> Reply {
    match at_most_once(context, rights, idempotency_key, commands, (shape, form)).await {
        Ok(reply) => reply,
        Err(Undone::IdempotencyError(error)) => error_response(error),
        Err(Undone::Fail(fail)) => {
            context.app.hub.stats.failed(&fail);
            response::one(&RedisReply::Error(fail), form)
        }
    }
}

async fn at_most_once(
    context: &HttpContext,
    rights: Rights,
    idempotency_key: IdempotencyKey,
    commands: Vec<Command>,
    (shape, form): (Shape, Form),
) -> Result<Reply, Undone> {
    let (queue, known) = queued(context, rights, commands, shape)?;
    let slot =
        context.app.hub.cluster.get().and_then(|cluster| cluster.slots_of_queue(&queue).first().copied());
    let idempotency_key = match slot {
        Some(slot) => idempotency_key.in_slot(slot),
        None => idempotency_key,
    };
    let engine = &context.app.engine;
    let shard = match target::shard_of_queue(engine, &queue, None) {
        Ok(shard) => shard.unwrap_or_else(|| idempotency_key.home(engine.shards())),
        Err(_) if shape == Shape::Pipeline => return Err(ON_SEVERAL_SHARDS.into()),
        Err(fail) => return Err(fail.into()),
    };
    run::until_unpaused(context, queue.iter().map(|queued| queued.spec)).await;
    context.app.hub.clients.commands.fetch_add(queue.len() as u64, Ordering::Relaxed);
    let (hub, mut random) = (context.app.hub.clone(), Random::new(context.caller.borrow_mut().random.next()));
    let ran = idempotency::run_at(context, shard, Some(idempotency_key), move |keys, now| {
        let ctx = Ctx::new(keys, now, &mut random, &hub);
        let ctx = Ctx { shard, dialect: Dialect::Upstash, rights, ..ctx };
        let (ran, publish) = run_queue(&queue, ctx, IDEMPOTENCY_RESPONSE_BYTES_MAX)?;
        let replies = merged(known, ran);
        replies.iter().for_each(|reply| run::count(&hub, reply));
        let (status, body) = match (shape, &replies[..]) {
            (Shape::One, [reply]) => response::one_in(reply, form),
            _ => response::all_in(&replies, form),
        };
        Ok::<_, Undone>((StoredResponse { status: status.as_u16(), version: None, body }, publish))
    });
    let (stored, publish): (StoredResponse, Vec<Publication>) = ran.await?;
    context.caller.borrow().publish(&publish);
    Ok(response::stored(stored, form))
}

/// The commands that run, and the replies that are known already: those of commands that cannot run.
type Work = (Vec<Queued>, Vec<Option<RedisReply>>);

fn queued(context: &HttpContext, rights: Rights, commands: Vec<Command>, shape: Shape) -> Result<Work, Fail> {
    let (mut queue, mut replies) = (Vec::with_capacity(commands.len()), Vec::with_capacity(commands.len()));
    for command in commands {
        let spec = match run::spec_of(context, rights, &command) {
            Ok(spec) => spec,
            Err(fail) if shape == Shape::Pipeline => {
                replies.push(Some(RedisReply::Error(fail)));
                continue;
            }
            Err(fail) => return Err(fail),
        };
        if shape == Shape::Transaction && spec.flags.has(flag::NO_MULTI) {
            return Err(errors::NOT_IN_MULTI);
        }
        if !matches!(spec.run, Run::Data(_)) || spec.spread != Spread::Local {
            return Err(not_on_keys(spec));
        }
        replies.push(None);
        queue.push(Queued { spec, command });
    }
    Ok((queue, replies))
}

fn not_on_keys(spec: &Spec) -> Fail {
    let name = spec.full_name.to_uppercase().replace('|', " ");
    Fail::text(format!(
        "ERR An Idempotency-Key works for commands on keys only: send '{name}' in a request without one"
    ))
}

/// All replies, in the order of the commands.
fn merged(known: Vec<Option<RedisReply>>, ran: Vec<Option<RedisReply>>) -> Vec<RedisReply> {
    let mut ran = ran.into_iter().flatten();
    known.into_iter().map(|reply| reply.or_else(|| ran.next()).unwrap_or(RedisReply::Nil)).collect()
}
