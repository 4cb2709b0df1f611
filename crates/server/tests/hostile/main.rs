//! Attacks of hostile and careless clients, through the real binary: each test is an attack and its required outcome.
//!
//! The server runs with a limit on its address space, so growth ends it and fails the test on any machine.
//!
//! | An attack with                                      | is in            |
//! |-----------------------------------------------------|------------------|
//! | the published advisories about Redis's Lua          | [`advisories`]   |
//! | other published advisories about Redis              | [`protocol_advisories`] |
//! | scripts that take memory or time, or keep state     | [`scripts`]      |
//! | files that other users read or own                  | `files`          |
//! | CONFIG SET without an effect                        | `settings`       |
//! | variables that platforms and people set             | `environment`    |
//! | SIGHUP, and a backup from what is not HTTP          | `signals`        |
//! | a script or command that never ends                 | [`busy`]         |
//! | slow connections that take all slots                | [`health`]       |
//! | HTTP, TLS and other protocols on the Redis port     | [`cross_protocol`] |
//! | garbage, guesses and bodies before the token        | [`before_auth`]  |
//! | DNS rebinding, and caches                           | [`rebinding`]    |
//! | names that mean something to the JSON library       | [`json_names`]   |
//! | short requests for replies of gigabytes             | `replies`        |
//! | work that grows with the square of the request      | `quadratic`      |
//! | many clients that send or read slowly               | [`slow_clients`] |
//! | the read-only token, beyond reading                 | `read_only`      |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that measures says what it saw"
)]

mod advisories;
mod before_auth;
mod busy;
#[path = "../resp/client.rs"]
#[allow(dead_code, reason = "shared with the suite of RESP, which uses all of it")]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod cross_protocol;
mod environment;
mod files;
mod health;
mod json_names;
mod protocol_advisories;
mod quadratic;
mod read_only;
mod rebinding;
mod replies;
mod scripts;
mod settings;
mod signals;
mod slow_clients;

use std::time::Duration;

use keystead_testkit::server::Server;

/// Address space of an attacked server. An idle one has 0.5 GB of it, most of that stacks and arenas that are never touched.
const ADDRESS_SPACE_BYTES: u64 = 2 << 30;

/// A server to attack: in memory, with a bounded address space and these additional arguments.
fn victim(arguments: &[&str]) -> Server {
    let arguments = [&["--durability", "memory"], arguments].concat();
    common::launch(&arguments).address_space(ADDRESS_SPACE_BYTES).start().unwrap()
}

/// Checks that a server is healthy after an attack: it runs, and reads and writes keys.
#[track_caller]
fn assert_unharmed(server: &Server) {
    assert!(server.is_running(), "the server has ended:\n{}", server.logs());
    let mut client = client::Client::connect(server);
    client.expect(&[("SET unharmed 1", "+OK"), ("GET unharmed", "1"), ("DEL unharmed", ":1")]);
}

/// How long a condition may take to hold: gigabytes are copied meanwhile, on a machine that does other things, too.
const UNTIL_MAX: Duration = Duration::from_secs(120);

/// Waits until a condition holds.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let watch = keystead_core::Stopwatch::start();
    while !holds() {
        assert!(watch.elapsed() < UNTIL_MAX, "the condition did not hold in time");
        std::thread::yield_now();
    }
}

#[test]
fn an_idle_server_is_within_its_bounds() {
    let server = victim(&[]);
    assert_unharmed(&server);
}
