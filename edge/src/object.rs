//! The Durable Object: one database. Touches its storage, and the clock of the platform.
//!
//! Invariant: nothing is awaited between the beginning of a transaction and its end, so that requests run one after the other. After a
//! panic the platform starts the module again, and the object opens its database at the next request.

use std::cell::RefCell;

use http::StatusCode;
use http::request::Parts;
use keystead_commands::ctx::Rights;
use keystead_core::Result;
use keystead_http_api::upstash::SYNC_TOKEN;
use keystead_model::keyspace::Expire;
use worker::{DurableObject, Env, Request, Response, State, durable_object};

use crate::bounds::BODY_BYTES_MAX;
use crate::database::{Completion, Database as Open};
use crate::exchange::{Reply, body_of, head_of};
use crate::gate::{self, Api};
use crate::limit::Policies;
use crate::{kv, limit, settings, upstash};

/// Rows that a request has read and written, and how many it may read and write: what the platform bills.
pub(crate) const ROWS_READ: &str = "keystead-rows-read";
pub(crate) const ROWS_WRITTEN: &str = "keystead-rows-written";

/// The object with the database.
#[durable_object]
pub struct Database {
    state: State,
    env: Env,
    open: RefCell<Option<Open>>,
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
        Database { state, env, open: RefCell::default(), policies: RefCell::default() }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let head = head_of(&request)?;
        // The Worker has checked this; an object can be reached by others.
        if let Some(reply) = gate::before(&self.env, &head) {
            return reply.into_response(&head);
        }
        let api = Api::of(head.uri.path());
        let Some(body) = body_of(&mut request, &head).await? else {
            let words = format!("ERR max request size exceeded. Limit: {BODY_BYTES_MAX} bytes");
            return api.error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &words).into_response(&head);
        };
        let rights =
            settings::rights_of(&self.env, &head.headers, head.uri.query()).unwrap_or(Rights::ReadOnly);
        self.respond(api, &Arrived { head: &head, body: &body, rights }).into_response(&head)
    }

    async fn alarm(&self) -> worker::Result<Response> {
        let reclaimed = self.with_open(|open| open.reclaim()).and_then(|done| done);
        match reclaimed {
            Ok(()) => Response::empty(),
            // The platform calls again.
            Err(error) => Err(worker::Error::RustError(error.to_string())),
        }
    }
}

impl Database {
    /// Panics in a transaction, where a test has switched faults on.
    fn fault(&self, path: &str) {
        if path != "/fault/panic" || self.env.var("FAULTS").is_err() {
            return;
        }
        let _ = self.with_open(|open| {
            open.transact(|open| {
                let put = open.keys.set_str(b"fault", b"x".as_slice().into(), Expire::Keep, open.now);
                let written = open.keys.write_rows();
                panic!("a fault that a test asked for, after {put:?} and {written:?}");
                #[allow(unreachable_code, reason = "the type of the transaction")]
                ((), Completion::Undo)
            })
        });
    }

    fn respond(&self, api: Api, request: &Arrived<'_>) -> Reply {
        self.fault(request.head.uri.path());
        let answered = self.with_open(|open| {
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

    /// Runs something on the open database. One that cannot be opened is tried again at the next request.
    fn with_open<T>(&self, run: impl FnOnce(&mut Open) -> T) -> Result<T> {
        let mut open = self.open.borrow_mut();
        if open.as_ref().is_none_or(Open::is_lost) {
            *open = Some(Open::open(&self.state)?);
        }
        match &mut *open {
            Some(open) => Ok(run(open)),
            None => Err(crate::sql::failed("the database is not open")),
        }
    }
}
