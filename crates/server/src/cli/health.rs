//! `keystead health`: asks the running server whether it is healthy, for a container's health check. Touches a socket and stdout.

use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::{Code, Error, Result};
use serde_json::Value;

use super::Subcommand;
use super::client::{self, Response};
use crate::failure::{io_words, one_line};
use crate::settings::{Listen, Loaded};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "health",
    about: "Ask the running server whether it is healthy",
    operands: &[],
    flags: &[],
    takes: |_| true,
    details: "\
The server is found by the same settings as it was started with: --http, KEYSTEAD_HTTP, the file. Sends GET /healthz,
which needs no token, and prints the status on one line. Exits with 0 when the server is healthy (ok, loading, or
degraded with the reasons), 1 when it is failing or does not answer, 2 when the settings are invalid.",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    // Its warnings are in the log of the server, which has the same settings.
    let Loaded { settings, .. } = super::load(matches)?;
    let server = &settings.http;
    let stream = client::connect(&client::addresses(&settings)?).map_err(|e| {
        Error::new(Code::StoreUnavailable, format!("no server answers at {server} ({})", io_words(&e)))
    })?;
    let response = client::health(stream).map_err(|e| client::not_http(server, &e))?;
    super::print(&outcome(server, &response)?);
    Ok(ExitCode::SUCCESS)
}

/// The line that is printed, or the error that says why the server is not healthy.
fn outcome(server: &Listen, response: &Response) -> Result<String> {
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let Some(status) = body["status"].as_str() else {
        let what = format!("what answers at {server} (status {}) is not this server", response.status);
        return Err(Error::new(Code::StoreUnavailable, format!("{what}: name its address with --http")));
    };
    let reasons: Vec<&str> =
        body["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let line = match reasons[..] {
        [] => one_line(status),
        _ => one_line(&format!("{status}: {}", reasons.join("; "))),
    };
    match response.status {
        200 => Ok(line + "\n"),
        _ => Err(Error::new(Code::StoreUnavailable, format!("the server at {server} is {line}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(status: u16, body: &str) -> Result<String> {
        outcome(&Listen::parse("127.0.0.1:1").unwrap(), &Response { status, body: body.into() })
    }

    #[test]
    fn a_healthy_server_is_one_line() {
        assert_eq!(outcome_of(200, r#"{"status":"ok"}"#).unwrap(), "ok\n");
        let degraded = r#"{"status":"degraded","reasons":["the disk is full","x\ny"]}"#;
        assert_eq!(outcome_of(200, degraded).unwrap(), "degraded: the disk is full; x y\n");
    }

    #[test]
    fn anything_else_is_an_error() {
        for (status, body, words) in [
            (
                503,
                r#"{"status":"failing","reasons":["shard 0 is poisoned"]}"#,
                "is failing: shard 0 is poisoned",
            ),
            (200, "<html>", "is not this server"),
            (404, "", "is not this server"),
        ] {
            let error = outcome_of(status, body).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("127.0.0.1:1"), "{error}");
        }
    }
}
