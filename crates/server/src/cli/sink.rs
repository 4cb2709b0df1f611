//! `keystead sink ACTION [NAME] [KEY]`: asks the running server about its sinks. Touches a socket, stdout and stderr.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::{Code, Error, Result};
use serde_json::Value;

use super::client::{self, Method, Response};
use super::{EXIT_FAILED, Operand, Subcommand};
use crate::failure::{failure, io_words, one_line};
use crate::settings::{Listen, Loaded};

const ACTIONS: &str = "list, flush, verify, export, retry, skip, resync, compact";

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "sink",
    about: "Show the sinks of the running server, flush, verify or repair one",
    operands: &[
        Operand { name: "ACTION", help: "list, flush, verify, export, retry, skip, resync or compact", required: true },
        Operand { name: "NAME", help: "The sink: [sink.NAME] in the settings file", required: false },
        Operand { name: "KEY", help: "Of retry and skip: only this key. Of compact: an age", required: false },
    ],
    flags: &[],
    takes: |_| true,
    details: "\
The server is found by the same settings as it was started with: --http, --token, their variables, the file.

  list             one line a sink: what is pending, how far behind, what is in quarantine, why it does not write
  flush NAME       write what is pending, and wait until the target has it
  verify NAME      compare every key with its row, and every row with its key; exits with 1 when something differs
  export NAME      the keys in quarantine as JSON, one a line, with the target's reason
  retry NAME [KEY] try keys in quarantine again, for example after the table was repaired
  skip NAME [KEY]  remove keys from the quarantine: the target keeps what it has until they change
  resync NAME      write all keys again and delete rows without a key; it also takes over the target of another database
  compact NAME [AGE]  of an event log: keep only the last event of each key, of events that are at least so old (7d); without AGE as the
                   settings say, else of all events

Examples:
  keystead sink list
  keystead sink flush users
  keystead sink export users | jq -r .reason | sort | uniq -c",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let word = |name: &str| -> Result<Option<String>> {
        let Some(word) = matches.get_one::<OsString>(name).cloned() else { return Ok(None) };
        word.into_string()
            .map(Some)
            .map_err(|_| failure(format_args!("{name} is not UTF-8"), "write it in UTF-8"))
    };
    let (action, name, key) = (word("ACTION")?.unwrap_or_default(), word("NAME")?, word("KEY")?);
    let (method, path) = request(&action, name.as_deref(), key.as_deref())?;
    let Loaded { settings, warnings, .. } = super::load(matches)?;
    super::warn(&warnings);
    let server = &settings.http;
    let unreachable = |error: std::io::Error| {
        let why = io_words(&error);
        Error::new(
            Code::StoreUnavailable,
            format!("no server answers at {server} ({why}): start it, or name its address with --http"),
        )
    };
    let addresses = client::addresses(&settings)?;
    client::probe(client::connect(&addresses).map_err(unreachable)?)
        .map_err(|e| client::not_http(server, &e))?;
    let stream = client::connect(&addresses).map_err(unreachable)?;
    let response =
        client::send(stream, method, &path, settings.token.as_ref(), "", || {}).map_err(unreachable)?;
    let (text, is_good) = outcome(&action, server, &response)?;
    super::print(&text);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// The method and path of a request.
fn request(action: &str, name: Option<&str>, key: Option<&str>) -> Result<(Method, String)> {
    let (method, tail) = match action {
        "list" => (Method::Get, ""),
        "export" => (Method::Get, "/quarantine"),
        "flush" => (Method::Post, "/flush?timeout=60s"),
        "verify" => (Method::Post, "/verify"),
        "retry" => (Method::Post, "/retry"),
        "skip" => (Method::Post, "/skip"),
        "resync" => (Method::Post, "/resync"),
        "compact" => (Method::Post, "/compact"),
        _ => {
            return Err(failure(
                format_args!("unknown action '{action}'"),
                format_args!("write one of {ACTIONS}"),
            ));
        }
    };
    let example = format!("write keystead sink {action} NAME; keystead sink list shows the names");
    let query = match key {
        None => String::new(),
        Some(key) if matches!(action, "retry" | "skip") => format!("?key={}", encoded(key)),
        Some(age) if action == "compact" => format!("?olderThan={}", encoded(age)),
        Some(_) => return Err(failure(format_args!("{action} takes no KEY"), example)),
    };
    match (action, name) {
        ("list", None) => Ok((method, "/sinks".to_owned())),
        ("list", Some(_)) => Err(failure("list takes no NAME", "write keystead sink list")),
        (_, None) => Err(failure(format_args!("{action} needs the NAME of a sink"), example)),
        (_, Some(name)) => Ok((method, format!("/sinks/{}{tail}{query}", encoded(name)))),
    }
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        // Writing to a String cannot fail.
        let _ = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => write!(all, "{}", byte as char),
            _ => write!(all, "%{byte:02X}"),
        };
        all
    })
}

/// What is printed, and whether that is good news; or the error.
fn outcome(action: &str, server: &Listen, response: &Response) -> Result<(String, bool)> {
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    if !(200..300).contains(&response.status) {
        let message = match (response.status, body["error"]["message"].as_str()) {
            (401, _) => format!(
                "the server at {server} wants its token: set KEYSTEAD_TOKEN to the one it was started with"
            ),
            (_, Some(words)) => words.to_owned(),
            (status, None) => {
                format!(
                    "what answers at {server} (status {status}) is not this server: name its address with --http"
                )
            }
        };
        return Err(Error::new(Code::StoreUnavailable, one_line(&message)));
    }
    let count = |name: &str| body[name].as_u64().unwrap_or(0);
    Ok(match action {
        "list" => (body["sinks"].as_array().into_iter().flatten().map(line).collect(), true),
        "flush" => (line(&body), true),
        "export" => {
            let keys = body["keys"].as_array().into_iter().flatten();
            (keys.map(|key| format!("{key}\n")).collect(), true)
        }
        "verify" => {
            let (keys, differences, quarantined) =
                (count("keys"), count("differences"), count("quarantined"));
            if differences == 0 {
                return Ok((format!("{keys} keys, no differences\n"), true));
            }
            let mut text =
                format!("{keys} keys, {differences} differences, {quarantined} of them in quarantine\n");
            for difference in body["differing"].as_array().into_iter().flatten() {
                let key = one_line(difference["key"].as_str().unwrap_or_default());
                let (source, target) = (side(&difference["source"]), side(&difference["target"]));
                // Writing to a String cannot fail.
                let _ = writeln!(text, "  {key}  source: {source}; target: {target}");
            }
            (text, false)
        }
        "resync" => {
            ("all keys are being written again: keystead sink list shows when it is over\n".to_owned(), true)
        }
        "compact" => (format!("{} rows were removed or became whole\n", count("rows")), true),
        _ => (format!("{} keys\n", count("keys")), true),
    })
}

/// A key in the source or in the target.
fn side(side: &Value) -> String {
    match side["version"].as_u64() {
        Some(version) => {
            format!("version {version}, {}", one_line(side["value"].as_str().unwrap_or_default()))
        }
        None => "absent".to_owned(),
    }
}

/// One sink.
fn line(sink: &Value) -> String {
    let word = |name: &str| one_line(sink[name].as_str().unwrap_or_default());
    let count = |name: &str| sink[name].as_u64().unwrap_or(0);
    let mut line = format!(
        "{}  {} to {} ({}): {} pending, {} rows in {} batches for {} changes, {} resyncs, {} in quarantine",
        word("name"),
        word("mode"),
        word("table"),
        word("target"),
        count("pending"),
        count("rows"),
        count("batches"),
        count("changes"),
        count("resyncs"),
        count("quarantined"),
    );
    if count("gaps") > 0 {
        line += &format!("; {} gaps: changes are missing", count("gaps"));
    }
    if let Some(why) = sink["resyncing"].as_str() {
        line += &format!("; writing all keys ({})", one_line(why));
    }
    if let Some(why) = sink["problem"]["message"].as_str() {
        line += &format!("; not writing: {}", one_line(why));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_requests() {
        let path =
            |action, name, key| request(action, name, key).map(|(_, path)| path).map_err(|e| e.to_string());
        assert_eq!(path("list", None, None).unwrap(), "/sinks");
        assert_eq!(
            path("retry", Some("users"), Some("user:7 ü")).unwrap(),
            "/sinks/users/retry?key=user%3A7%20%C3%BC"
        );
        assert_eq!(path("compact", Some("log"), Some("7d")).unwrap(), "/sinks/log/compact?olderThan=7d");
        for (action, name, key, words) in [
            ("lst", None, None, "write one of list"),
            ("flush", None, None, "needs the NAME"),
            ("list", Some("users"), None, "takes no NAME"),
            ("flush", Some("users"), Some("k"), "takes no KEY"),
        ] {
            let error = path(action, name, key).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn responses_are_lines() {
        let server = Listen::parse("127.0.0.1:1").unwrap();
        let of = |action: &str, status, body: &str| {
            outcome(action, &server, &Response { status, body: body.into() })
        };
        let differs =
            of("verify", 200, r#"{"keys":3,"differences":1,"quarantined":0,"differing":[{"key":"a\nb","source":{"version":2,"value":"{}\n"},"target":null}]}"#)
                .unwrap();
        let text =
            "3 keys, 1 differences, 0 of them in quarantine\n  a b  source: version 2, {} ; target: absent\n";
        assert_eq!(differs, (text.to_owned(), false));
        let sink = r#"{"sinks":[{"name":"u","mode":"write-back","table":"t","target":"postgres","pending":2,"problem":{"message":"down"}}]}"#;
        let (list, _) = of("list", 200, sink).unwrap();
        assert!(
            list.starts_with("u  write-back to t (postgres): 2 pending")
                && list.ends_with("not writing: down\n"),
            "{list}"
        );
        let error = of("flush", 503, r#"{"error":{"message":"the target is down"}}"#).unwrap_err();
        assert_eq!(error.message(), "the target is down");
        assert!(of("flush", 401, "").unwrap_err().message().contains("KEYSTEAD_TOKEN"));
    }
}
