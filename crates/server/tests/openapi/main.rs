//! `/openapi.json` of the real server: the document is valid OpenAPI 3.1, and schemathesis, which generates requests
//! from it, finds no response that it does not describe.
//!
//! | Case       | The server, and what is sent                                                        |
//! |------------|-------------------------------------------------------------------------------------|
//! | `valid`    | the document, to `openapi-spec-validator`                                            |
//! | `open`     | without a token: every operation                                                     |
//! | `token`    | with one, on four shards: every operation, also without the token                   |
//! | `readonly` | with the read-only token                                                             |
//! | `events`   | `GET` of documents with `Accept: text/event-stream`; the others stream by themselves |
//!
//! `schemathesis.toml` says what is checked, and what is not and why; `hooks.py` makes more requests valid. A case whose program is not
//! installed is skipped with the reason, unless `REQUIRE=` names it; `./test` installs both programs. `KEYSTEAD_SEED=N` sends
//! other requests, `KEYSTEAD_EXAMPLES=N` more.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, which the harness-free main hides from clippy"
)]

#[path = "../common/peers.rs"]
mod peers;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use keystead_testkit::server::{Launch, Server};
use libtest_mimic::{Arguments, Failed};
use peers::{peers, trial};

const TOKEN: &str = "s3cret";
const READ_ONLY_TOKEN: &str = "look";

/// One run of schemathesis.
struct Run {
    name: &'static str,
    /// The arguments of the server besides `--durability memory`.
    server: &'static [&'static str],
    /// The token of the requests.
    token: Option<&'static str>,
    /// Generated requests for each operation, besides those for its bounds.
    examples: u32,
    options: &'static [&'static str],
}

const WITH_TOKENS: &[&str] = &["--token", TOKEN, "--read-only-token", READ_ONLY_TOKEN, "--shards", "4"];

const RUNS: [Run; 4] = [
    Run { name: "open", server: &["--shards", "1"], token: None, examples: 15, options: &[] },
    Run { name: "token", server: WITH_TOKENS, token: Some(TOKEN), examples: 3, options: &[] },
    Run { name: "readonly", server: WITH_TOKENS, token: Some(READ_ONLY_TOKEN), examples: 2, options: &[] },
    Run {
        name: "events",
        server: &["--shards", "4"],
        token: None,
        examples: 30,
        options: &[
            "-H",
            "Accept: text/event-stream",
            "--include-operation-id",
            "getDocument",
            "--include-operation-id",
            "listDocuments",
            // The stream of an unchanged key is silent.
            "--request-timeout",
            "0.3",
        ],
    },
];

fn main() -> ExitCode {
    let missing = (!peers().join("bin/openapi-is-here").is_file()).then_some(
        "schemathesis is not installed (pip install schemathesis openapi-spec-validator into target/peers)",
    );
    let mut trials = vec![trial("valid", missing, is_valid)];
    trials.extend(RUNS.map(|run| trial(run.name, missing, move || fuzz(&run))));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The directory of this test.
fn test_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi")
}

fn start(arguments: &[&str]) -> Server {
    Launch::new(env!("CARGO_BIN_EXE_keystead"))
        .args(["--durability", "memory"])
        .arg("--config")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi/limits.toml"))
        .args(arguments)
        .start()
        .unwrap()
}

fn is_valid() -> Result<(), Failed> {
    let server = start(&[]);
    let mut command = Command::new(peers().join("bin/python3"));
    command.arg(test_dir().join("valid.py")).arg(server.url("/openapi.json"));
    let text = output_of(&mut command)?;
    if text.trim_end().ends_with("ok") { Ok(()) } else { Err(text.into()) }
}

fn fuzz(run: &Run) -> Result<(), Failed> {
    let mut server = start(run.server);
    let number = |name: &str, usual: u32| std::env::var(name).unwrap_or_else(|_| usual.to_string());
    let mut command = Command::new(peers().join("bin/schemathesis"));
    command
        .arg("--config-file")
        .arg(test_dir().join("schemathesis.toml"))
        .args(["run", &server.url("/openapi.json"), "--no-color"])
        .args(["--seed", &number("KEYSTEAD_SEED", 1)])
        .args(["--max-examples", &number("KEYSTEAD_EXAMPLES", run.examples)])
        .args(run.options)
        .env("SCHEMATHESIS_HOOKS", test_dir().join("hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("COLUMNS", "160")
        .env("SERVER_URL", server.url(""))
        // It stores its database in the working directory.
        .current_dir(server.dir());
    if let Some(token) = run.token {
        command.env("ADMIN_TOKEN", TOKEN).args(["-H", &format!("Authorization: Bearer {token}")]);
    }
    if run.name == "events" {
        command.env("EVENTS", "1");
    }
    let text = output_of(&mut command)?;
    // It may have tested nothing.
    let tested = text.lines().find_map(|line| line.trim().strip_prefix("Tested: "));
    if tested.is_none_or(|tested| tested == "0") {
        return Err(format!("nothing was tested:\n{text}").into());
    }
    if !server.stop()?.success() {
        return Err("the server did not end well".into());
    }
    Ok(())
}

/// Runs a program and returns its output, or fails with it.
fn output_of(command: &mut Command) -> Result<String, Failed> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    // Requests can be very long.
    let lines = text.lines().map(|line| line.chars().take(400).collect::<String>());
    let text: Vec<String> = lines.collect();
    Err(format!("{}\n{}\n{}", output.status, text.join("\n"), String::from_utf8_lossy(&output.stderr)).into())
}
