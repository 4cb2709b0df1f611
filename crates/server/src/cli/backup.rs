//! `keystead backup DIR`: asks the running server for a copy of its database. Touches a socket, stdout and stderr.

use std::io::{self, IsTerminal, Write, stderr};
use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::{Code, Error, Result, Stopwatch};
use serde_json::{Value, json};

use super::client::{self, Response};
use super::{Operand, Subcommand};
use crate::failure::{failure, io_words, one_line};
use crate::settings::size::show_bytes;
use crate::settings::{Listen, Loaded};

const PATH: &str = "/admin/backup";

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "backup",
    about: "Ask the running server for a consistent copy of its database",
    operands: &[Operand { name: "DIR", help: "Where the server writes the copy: a new or empty directory", required: true }],
    flags: &[],
    takes: |_| true,
    details: "\
The server is found by the same settings as it was started with: --http, --token, their variables, the file. It
continues to serve, and writes the copy on its own file system, with its own permissions. A relative DIR is relative to
the directory of this command. The copy has every change that was acknowledged before, and is a database itself:
check it with keystead check DIR, serve it with keystead --data DIR.",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let Loaded { settings, warnings, .. } = super::load(matches)?;
    super::warn(&warnings);
    let dir = absolute(&super::operand_path(matches, "DIR")?)?;
    let addresses = client::addresses(&settings)?;
    let server = &settings.http;
    let connect = || client::connect(&addresses).map_err(|e| unreachable(server, &e));
    client::probe(connect()?).map_err(|e| client::not_http(server, &e))?;
    let stream = connect()?;
    let mut progress = Progress::new(&dir);
    let body = json!({ "dir": dir }).to_string();
    let response = client::post(stream, PATH, settings.token.as_ref(), &body, || progress.print());
    progress.end();
    let response = response.map_err(|e| {
        Error::unknown(
            Code::StoreUnavailable,
            format!(
                "the server at {server} got the request and did not answer ({}): see its log",
                io_words(&e)
            ),
        )
    })?;
    super::print(&outcome(server, &response)?);
    Ok(ExitCode::SUCCESS)
}

fn unreachable(server: &Listen, error: &io::Error) -> Error {
    let why = io_words(error);
    Error::new(
        Code::StoreUnavailable,
        format!(
            "no server answers at {server} ({why}): start it, or name its address with --http; a database that no server has open \
             can be copied like any directory"
        ),
    )
}

/// The server runs in another directory, so it gets the absolute path.
fn absolute(dir: &Path) -> Result<String> {
    let path = std::path::absolute(dir).map_err(|e| {
        failure(format_args!("DIR cannot be resolved ({})", io_words(&e)), "write an absolute path")
    })?;
    path.into_os_string().into_string().map_err(|_| failure("the path of DIR is not UTF-8", "choose another"))
}

/// The line that is printed, or the error that says why there is no copy.
fn outcome(server: &Listen, response: &Response) -> Result<String> {
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    match (response.status, &body["dir"], &body["revisions"], &body["bytes"]) {
        (200, Value::String(dir), Value::Array(revisions), Value::Number(bytes)) => {
            let revisions: Vec<String> = revisions.iter().map(ToString::to_string).collect();
            let (s, size) = (if revisions.len() == 1 { "" } else { "s" }, bytes.as_u64().unwrap_or(0));
            let (dir, list) = (one_line(dir), revisions.join(", "));
            Ok(format!("backup in {dir}: revision{s} {list}, {}\n", show_bytes(size)))
        }
        (401, ..) => Err(Error::new(
            Code::BadRequest,
            format!(
                "the server at {server} wants its token: set KEYSTEAD_TOKEN to the one it was started with"
            ),
        )),
        (status, ..) => Err(match body["error"]["message"].as_str() {
            Some(words) => {
                Error::new(Code::StoreUnavailable, format!("the server at {server} refused: {words}"))
            }
            None => Error::new(
                Code::StoreUnavailable,
                format!(
                    "what answers at {server} (status {status}) is not this server: name its address with --http"
                ),
            ),
        }),
    }
}

/// A line on stderr while the copy is made. On a terminal it counts seconds; elsewhere it is printed once.
struct Progress<'a> {
    dir: &'a str,
    watch: Stopwatch,
    printed: bool,
}

impl<'a> Progress<'a> {
    fn new(dir: &'a str) -> Self {
        Progress { dir, watch: Stopwatch::start(), printed: false }
    }

    fn print(&mut self) {
        let (dir, seconds) = (one_line(self.dir), self.watch.elapsed().as_secs());
        // Without a stderr the progress cannot be reported.
        let _ = match (stderr().is_terminal(), self.printed) {
            (true, _) => write!(stderr(), "\rkeystead: copying to {dir}, {seconds} s"),
            (false, false) => writeln!(stderr(), "keystead: copying to {dir}, this takes a while"),
            (false, true) => Ok(()),
        };
        self.printed = true;
    }

    fn end(&self) {
        if self.printed && stderr().is_terminal() {
            let _ = writeln!(stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(status: u16, body: &str) -> Result<String> {
        outcome(&Listen::parse("127.0.0.1:1").unwrap(), &Response { status, body: body.into() })
    }

    #[test]
    fn a_copy_is_reported_in_one_line() {
        let body = r#"{"dir":"/b","revisions":[3,12],"bytes":2048}"#;
        assert_eq!(outcome_of(200, body).unwrap(), "backup in /b: revisions 3, 12, 2kb\n");
    }

    #[test]
    fn any_other_response_is_an_error() {
        for (status, body, words) in [
            (401, "{}", "KEYSTEAD_TOKEN"),
            (
                400,
                r#"{"error":{"code":"bad_request","message":"/b is not empty"}}"#,
                "refused: /b is not empty",
            ),
            (200, "<html>", "is not this server"),
            (404, "", "is not this server"),
        ] {
            let error = outcome_of(status, body).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("127.0.0.1:1"), "{error}");
        }
    }
}
