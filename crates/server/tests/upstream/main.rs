//! The Upstash-compatible REST API in front of real Redis servers and a real cluster (`--upstream`), through the real binary.
//!
//! | To find                                        | open          |
//! |------------------------------------------------|---------------|
//! | commands, pipelines, transactions, encodings   | [`commands`]  |
//! | tokens, settings, passwords, the other APIs    | [`settings`]  |
//! | a server that is killed, stuck or too talkative | [`faults`]   |
//! | messages as events                             | [`events`]    |
//! | a cluster                                      | [`cluster`]   |
//! | Valkey, and Redis over TLS                     | [`kinds`]     |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one without its server says so"
)]

#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
mod cluster;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod events;
mod faults;
mod kinds;
#[path = "../common/others.rs"]
mod others;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod settings;

use std::net::TcpStream;

use client::Http;
use keystead_testkit::server::{Launch, Server};
use others::{Other, REDIS};
use resp::Client;

/// A server in front of this URL. The URL is not an argument, because `ps` shows those.
fn start(url: &str, arguments: &[&str]) -> (Server, Http) {
    start_with(url, common::launch(&["--durability", "memory"]).args(arguments.iter().copied()))
}

fn start_with(url: &str, launch: Launch) -> (Server, Http) {
    let server = launch.env("KEYSTEAD_UPSTREAM", url).start().unwrap();
    let http = Http::connect(&server);
    (server, http)
}

/// A Redis, and a server in front of it; nothing if there is no Redis on this machine.
fn open() -> Option<(Other, Server, Http)> {
    let redis = REDIS.start()?;
    let (server, http) = start(&redis.url(), &[]);
    Some((redis, server, http))
}

/// A connection to a server of others.
fn direct(port: u16) -> Client {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(resp::PATIENCE)).unwrap();
    Client::over(stream)
}
