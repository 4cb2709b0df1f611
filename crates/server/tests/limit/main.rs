//! The limits API `/limit`, through the real binary.
//!
//! | To find                                               | open         |
//! |-------------------------------------------------------|--------------|
//! | one key, many keys, peek, reset, statuses, headers    | [`checks`]   |
//! | several policies as one, and writes with a decision   | [`combined`] |
//! | leases; reservations                                  | [`after`]    |
//! | invalid requests, tokens                              | [`bad_input`]|
//! | the settings file: errors, reload                     | [`file`]     |
//! | counts and metrics                                    | [`counts`]   |
//! | stores that fail, or cannot be opened                 | [`stores`]   |
//! | policies on Redis and PostgreSQL                      | [`shared`]   |
//! | `Idempotency-Key`                                     | [`idempotency`]  |
//! | 200 at once on 50                                     | [`many`]     |
//! | kills, restarts, memory                               | [`process`]  |
//! | the policies, requests and responses of these tests   | [`requests`] |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is random says what it did"
)]

mod after;
mod bad_input;
mod checks;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
mod combined;
#[path = "../common/mod.rs"]
mod common;
mod counts;
mod file;
mod idempotency;
mod many;
#[path = "../common/others.rs"]
mod others;
mod process;
mod requests;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod shared;
mod stores;

use std::path::Path;

use client::Http;
use common::differs;
use keystead_testkit::server::Server;
use requests::POLICIES;
use tempfile::TempDir;

/// A server with these policies and arguments. The directory has its settings file, its data, and the stores of policies.
struct Fixture {
    server: Server,
    home: TempDir,
}

impl Fixture {
    fn with(policies: &str, arguments: &[&str]) -> Fixture {
        let home = common::dir();
        let policies =
            policies.replace("sqlite:aside", &format!("sqlite:{}", home.path().join("aside").display()));
        write(home.path(), &policies);
        let config = home.path().join("keystead.toml");
        let server = common::launch(arguments)
            .arg("--config")
            .arg(config)
            .arg("--data")
            .arg(home.path().join("data"))
            .start()
            .unwrap();
        Fixture { server, home }
    }

    fn open(arguments: &[&str]) -> (Fixture, Http) {
        let fixture = Fixture::with(POLICIES, &[&["--durability", "memory"], arguments].concat());
        let http = Http::connect(&fixture.server);
        (fixture, http)
    }
}

fn write(home: &Path, policies: &str) {
    std::fs::write(home.join("keystead.toml"), policies).unwrap();
}
