//! The Durable Object: one database. Touches its storage, and the clock of the platform.
//!
//! Invariant: nothing is awaited between the beginning of a transaction and its end, so that requests run one after the other. After a
//! panic the platform starts the module again, and the object opens its database at the next request.

use std::cell::{OnceCell, RefCell};

use http::request::Parts;
use keystead_commands::ctx::Rights;
use keystead_core::{Millis, Result};
use keystead_http_api::upstash::SYNC_TOKEN;
use worker::{DurableObject, Env, Request, Response, State, durable_object};

use crate::buffer::{self, Buffer, routes};
use crate::database::{Alarm, Database as Open, now, sinks_due};
use crate::exchange::{Reply, body_of, head_of};
use crate::gate::{self, Api};
use crate::limit::Policies;
use crate::{faults, kv, limit, settings, spread, statements, upstash};

/// Rows that a request has read and written, and how many it may read and write: what the platform bills.
pub(crate) const ROWS_READ: &str = "keystead-rows-read";
pub(crate) const ROWS_WRITTEN: &str = "keystead-rows-written";

/// The object with the database.
#[durable_object]
pub struct Database {
    pub(crate) state: State,
    pub(crate) env: Env,
    buffers: OnceCell<Vec<Buffer>>,
    open: RefCell<Option<Open>>,
    alarm: Alarm,
    policies: RefCell<Option<Policies>>,
}

/// A request whose body has arrived.
pub(crate) struct Arrived<'a> {
    pub(crate) head: &'a Parts,
    pub(crate) body: &'a [u8],
    pub(crate) rights: Rights,
}

impl DurableObject for Database {
    fn new(state: State, env: Env) -> Self {
        Database {
            state,
            env,
            buffers: OnceCell::new(),
            open: RefCell::default(),
            alarm: Alarm::default(),
            policies: RefCell::default(),
        }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let head = head_of(&request)?;
        // The Worker has checked this; an object can be reached by others.
        if let Some(reply) = gate::before(&self.env, &head) {
            return reply.into_response(&head);
        }
        let api = Api::of(head.uri.path());
        let Some(body) = body_of(&mut request, &head).await? else {
            return api.too_large().into_response(&head);
        };
        self.learn_alarm().await?;
        let rights =
            settings::rights_of(&self.env, &head.headers, head.uri.query()).unwrap_or(Rights::ReadOnly);
        let arrived = Arrived { head: &head, body: &body, rights };
        let reply = match api {
            Api::Sinks => routes::respond(self, &arrived).await,
            _ => self.respond(api, &arrived),
        };
        reply.into_response(&head)
    }

    async fn alarm(&self) -> worker::Result<Response> {
        // The platform has one alarm, and this was it.
        self.alarm.set(Some(Millis::NEVER));
        let reclaimed = self.with_open(|open| open.reclaim()).and_then(|done| done);
        self.flush_what_is_due().await;
        let woken = self.wake_for_sinks();
        match reclaimed.and(woken) {
            Ok(()) => Response::empty(),
            // The platform calls again.
            Err(error) => Err(worker::Error::RustError(error.to_string())),
        }
    }
}

impl Database {
    /// Asks the platform for the alarm, once in each life of the object: an earlier life may have set it.
    async fn learn_alarm(&self) -> worker::Result<()> {
        if self.alarm.get().is_none() {
            let due = self.state.storage().get_alarm().await?;
            // Meanwhile another request may have set one.
            if self.alarm.get().is_none() {
                self.alarm.set(Some(due.map_or(Millis::NEVER, |due| Millis(due.max(0) as u64))));
            }
        }
        Ok(())
    }

    fn respond(&self, api: Api, request: &Arrived<'_>) -> Reply {
        faults::cause(self, request.head.uri.path());
        let answered = self.with_open(|open| {
            open.object = spread::number_of(request.head);
            let mut reply = match api {
                Api::Documents => kv::respond(open, request).unwrap_or_else(|error| Reply::api_error(&error)),
                Api::Limits => {
                    let mut policies = self.policies.borrow_mut();
                    let policies = match &mut *policies {
                        Some(policies) => policies,
                        none => none.insert(Policies::of(&self.env)?),
                    };
                    limit::respond(open, policies, request).unwrap_or_else(|error| Reply::api_error(&error))
                }
                Api::Statements => statements::respond(open, request),
                _ => {
                    let mut reply = upstash::respond(open, request);
                    reply.set(SYNC_TOKEN, &open.next_token().to_string());
                    reply
                }
            };
            let [read, written] = open.take_figures();
            reply.set(ROWS_READ, &read.to_string());
            reply.set(ROWS_WRITTEN, &written.to_string());
            Ok(reply)
        });
        let reply = answered.and_then(|reply| reply);
        reply.unwrap_or_else(|error| match api {
            Api::Upstash => upstash::failed(error),
            _ => Reply::broken(&error),
        })
    }

    /// The sinks, from the variable.
    pub(crate) fn buffers(&self) -> Result<&[Buffer]> {
        if let Some(buffers) = self.buffers.get() {
            return Ok(buffers);
        }
        let buffers = buffer::settings::sinks(&self.env)?.into_iter().map(Buffer::new).collect();
        Ok(self.buffers.get_or_init(|| buffers))
    }

    /// Writes a batch of each sink that is due. What fails is tried again at the next alarm.
    async fn flush_what_is_due(&self) {
        for one in self.buffers().unwrap_or_default() {
            let due = self.with_open(|open| open.rows(|sql| sinks_due(sql, [&one.definition])));
            if due.and_then(|due| due).is_ok_and(|due| due <= now()) {
                let _ = self.flush(one).await;
            }
        }
    }

    /// Sets the alarm for the next batch.
    pub(crate) fn wake_for_sinks(&self) -> Result<()> {
        let sinks = self.buffers()?.iter().map(|one| &one.definition);
        self.with_open(|open| {
            let due = open.rows(|sql| sinks_due(sql, sinks))?;
            open.wake_exactly(due);
            Ok(())
        })?
    }

    /// Runs something on the open database. One that cannot be opened is tried again at the next request.
    pub(crate) fn with_open<T>(&self, run: impl FnOnce(&mut Open) -> T) -> Result<T> {
        let mut open = self.open.borrow_mut();
        if open.as_ref().is_none_or(Open::is_lost) {
            let objects = spread::objects(&self.env)?;
            let sinks = self.buffers()?.iter().map(|one| &one.definition);
            *open = Some(Open::open(&self.state, objects, sinks, Alarm::clone(&self.alarm))?);
            faults::opened(self);
        }
        match &mut *open {
            Some(open) => Ok(run(open)),
            None => Err(crate::sql::failed("the database is not open")),
        }
    }
}
