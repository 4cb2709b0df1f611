//! `keystead store verify`, `keystead store bench` and `keystead limit replay --store`, through the real binary on real servers.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod bench;
mod replay;
mod verify;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use keystead_testkit::servers::{Kind, OwnServer, SharedServer, Site, postgres};
use keystead_testkit::skip::found;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn shared(kind: &'static Kind) -> Option<SharedServer> {
    found(kind.name, runtime().block_on(SharedServer::get(kind)))
}

fn own(kind: &'static Kind) -> Option<OwnServer> {
    found(kind.name, runtime().block_on(OwnServer::start(kind)))
}

fn postgres_url(site: &Site, password: &str, parameters: &str) -> String {
    format!("postgres://postgres:{password}@{}/postgres?deadline=30s{parameters}", site.addresses())
}

fn right_postgres_url(site: &Site, parameters: &str) -> String {
    postgres_url(site, postgres::PASSWORD, parameters)
}

/// The binary, without the settings of this environment.
fn keystead(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keystead"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KEYSTEAD_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a command ended: exit code, stdout and stderr.
type Ended = (i32, String, String);

fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs the binary to its end, with `input` on its stdin.
fn run(input: &str, arguments: &[&str]) -> Ended {
    let mut child = keystead(arguments).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    // On a thread: it prints while it reads. A command that has failed reads nothing.
    std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    ended(child.wait_with_output().unwrap())
}
