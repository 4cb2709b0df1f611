//! Requests of the REST door that have a name (`Idempotency-Key`): their commands and the note of the answer are one atomic step.
//!
//! Touches the one shard of their keys. There is no step across shards, so commands whose keys live apart are refused, and those
//! that are not about keys at all: nobody could say after a crash which of them ran. A pipeline answers each of its commands
//! for itself, as ever; but it is one step, so what undoes one of them (a disk that is full, a script that is stopped) undoes all.

use std::sync::atomic::Ordering;

use keystead_commands::bounds::ANSWER_KEPT_BYTES_MAX;
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
use super::answer::{self, FORM_HEADERS, Form};
use super::run;
use crate::call::target;
use crate::call::transaction::run_queue;

const APART: Fail = Fail::fixed(
    "CROSSSLOT With an Idempotency-Key all commands run in one step: give their keys the same {tag}, or send each with a key of its own",
);

/// How the commands of a request belong together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// There is one.
    One,
    /// Each for itself: one that cannot run is told in its place.
    Pipeline,
    /// All or nothing: one that cannot run keeps the others from running.
    Transaction,
}

/// Why a request comes to nothing.
enum Undone {
    IdempotencyError(IdempotencyError),
    Fail(Fail),
}

impl From<IdempotencyError> for Undone {
    fn from(misused: IdempotencyError) -> Self {
        Undone::IdempotencyError(misused)
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

/// The name of a request, where it has one and changes anything: what only looks may run as often as it likes.
pub(super) fn of(
    request: &HttpRequest,
    commands: &[Command],
) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    let Some(idempotency_key) = idempotency::of(request, FORM_HEADERS)? else { return Ok(None) };
    Ok(commands.iter().any(|command| changes(request.rights, command)).then_some(idempotency_key))
}

/// The refusal of a request because of its name.
pub(super) fn refused(misused: IdempotencyError) -> Reply {
    answer::words(misused.status(), &format!("ERR {}", misused.words()))
}

/// Whether a command may run and change something, keys or other: messages are sent, settings are set.
fn changes(rights: Rights, command: &Command) -> bool {
    let Ok(spec) = run::allowed(rights, command) else { return false };
    let flags = spec.flags;
    flags.has(flag::WRITE)
        || match spec.run {
            Run::Data(_) => flags.has(flag::PUBSUB),
            // What tells about the server and changes nothing there, scripts may run, too.
            _ => flags.has(flag::NO_SCRIPT),
        }
}

/// Runs a request that has a name, or gives its first answer again.
pub(super) async fn run(
    context: &HttpContext,
    rights: Rights,
    idempotency_key: IdempotencyKey,
    commands: Vec<Command>,
    (shape, form): (Shape, Form),
) -> Reply {
    match at_most_once(context, rights, idempotency_key, commands, (shape, form)).await {
        Ok(reply) => reply,
        Err(Undone::IdempotencyError(misused)) => refused(misused),
        Err(Undone::Fail(fail)) => {
            context.app.hub.stats.failed(&fail);
            answer::one(&RedisReply::Error(fail), form)
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
    let (queue, answers) = queued(context, rights, commands, shape)?;
    let engine = &context.app.engine;
    let shard = match target::shard_of_queue(engine, &queue, None) {
        Ok(shard) => shard.unwrap_or_else(|| idempotency_key.home(engine.shards())),
        Err(_) if shape == Shape::Pipeline => return Err(APART.into()),
        Err(fail) => return Err(fail.into()),
    };
    run::until_unpaused(context, queue.iter().map(|queued| queued.spec)).await;
    context.app.hub.clients.commands.fetch_add(queue.len() as u64, Ordering::Relaxed);
    let (hub, mut random) = (context.app.hub.clone(), Random::new(context.caller.borrow_mut().random.next()));
    let ran = idempotency::run_at(context, shard, Some(idempotency_key), move |keys, now| {
        let ctx = Ctx::new(keys, now, &mut random, &hub);
        let ctx = Ctx { shard, dialect: Dialect::Upstash, rights, ..ctx };
        let (replies, publish) = run_queue(&queue, ctx, ANSWER_KEPT_BYTES_MAX)?;
        let answers = told(answers, replies);
        answers.iter().for_each(|answer| run::count(&hub, answer));
        let (status, body) = match (shape, &answers[..]) {
            (Shape::One, [answer]) => answer::one_in(answer, form),
            _ => answer::all_in(&answers, form),
        };
        Ok::<_, Undone>((StoredResponse { status: status.as_u16(), version: None, body }, publish))
    });
    let (kept, publish): (StoredResponse, Vec<Publication>) = ran.await?;
    context.caller.borrow().publish(&publish);
    Ok(answer::kept(kept, form))
}

/// The commands that run, and all answers as far as they are known: those of commands that cannot run.
type Work = (Vec<Queued>, Vec<Option<RedisReply>>);

fn queued(context: &HttpContext, rights: Rights, commands: Vec<Command>, shape: Shape) -> Result<Work, Fail> {
    let (mut queue, mut answers) = (Vec::with_capacity(commands.len()), Vec::with_capacity(commands.len()));
    for command in commands {
        let spec = match run::spec_of(context, rights, &command) {
            Ok(spec) => spec,
            Err(fail) if shape == Shape::Pipeline => {
                answers.push(Some(RedisReply::Error(fail)));
                continue;
            }
            Err(fail) => return Err(fail),
        };
        if shape == Shape::Transaction && spec.flags.has(flag::NO_MULTI) {
            return Err(errors::NOT_IN_MULTI);
        }
        if !matches!(spec.run, Run::Data(_)) || spec.spread != Spread::Local {
            return Err(not_here(spec));
        }
        answers.push(None);
        queue.push(Queued { spec, command });
    }
    Ok((queue, answers))
}

fn not_here(spec: &Spec) -> Fail {
    let name = spec.full_name.to_uppercase().replace('|', " ");
    Fail::text(format!(
        "ERR An Idempotency-Key holds for commands on keys: send '{name}' in a request without one"
    ))
}

/// All answers in their places.
fn told(answers: Vec<Option<RedisReply>>, replies: Vec<Option<RedisReply>>) -> Vec<RedisReply> {
    let mut replies = replies.into_iter().flatten();
    answers.into_iter().map(|answer| answer.or_else(|| replies.next()).unwrap_or(RedisReply::Nil)).collect()
}
