//! The documents API `/kv`, through the real binary.
//!
//! | To find                                                  | open           |
//! |----------------------------------------------------------|----------------|
//! | GET, PUT, PATCH, DELETE, ttl, exact numbers              | [`documents`]  |
//! | ifVersion, If-Match, If-None-Match                       | [`conditions`] |
//! | keys of any bytes, invalid requests, bounds              | [`bad_input`]  |
//! | random requests                                          | [`random`]     |
//! | `GET /kv`                                                | [`lists`]      |
//! | waiting for a change, events                             | [`watching`]   |
//! | `POST /kv:batch`                                         | [`batches`]    |
//! | `Idempotency-Key`                                        | [`idempotency`]    |
//! | the same keys through Redis, tokens, pages               | [`apis`]       |
//! | many clients at once, on 1 and 16 shards, at every level | [`many`]       |
//! | kill -9 under writers                                    | [`crash`]      |
//! | histories that are checked for linearizability           | [`linear`]     |
//! | documents on Redis and PostgreSQL (`--documents-store`)  | [`stores`]     |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is random says what it did"
)]

mod apis;
mod bad_input;
mod batches;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod conditions;
mod crash;
mod documents;
mod idempotency;
mod linear;
mod lists;
mod many;
#[path = "../common/others.rs"]
mod others;
mod random;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod stores;
mod watching;

use client::{Http, Response};
use keystead_testkit::server::Server;
use serde_json::Value;

/// A server with durability `memory` and these arguments.
fn memory(arguments: &[&str]) -> Server {
    common::start(&[&["--durability", "memory"], arguments].concat())
}

fn open() -> (Server, Http) {
    let server = memory(&[]);
    let http = Http::connect(&server);
    (server, http)
}

impl Http {
    #[track_caller]
    fn put(&mut self, target: &str, body: &str) -> Response {
        self.ask("PUT", target, &[], body.as_bytes())
    }

    #[track_caller]
    fn patch(&mut self, target: &str, media: &str, body: &str) -> Response {
        self.ask("PATCH", target, &[&format!("Content-Type: {media}")], body.as_bytes())
    }

    #[track_caller]
    fn delete(&mut self, target: &str) -> Response {
        self.ask("DELETE", target, &[], b"")
    }

    /// The version of a document, 0 where there is none.
    #[track_caller]
    fn version(&mut self, target: &str) -> u64 {
        let response = self.get(target);
        if response.status == 404 { 0 } else { response.json()["version"].as_u64().unwrap() }
    }
}

impl Response {
    /// Compares the whole response.
    #[track_caller]
    fn is(&self, status: u16, body: &str) {
        assert_eq!((self.status, self.text().trim_end()), (status, body));
    }

    /// The error object of a response with this status and code.
    #[track_caller]
    fn expect_error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let error = self.json()["error"].take();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        error
    }
}
