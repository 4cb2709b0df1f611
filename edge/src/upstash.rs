//! The Upstash-compatible REST API on the keys of an object. Touches the database it is given.

use http::StatusCode;
use keystead_commands::bounds::IDEMPOTENCY_RESPONSE_BYTES_MAX;
use keystead_commands::conn::Conn;
use keystead_commands::ctx::{Dialect, Publication, Rights};
use keystead_commands::dispatch::{run_conn, run_data};
use keystead_commands::errors::{self, Fail};
use keystead_commands::idempotency::{IdempotencyKey, Known, StoredResponse};
use keystead_commands::reply_budget::ReplyBudget;
use keystead_commands::session::Queued;
use keystead_commands::spec::{Control, Run, flag};
use keystead_commands::transaction::{check_memory, keeps, run_queue};
use keystead_commands::{Command, Ctx, Reply as RedisReply, Spec};
use keystead_core::{Error, ShardId};
use keystead_http_api::idempotency::{self, IdempotencyError};
use keystead_http_api::upstash::command::{allowed, unavailable};
use keystead_http_api::upstash::form::{FORM_HEADERS, all_in, one_in};
use keystead_http_api::upstash::{BodyError, Form, body, command_of};

use crate::bounds::RESPONSE_BYTES_MAX;
use crate::database::{Completion, Database, now};
use crate::events;
use crate::exchange::Reply;
use crate::gate::Api;
use crate::object::Arrived;

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    Pipeline,
    Transaction,
}

pub(crate) fn respond(database: &mut Database, request: &Arrived<'_>) -> Reply {
    let path = request.head.uri.path();
    match path.split('/').nth(1) {
        Some("subscribe") => return events::to_channels(database, path),
        Some("psubscribe") => return events::to_patterns(database, path),
        Some("monitor") if request.rights == Rights::All => return events::to_commands(database),
        Some("monitor") => return one(&RedisReply::Error(errors::no_permission("monitor")), Form::default()),
        _ => {}
    }
    let form = match Form::of(&request.head.headers) {
        Ok(form) => form,
        Err(error) => return bad_request(error),
    };
    let parsed = match path {
        "/pipeline" => body::commands(request.body).map(|commands| (commands, Shape::Pipeline, form)),
        "/multi-exec" => {
            body::commands(request.body).map(|commands| (commands, Shape::Transaction, form.json()))
        }
        _ => command_of(path, request.body, request.head.uri.query())
            .map(|command| (vec![command], Shape::One, form)),
    };
    let (commands, shape, form) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return one(&RedisReply::Error(Fail::fixed(error.0)), form),
    };
    let key = match idempotency::of(request.head, request.body, FORM_HEADERS) {
        Ok(key) => key.filter(|_| commands.iter().any(|command| has_effect(request.rights, command))),
        Err(error) => return idempotency_error(error),
    };
    if let Some(key) = key {
        return at_most_once(database, request.rights, &key, commands, (shape, form));
    }
    match shape {
        Shape::Transaction => match as_one(database, request.rights, commands) {
            Ok(replies) => all(&replies, form),
            Err(fail) => one(&RedisReply::Error(fail), form),
        },
        _ => {
            let replies = each(database, request.rights, &commands);
            match (shape, &replies[..]) {
                (Shape::One, [reply]) => one(reply, form),
                _ => all(&replies, form),
            }
        }
    }
}

/// Runs commands in order, each in a transaction of its own: after an error the next ones still run.
fn each(database: &mut Database, rights: Rights, commands: &[Command]) -> Vec<RedisReply> {
    let mut budget = ReplyBudget::new(RESPONSE_BYTES_MAX);
    let run = |command: &Command| match allowed(rights, command) {
        Err(fail) => RedisReply::Error(fail),
        Ok(spec) => budget.run(|bound| {
            shown(database, spec, command);
            if !matches!(spec.run, Run::Data(_)) {
                return about_connection(database, spec, command);
            }
            let ran = database.transact(|open| {
                let mut ctx = Ctx { reply: bound, ..open.ctx(rights) };
                let reply = run_data(&mut ctx, spec, command.args());
                let publish = std::mem::take(&mut ctx.publish);
                let completion = Completion::commit_if(keeps(&reply));
                ((reply, publish), completion)
            });
            settled(database, ran)
        }),
    };
    commands.iter().map(run).collect()
}

/// The reply of a command, after its messages were sent. Those of one that was undone are not.
fn settled(database: &Database, ran: Result<(RedisReply, Vec<Publication>), Error>) -> RedisReply {
    match ran {
        Ok((reply, publish)) => {
            if keeps(&reply) {
                database.publish(&publish);
            }
            reply
        }
        Err(error) => RedisReply::Error(Fail::Broken(error)),
    }
}

/// Runs commands as one transaction, all or nothing.
fn as_one(database: &mut Database, rights: Rights, commands: Vec<Command>) -> Result<Vec<RedisReply>, Fail> {
    let mut queue = Vec::with_capacity(commands.len());
    for command in commands {
        let spec = allowed(rights, &command)?;
        if spec.flags.has(flag::NO_MULTI) {
            return Err(errors::NOT_IN_MULTI);
        }
        shown(database, spec, &command);
        queue.push(Queued { spec, command });
    }
    let ran = database.transact(|open| {
        let ctx = open.ctx(rights);
        let ran = check_memory(&queue, &ctx).and_then(|()| run_queue(&queue, ctx, RESPONSE_BYTES_MAX));
        let completion = Completion::commit_if(ran.is_ok());
        (ran, completion)
    });
    let (replies, publish) = ran.map_err(Fail::Broken)??;
    database.publish(&publish);
    let all = queue.iter().zip(replies).map(|(queued, reply)| {
        reply.unwrap_or_else(|| about_connection(database, queued.spec, &queued.command))
    });
    Ok(all.collect())
}

/// Runs commands and stores their response as one transaction, or returns the stored response.
fn at_most_once(
    database: &mut Database,
    rights: Rights,
    key: &IdempotencyKey,
    commands: Vec<Command>,
    (shape, form): (Shape, Form),
) -> Reply {
    let (queue, known) = match queued(rights, commands, shape) {
        Ok(queued) => queued,
        Err(fail) => return one(&RedisReply::Error(fail), form),
    };
    let home = ShardId::default();
    let ran = database.transact(|open| {
        let now = open.now;
        let mut run = || -> Result<(StoredResponse, Vec<Publication>), Undone> {
            match key.look(open.keys, home, 1, now)? {
                Known::Again(stored) => return Ok((stored, Vec::new())),
                Known::Other => return Err(Undone::Key(IdempotencyError::KeyReused)),
                Known::New => {}
            }
            let (ran, publish) = run_queue(&queue, open.ctx(rights), IDEMPOTENCY_RESPONSE_BYTES_MAX)?;
            let mut ran = ran.into_iter().flatten();
            let replies = known.iter().map(|fail| match fail {
                Some(fail) => RedisReply::Error(fail.clone()),
                None => ran.next().unwrap_or(RedisReply::Nil),
            });
            let replies: Vec<RedisReply> = replies.collect();
            let (status, body) = match (shape, &replies[..]) {
                (Shape::One, [reply]) => one_in(reply, form),
                _ => all_in(&replies, form),
            };
            let stored = StoredResponse { status: status.as_u16(), version: None, body };
            if stored.is_too_large() {
                return Err(Undone::Key(IdempotencyError::ResponseTooLarge));
            }
            key.keep(open.keys, home, 1, &stored, now)?;
            Ok((stored, publish))
        };
        let ran = run();
        let completion = Completion::commit_if(ran.is_ok());
        (ran, completion)
    });
    match ran.unwrap_or_else(|error| Err(error.into())) {
        Ok((stored, publish)) => {
            database.publish(&publish);
            let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Reply::new(status, form.media_type(), stored.body)
        }
        Err(Undone::Key(error)) => idempotency_error(error),
        Err(Undone::Fail(fail)) => one(&RedisReply::Error(fail), form),
    }
}

/// Why a request was undone.
enum Undone {
    Key(IdempotencyError),
    Fail(Fail),
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

/// The commands that run, and for each command why it does not.
type Work = (Vec<Queued>, Vec<Option<Fail>>);

fn queued(rights: Rights, commands: Vec<Command>, shape: Shape) -> Result<Work, Fail> {
    let (mut queue, mut known) = (Vec::new(), Vec::new());
    for command in commands {
        let spec = match allowed(rights, &command) {
            Ok(spec) => spec,
            Err(fail) if shape == Shape::Pipeline => {
                known.push(Some(fail));
                continue;
            }
            Err(fail) => return Err(fail),
        };
        if !matches!(spec.run, Run::Data(_)) {
            return Err(unavailable(spec.full_name));
        }
        known.push(None);
        queue.push(Queued { spec, command });
    }
    Ok((queue, known))
}

/// Whether a command may run and has an effect.
fn has_effect(rights: Rights, command: &Command) -> bool {
    allowed(rights, command).is_ok_and(|spec| {
        spec.flags.has(flag::WRITE)
            || match spec.run {
                Run::Data(_) => spec.flags.has(flag::PUBSUB),
                _ => spec.flags.has(flag::NO_SCRIPT),
            }
    })
}

/// Shows a command to monitors.
fn shown(database: &Database, spec: &Spec, command: &Command) {
    if !database.hub.monitors.is_empty() {
        database.hub.monitor(spec, &database.session.client.address, now(), command.args());
    }
}

/// Runs a command that touches no key.
fn about_connection(database: &mut Database, spec: &Spec, command: &Command) -> RedisReply {
    if let Run::Control(Control::Unwatch) = spec.run {
        return RedisReply::Ok;
    }
    let mut conn = Conn::new(&mut database.session, &database.hub, now());
    conn.dialect = Dialect::Upstash;
    run_conn(&mut conn, spec, command.args())
}

pub(crate) fn one(reply: &RedisReply, form: Form) -> Reply {
    let (status, body) = one_in(reply, form);
    Reply::new(status, form.media_type(), body)
}

fn all(replies: &[RedisReply], form: Form) -> Reply {
    let (status, body) = all_in(replies, form);
    Reply::new(status, form.media_type(), body)
}

/// The response for a request that cannot be served.
pub(crate) fn failed(error: Error) -> Reply {
    one(&RedisReply::Error(Fail::Broken(error)), Form::default())
}

pub(crate) fn bad_request(error: BodyError) -> Reply {
    Api::Upstash.error(StatusCode::BAD_REQUEST, "", error.0)
}

fn idempotency_error(error: IdempotencyError) -> Reply {
    Api::Upstash.error(error.status(), "", &format!("ERR {}", error.words()))
}
