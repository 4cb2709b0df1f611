//! `keystead limit replay --policy POLICY [--compare POLICY] [--store URL]`: what a policy would have decided. Touches stdin, stdout, and
//! the store that `--store` names.
//!
//! Reads lines `{"now":..,"key":"..","cost":..}` and writes one decision per line, in the same order. Needs no server without `--store`.
//!
//! | To find                            | open        |
//! |------------------------------------|-------------|
//! | policies: JSON, files, names       | [`policy`]  |
//! | decisions in memory or on a store  | [`decider`] |
//! | recorded requests                  | [`request`] |

mod decider;
mod policy;
mod request;

use std::collections::HashSet;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::{Code, Error, Result};
use keystead_limit::Decision;
use serde_json::{Value, json};

use super::{Flag, Operand, Subcommand};
use crate::failure::failure;
use crate::settings::table::CONFIG;
use crate::written;
use decider::{Decider, Opened};
use request::{Request, bad, each};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "limit",
    about: "Try a rate limit on recorded traffic, without a server",
    operands: &[Operand { name: "ACTION", help: "replay", required: true }],
    flags: &[
        Flag { name: "policy", value_name: "POLICY", help: "The policy to try: JSON, @FILE, or the NAME of one in the settings file", required: true, many: false },
        Flag { name: "compare", value_name: "POLICY", help: "Another one: prints only where they differ", required: false, many: false },
        Flag { name: "store", value_name: "URL", help: "Decide on this store instead of in memory; see docs/stores.md", required: false, many: false },
    ],
    takes: |setting| setting.name == CONFIG.name,
    details: "\
Reads lines {\"now\":1700000000000,\"key\":\"ada\",\"cost\":1} from standard input (now in milliseconds; cost is 1 if it is
missing; a key that is not UTF-8 is {\"base64\":\"...\"}) and prints one decision per line. With --compare it prints the lines on
which two policies differ, and then a summary. A bad policy or line is one line on stderr and exit code 2.

A policy is JSON, or @FILE: JSON, or TOML if its name ends in .toml; or NAME: the table [limit.NAME] in keystead.toml or
in the file of --config.

With --store the decisions come from that server, whose clock is the now of each line, under a random prefix that is removed
in the end. The output is the same bytes as from memory, on every store: compare two of them line by line.

Examples:
  keystead limit replay --policy '{\"kind\":\"gcra\",\"limit\":10,\"periodMs\":60000}' < traffic.ndjson
  keystead limit replay --policy login --compare @next.json < traffic.ndjson | tail -1
  keystead limit replay --policy login --config /etc/keystead.toml < traffic.ndjson
  diff <(keystead limit replay --policy login < traffic.ndjson) \\
       <(keystead limit replay --policy login --store redis://localhost:6379 < traffic.ndjson)",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let action = super::operand_path(matches, "ACTION")?;
    if action.as_os_str() != "replay" {
        return Err(failure(
            format_args!("unknown action '{}'", action.display()),
            "write keystead limit replay",
        ));
    }
    let policy = policy::of_flag(matches, "policy")?;
    let policy = policy.ok_or_else(|| failure("no policy", "write --policy POLICY"))?;
    let compare = policy::of_flag(matches, "compare")?;
    let store = matches.get_one::<String>("store").map(|url| Opened::new(url)).transpose()?;
    let decider = |flag: &str, policy| {
        let invalid =
            |error: Error| failure(format_args!("--{flag}: {}", error.message()), "see docs/limits.md");
        Decider::new(policy, store.as_ref()).map_err(invalid)
    };
    let policy = decider("policy", policy)?;
    let compare = compare.map(|policy| decider("compare", policy)).transpose()?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let done = match compare {
        None => decide(policy, io::stdin().lock(), &mut out),
        Some(other) => differ(policy, other, io::stdin().lock(), &mut out),
    };
    let ended = ended(done, &mut out);
    // Also after an error: what was written is removed.
    let closed = store.map_or(Ok(()), Opened::close);
    ended.and_then(|code| closed.map(|()| code))
}

fn ended(done: std::result::Result<(), Stop>, out: &mut impl Write) -> Result<ExitCode> {
    match done.and_then(|()| out.flush().map_err(Stop::Output)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The reader has closed the pipe, for example `head`.
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(Stop::Output(error)) => {
            Err(Error::new(Code::StoreUnavailable, format!("the decisions cannot be written: {error}")))
        }
        Err(Stop::Input(error)) => {
            let _ = out.flush();
            Err(error)
        }
    }
}

/// A text without the byte order mark that some programs put before UTF-8.
fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Why a replay ends early.
enum Stop {
    Input(Error),
    Output(io::Error),
}

fn decide(mut policy: Decider, input: impl BufRead, out: &mut impl Write) -> std::result::Result<(), Stop> {
    each(input, |number, request| {
        let decision = check(&mut policy, number, request)?;
        let text = decision.to_json().map_err(|error| bad(number, error.message()))?;
        writeln!(out, "{text}").map_err(Stop::Output)
    })
}

/// How many were let in and kept out.
#[derive(Default)]
struct Sum {
    allowed: u64,
    denied: u64,
}

impl Sum {
    fn add(&mut self, decision: &Decision) {
        let count = if decision.allowed { &mut self.allowed } else { &mut self.denied };
        *count += 1;
    }

    fn shown(&self) -> Value {
        json!({ "allowed": self.allowed, "denied": self.denied })
    }
}

fn differ(
    mut policy: Decider,
    mut other: Decider,
    input: impl BufRead,
    out: &mut impl Write,
) -> std::result::Result<(), Stop> {
    let (mut ours, mut theirs, mut lines, mut differing) = (Sum::default(), Sum::default(), 0u64, 0u64);
    let mut keys: HashSet<Vec<u8>> = HashSet::new();
    each(input, |number, request| {
        let (a, b) = (check(&mut policy, number, request)?, check(&mut other, number, request)?);
        ours.add(&a);
        theirs.add(&b);
        lines += 1;
        if a.allowed == b.allowed {
            return Ok(());
        }
        differing += 1;
        if !keys.contains(&*request.key.0) {
            keys.insert(request.key.0.to_vec());
        }
        let text = |decision: &Decision| decision.to_json().map_err(|error| bad(number, error.message()));
        let (a, b) = (text(&a)?, text(&b)?);
        let (key, now, cost) = (written::shown(&request.key.0), request.now, request.cost());
        writeln!(
            out,
            r#"{{"line":{number},"now":{now},"key":{key},"cost":{cost},"policy":{a},"compare":{b}}}"#
        )
        .map_err(Stop::Output)
    })?;
    let summary = json!({ "summary": {
        "lines": lines, "differ": differing, "keysAffected": keys.len(),
        "policy": ours.shown(), "compare": theirs.shown(),
    } });
    writeln!(out, "{summary}").map_err(Stop::Output)
}

fn check(policy: &mut Decider, number: u64, request: &Request<'_>) -> std::result::Result<Decision, Stop> {
    policy.check(request.now, &request.key.0, request.cost()).map_err(|error| match error.code() {
        Code::BadRequest | Code::TooLarge => bad(number, error.message()),
        // The store has failed, not the line.
        _ => Stop::Input(error.context(format_args!("line {number} of the input"))),
    })
}

#[cfg(test)]
mod tests {
    use keystead_limit::Policy;

    use super::*;

    const ONE: &str = r#"{"kind":"fixedWindow","limit":1,"windowMs":1000}"#;
    const TWO: &str = r#"{"kind":"fixedWindow","limit":2,"windowMs":1000}"#;

    fn new(policy: &str) -> Decider {
        Decider::new(Policy::from_json(policy).unwrap(), None).unwrap()
    }

    #[test]
    fn there_is_one_decision_per_line_in_order() {
        let input = "{\"now\":5000,\"key\":\"a\"}\n\n{\"now\":5400,\"key\":\"a\",\"cost\":1}";
        let mut out = Vec::new();
        assert!(decide(new(ONE), input.as_bytes(), &mut out).is_ok());
        let text = String::from_utf8(out).unwrap();
        let allowed: Vec<bool> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["allowed"] == true)
            .collect();
        assert_eq!(allowed, [true, false]);
    }

    #[test]
    fn a_comparison_prints_what_differs_and_a_summary() {
        let input = "{\"now\":1,\"key\":\"a\"}\n{\"now\":2,\"key\":\"a\"}\n{\"now\":3,\"key\":\"b\"}\n";
        let mut out = Vec::new();
        assert!(differ(new(ONE), new(TWO), input.as_bytes(), &mut out).is_ok());
        let lines: Vec<Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["line"], &lines[0]["key"]), (&json!(2), &json!("a")));
        let summary = &lines[1]["summary"];
        assert_eq!(summary["policy"], json!({"allowed": 2, "denied": 1}));
        assert_eq!((&summary["differ"], &summary["keysAffected"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn a_bad_line_is_named() {
        for (input, why) in [
            ("{\"now\":1,\"key\":\"a\"}\nnonsense", "line 2"),
            ("{\"key\":\"a\"}", "missing field `now`"),
            ("{\"now\":-1,\"key\":\"a\"}", "line 1"),
            ("{\"now\":1,\"key\":\"a\",\"price\":2}", "unknown field `price`"),
        ] {
            let Err(Stop::Input(error)) = decide(new(ONE), input.as_bytes(), &mut Vec::new()) else {
                panic!("{input} was accepted");
            };
            assert!(error.message().contains(why), "{error}");
            assert_eq!(error.code(), Code::ConfigInvalid);
        }
    }
}
