//! Offline sync, `/sync`, through the real binary.
//!
//! | To find                                                  | open           |
//! |----------------------------------------------------------|----------------|
//! | results of mutations, invalid requests, other APIs       | [`push`]       |
//! | kill -9 under clients that send again                    | [`kills`]      |
//! | changes since a cursor, snapshots, events                | [`pull`]       |
//! | tokens of clients                                        | [`tokens`]     |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is random says what it did"
)]

#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod kills;
mod pull;
mod push;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod tokens;

use client::{Http, Response};
use keystead_core::{Clock, SystemClock};
use keystead_testkit::server::Server;
use serde_json::{Value, json};

/// A server with durability `memory` and these arguments.
fn memory(arguments: &[&str]) -> Server {
    common::start(&[&["--durability", "memory"], arguments].concat())
}

fn now_ms() -> u64 {
    SystemClock.now().0
}

/// A mutation of a member, made now.
fn set(id: u64, key: &str, field: &str, value: impl Into<Value>) -> Value {
    json!({ "id": id, "key": key, "field": field, "value": value.into(), "ts": now_ms() })
}

impl Http {
    #[track_caller]
    fn push(&mut self, body: &Value) -> Response {
        self.ask("POST", "/sync", &[], body.to_string().as_bytes())
    }

    /// The response to these items.
    #[track_caller]
    fn sync(&mut self, client: &str, items: &[Value]) -> Value {
        let response = self.push(&json!({ "client": client, "client_ts": now_ms(), "items": items }));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    /// The status of one item.
    #[track_caller]
    fn status(&mut self, client: &str, item: Value) -> String {
        self.sync(client, &[item])["results"][0]["status"].as_str().unwrap().to_owned()
    }

    /// A page of changes.
    #[track_caller]
    fn changes(&mut self, query: &str) -> Value {
        let response = self.get(&format!("/sync?{query}"));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }
}
