//! The Upstash-compatible REST API on the keys of a storage service. Touches the queue of the keys.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use keystead_commands::bounds::IDEMPOTENCY_RESPONSE_BYTES_MAX;
use keystead_commands::conn::Conn;
use keystead_commands::ctx::{Dialect, Publication, Rights};
use keystead_commands::dispatch::{run_conn, run_data};
use keystead_commands::errors::{self, Fail};
use keystead_commands::hub::Hub;
use keystead_commands::idempotency::{IdempotencyKey, Known, StoredResponse};
use keystead_commands::reply_budget::ReplyBudget;
use keystead_commands::session::{Queued, Session};
use keystead_commands::spec::{Control, Run, flag};
use keystead_commands::transaction::{check_memory, keeps, run_queue};
use keystead_commands::{Command, Ctx, Reply as RedisReply, Spec};
use keystead_core::{Clock, Error, ShardId, SystemClock};
use keystead_http_api::idempotency::{self, IdempotencyError};
use keystead_http_api::upstash::command::{allowed, unavailable};
use keystead_http_api::upstash::form::{FORM_HEADERS, all_in, one_in};
use keystead_http_api::upstash::{Form, body, command_of};
use keystead_model::Bytes;

use super::Compute;
use super::work::{Completion, Open, Scope, Work};
use crate::bounds::REST_RESPONSE_BYTES_MAX;
use crate::http::reply::{self, Reply};
use crate::http::upstash::{error_words, has_effect};
use crate::service::Arrived;

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    Pipeline,
    Transaction,
}

/// Replies of commands, and the messages that they publish.
type Replies = (Vec<RedisReply>, Vec<Publication>);

pub(super) async fn respond(compute: &Compute, request: &Arrived) -> Reply {
    let path = request.head.uri.path();
    if let Some("subscribe" | "psubscribe" | "monitor") = path.split('/').nth(1) {
        let words = "ERR messages are not available in split mode: subscribe to a server";
        return error_words(StatusCode::NOT_IMPLEMENTED, words);
    }
    let form = match Form::of(&request.head.headers) {
        Ok(form) => form,
        Err(error) => return error_words(StatusCode::BAD_REQUEST, error.0),
    };
    let parsed = match path {
        "/pipeline" => body::commands(&request.body).map(|commands| (commands, Shape::Pipeline, form)),
        "/multi-exec" => {
            body::commands(&request.body).map(|commands| (commands, Shape::Transaction, form.json()))
        }
        _ => command_of(path, &request.body, request.head.uri.query())
            .map(|command| (vec![command], Shape::One, form)),
    };
    let (commands, shape, form) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return one(&RedisReply::Error(Fail::fixed(error.0)), form),
    };
    let key = match idempotency::of(&request.head, &request.body, FORM_HEADERS) {
        Ok(key) => key.filter(|_| {
            commands.iter().any(|command| allowed(request.rights, command).is_ok_and(has_effect))
        }),
        Err(error) => return idempotency_error(error),
    };
    if let Some(key) = key {
        return at_most_once(compute, request.rights, key, commands, (shape, form)).await;
    }
    match shape {
        Shape::Transaction => match as_one(compute, request.rights, commands).await {
            Ok(replies) => all(&replies, form),
            Err(fail) => one(&RedisReply::Error(fail), form),
        },
        _ => {
            let replies = each(compute, request.rights, commands).await;
            match (shape, &replies[..]) {
                (Shape::One, [reply]) => one(reply, form),
                _ => all(&replies, form),
            }
        }
    }
}

/// What a command reads.
fn scope_of(spec: &Spec) -> Scope {
    match spec.full_name {
        "dbsize" | "keys" | "scan" | "randomkey" => Scope::AllKeysReadOnly,
        "flushall" | "flushdb" => Scope::AllKeys,
        _ => Scope::Names,
    }
}

/// The keys that commands name.
fn names_of<'a>(commands: impl Iterator<Item = (&'a Spec, &'a Command)>) -> Vec<Bytes> {
    let mut names = Vec::new();
    for (spec, command) in commands {
        // What is wrong with its arguments, the command reports itself.
        let keys = spec.keys(command.args()).unwrap_or_default();
        names.extend(keys.into_iter().filter_map(|at| command.args().get(at)).map(Bytes::from));
    }
    names
}

/// Runs commands in order: after an error the next ones still run. Those that name keys run together, in one transaction.
async fn each(compute: &Compute, rights: Rights, commands: Vec<Command>) -> Vec<RedisReply> {
    let mut replies = Vec::with_capacity(commands.len());
    let mut budget = ReplyBudget::new(REST_RESPONSE_BYTES_MAX);
    let mut rest = commands.into_iter().map(|command| Step::new(rights, command)).peekable();
    while let Some(first) = rest.next() {
        let scope = first.scope();
        let mut steps = vec![first];
        while scope == Scope::Names
            && let Some(step) = rest.next_if(|step| step.scope() == Scope::Names)
        {
            steps.push(step);
        }
        let count = steps.len();
        let (ran, publish) = match steps_of(compute, rights, steps, &budget, scope).await {
            Ok(ran) => ran,
            Err(error) => {
                let fail = RedisReply::Error(Fail::Broken(error));
                (vec![fail; count], Vec::new())
            }
        };
        compute.publish(&publish);
        for reply in ran {
            // It was counted where it ran.
            budget.take(&reply);
            replies.push(reply);
        }
    }
    replies
}

async fn steps_of(
    compute: &Compute,
    rights: Rights,
    steps: Vec<Step>,
    budget: &ReplyBudget,
    scope: Scope,
) -> Result<Replies, Error> {
    let left = budget.bound().bytes_left;
    let names = names_of(steps.iter().filter_map(|step| {
        Some((step.spec.as_ref().ok()?, &step.command)).map(|(spec, command)| (*spec, command))
    }));
    let is_local = !steps.iter().any(Step::is_data);
    let result = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let session = Session::new(compute.hub.clients.unlisted(String::new(), SystemClock.now()), true);
    let mut work = Each { steps, rights, session, bytes_left: left, result: Arc::clone(&result) };
    if is_local {
        // It touches no key.
        let replies =
            work.steps.iter_mut().map(|step| step.run_local(&mut work.session, &compute.hub)).collect();
        return Ok((replies, Vec::new()));
    }
    compute.database.run(names, scope, Box::new(work)).await?;
    let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *result))
}

/// A command of a pipeline.
struct Step {
    command: Command,
    spec: Result<&'static Spec, Fail>,
    /// The reply of one that must be undone, or that has run on the connection.
    decided: Option<RedisReply>,
}

impl Step {
    fn new(rights: Rights, command: Command) -> Step {
        Step { spec: allowed(rights, &command), command, decided: None }
    }

    fn is_data(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| matches!(spec.run, Run::Data(_)))
    }

    fn scope(&self) -> Scope {
        self.spec.as_ref().map_or(Scope::Names, |spec| scope_of(spec))
    }

    /// Runs one that touches no key, once.
    fn run_local(&mut self, session: &mut Session, hub: &Hub) -> RedisReply {
        if let Some(reply) = &self.decided {
            return reply.clone();
        }
        let reply = match &self.spec {
            Err(fail) => RedisReply::Error(fail.clone()),
            Ok(spec) => about_connection(session, hub, spec, &self.command),
        };
        self.decided = Some(reply.clone());
        reply
    }
}

/// Commands of a pipeline that run one after the other.
struct Each {
    steps: Vec<Step>,
    rights: Rights,
    session: Session,
    bytes_left: usize,
    result: Arc<Mutex<Replies>>,
}

impl Work for Each {
    fn run(&mut self, open: &mut Open<'_>) -> Completion {
        let (mut replies, mut published) = (Vec::with_capacity(self.steps.len()), Vec::new());
        let mut budget = ReplyBudget::new(self.bytes_left);
        for step in &mut self.steps {
            let reply = match (&step.decided, &step.spec) {
                (None, Ok(spec)) if matches!(spec.run, Run::Data(_)) => {
                    let reply = budget.run(|bound| {
                        let mut ctx = Ctx { reply: bound, ..open.ctx(self.rights) };
                        let reply = run_data(&mut ctx, spec, step.command.args());
                        published.append(&mut ctx.publish);
                        reply
                    });
                    if !keeps(&reply) {
                        step.decided = Some(reply);
                        return Completion::Undo;
                    }
                    reply
                }
                (Some(reply), Ok(spec)) if matches!(spec.run, Run::Data(_)) => reply.clone(),
                _ => step.run_local(&mut self.session, open.hub),
            };
            replies.push(reply);
        }
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = (replies, published);
        Completion::Commit
    }

    fn forget(&mut self) {
        self.steps.iter_mut().filter(|step| step.is_data()).for_each(|step| step.decided = None);
    }
}

/// Runs commands as one transaction, all or nothing.
async fn as_one(compute: &Compute, rights: Rights, commands: Vec<Command>) -> Result<Vec<RedisReply>, Fail> {
    let mut queue = Vec::with_capacity(commands.len());
    for command in commands {
        let spec = allowed(rights, &command)?;
        if spec.flags.has(flag::NO_MULTI) {
            return Err(errors::NOT_IN_MULTI);
        }
        queue.push(Queued { spec, command });
    }
    let queue = Arc::new(queue);
    let (names, scope) = needs_of(&queue);
    let shared = Arc::clone(&queue);
    let ran = compute.database.transact(names, scope, move |open| {
        let ctx = open.ctx(rights);
        let ran = check_memory(&shared, &ctx).and_then(|()| run_queue(&shared, ctx, REST_RESPONSE_BYTES_MAX));
        let completion = Completion::commit_if(ran.is_ok());
        (ran, completion)
    });
    let (replies, publish) = ran.await.map_err(Fail::Broken)??;
    compute.publish(&publish);
    let mut session = Session::new(compute.hub.clients.unlisted(String::new(), SystemClock.now()), true);
    let all = queue.iter().zip(replies).map(|(queued, reply)| {
        reply.unwrap_or_else(|| about_connection(&mut session, &compute.hub, queued.spec, &queued.command))
    });
    Ok(all.collect())
}

/// The keys that queued commands name, and what they read.
fn needs_of(queue: &[Queued]) -> (Vec<Bytes>, Scope) {
    let scopes: Vec<Scope> = queue.iter().map(|queued| scope_of(queued.spec)).collect();
    let scope = match scopes.iter().any(|scope| *scope != Scope::Names) {
        true => Scope::AllKeys,
        false => Scope::Names,
    };
    (names_of(queue.iter().map(|queued| (queued.spec, &queued.command))), scope)
}

/// Runs commands and stores their response as one transaction, or returns the stored response.
async fn at_most_once(
    compute: &Compute,
    rights: Rights,
    key: IdempotencyKey,
    commands: Vec<Command>,
    (shape, form): (Shape, Form),
) -> Reply {
    let (queue, known) = match queued(rights, commands, shape) {
        Ok(queued) => queued,
        Err(fail) => return one(&RedisReply::Error(fail), form),
    };
    let home = ShardId::default();
    let (names, scope) = needs_of(&queue);
    let ran = compute.database.transact(names, scope, move |open| {
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
    match ran.await.unwrap_or_else(|error| Err(error.into())) {
        Ok((stored, publish)) => {
            compute.publish(&publish);
            let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            reply::bytes(status, form.media_type(), stored.body)
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
type ToRun = (Vec<Queued>, Vec<Option<Fail>>);

fn queued(rights: Rights, commands: Vec<Command>, shape: Shape) -> Result<ToRun, Fail> {
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

/// Runs a command that touches no key.
fn about_connection(session: &mut Session, hub: &Hub, spec: &Spec, command: &Command) -> RedisReply {
    if let Run::Control(Control::Unwatch) = spec.run {
        return RedisReply::Ok;
    }
    let mut conn = Conn::new(session, hub, SystemClock.now());
    conn.dialect = Dialect::Upstash;
    run_conn(&mut conn, spec, command.args())
}

fn one(redis_reply: &RedisReply, form: Form) -> Reply {
    let (status, body) = one_in(redis_reply, form);
    reply::bytes(status, form.media_type(), body)
}

fn all(redis_replies: &[RedisReply], form: Form) -> Reply {
    let (status, body) = all_in(redis_replies, form);
    reply::bytes(status, form.media_type(), body)
}

fn idempotency_error(error: IdempotencyError) -> Reply {
    error_words(error.status(), &format!("ERR {}", error.words()))
}
