//! What hostile and careless clients do, through the real binary: each test is an attack, and what must come of it.
//!
//! The server runs with a limit on its address space, so growth ends it and fails the test on any machine.
//!
//! | An attack with                                      | is in            |
//! |-----------------------------------------------------|------------------|
//! | what is known of Redis's Lua, advisory by advisory  | [`advisories`]   |
//! | scripts that take memory or time, or leave something | [`scripts`]     |
//! | files of ours that others read, files of others     | `files`          |
//! | settings that would do nothing                      | `settings`       |
//! | variables that platforms and people set             | `environment`    |
//! | SIGHUP, and a backup of what is no HTTP             | `signals`        |
//! | a script or command that never ends                 | [`busy`]         |
//! | slow connections that take every place              | [`health`]       |
//! | HTTP, TLS and other protocols on the Redis port     | [`cross_protocol`] |
//! | garbage, guesses and bodies before the token        | [`before_auth`]  |
//! | pages whose names point here, and caches            | [`rebinding`]    |
//! | names that mean something to the JSON library       | [`json_names`]   |
//! | replies of gigabytes, asked for in few bytes        | `replies`        |
//! | work that grows with the square of the request      | `quadratic`      |
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
mod quadratic;
mod read_only;
mod rebinding;
mod replies;
mod scripts;
mod settings;
mod signals;

use keystead_testkit::server::Server;

/// Address space that an attacked server may take. One that idles has 0.5 GB of it, most of that stacks and arenas that are
/// never touched.
const ADDRESS_SPACE_BYTES: u64 = 2 << 30;

/// A server under attack: everything in memory, bounded in address space, with these arguments beside.
fn victim(arguments: &[&str]) -> Server {
    let arguments = [&["--durability", "memory"], arguments].concat();
    common::launch(&arguments).address_space(ADDRESS_SPACE_BYTES).start().unwrap()
}

/// What proves that a server is alive and well after an attack: it answers, and what was stored before is there.
#[track_caller]
fn assert_unharmed(server: &Server) {
    assert!(server.is_running(), "the server has ended:\n{}", server.logs());
    let mut client = client::Client::connect(server);
    client.expect(&[("SET unharmed 1", "+OK"), ("GET unharmed", "1"), ("DEL unharmed", ":1")]);
}

/// Waits until something holds, for as long as a client would.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let watch = keystead_core::Stopwatch::start();
    while !holds() {
        assert!(watch.elapsed() < client::PATIENCE, "it never came");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_idles_is_within_its_bounds() {
    let server = victim(&[]);
    assert_unharmed(&server);
}
