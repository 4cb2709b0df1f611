//! Split mode through the real binary: `keystead storage DIR`, and `keystead serve --storage URL` in front of it.
//!
//! | To find                                                    | open             |
//! |------------------------------------------------------------|------------------|
//! | what statements do, what they may not do, bounds           | [`statements`]   |
//! | how many requests a command costs                          | [`trips`]        |
//! | two processes on the same keys                             | [`many`]         |
//! | `kill -9`, lost requests and responses                     | [`faults`]       |
//! | random commands beside a server with a database of its own | [`random`]       |
//! | documents and rate limits                                  | [`apis`]         |
//! | arguments, tokens, what is not served                      | [`settings`]     |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod apis;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod many;
mod random;
#[allow(dead_code, reason = "these tests need its patience only")]
#[path = "../resp/client.rs"]
mod resp;
mod settings;
mod statements;
mod trips;

use client::Http;
use keystead_testkit::server::Server;
use keystead_testkit::servers::free_ports;
use serde_json::Value;

/// A storage service whose port stays the same when it is restarted.
fn storage(arguments: &[&str]) -> Server {
    let mut attempts = 3;
    loop {
        let http = format!("127.0.0.1:{}", free_ports(1).unwrap()[0]);
        let launch = common::launch(&["storage", "rows", "--http", &http]);
        attempts -= 1;
        match launch.args(arguments).start() {
            Ok(server) => return server,
            Err(error) if attempts == 0 => panic!("{error}"),
            // Another process may have taken a port.
            Err(_) => {}
        }
    }
}

/// A compute service in front of it.
fn compute(storage: &Server) -> Server {
    common::launch(&["serve", "--storage", &storage.url("")]).start().unwrap()
}

/// A storage service, and a compute service in front of it.
fn both() -> (Server, Server) {
    let storage = storage(&[]);
    let compute = compute(&storage);
    (storage, compute)
}

/// A counter of a service's metrics.
fn counter(server: &Server, name: &str) -> u64 {
    let metrics = Http::connect(server).get("/metrics");
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {}", metrics.text())).parse().unwrap()
}

/// Requests that have reached a storage service.
fn requests(storage: &Server) -> u64 {
    counter(storage, "keystead_storage_requests_total")
}

/// The result of a command.
fn run(http: &mut Http, command: &[&str]) -> Value {
    let response = http.post("/", &serde_json::to_string(command).unwrap());
    let mut body = response.json();
    assert_eq!(response.status, 200, "{command:?}: {body}");
    body["result"].take()
}
