//! TLS on the real servers: the right certificate works; an issuer that is not trusted, a wrong name, a server without TLS and one that says
//! nothing are errors that say what to do, within the deadline and without the password.
//!
//! Trust is what `SSL_CERT_FILE` says when a process starts, so the stores are opened by this binary again, with the URLs in a variable.

mod cases;
mod front;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use keystead_core::{Key, Stopwatch, StoreExt, SystemClock, Ttl};
use keystead_testkit::rng::fresh_seed;
use keystead_testkit::runner::{DEADLINE, within};
use keystead_testkit::servers::Kind;
use keystead_testkit::steps::increment;
use keystead_testkit::{Checked, Failure, NotOpened};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};

use cases::{CASES, Case};

const URLS: &str = "KEYSTEAD_TLS_URLS";

/// The ends of the passwords and tokens, right and wrong.
const SECRETS: [&str; 2] = ["-of-the-tests", "-that-is-wrong"];

/// The deadline of a call that is to fail by it.
const SHORT_MS: u64 = 1_600;

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a process reports to the one that started it")]
fn main() -> ExitCode {
    if let Ok(urls) = std::env::var(URLS) {
        let opened = within(DEADLINE, async move {
            for url in urls.lines() {
                println!("{}", opened(url).await);
            }
            Ok(())
        });
        return match opened {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::FAILURE
            }
        };
    }
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}

/// Opens a store and counts to three, in the process that trusts what it is to trust.
async fn opened(url: &str) -> Value {
    let since = Stopwatch::start();
    let counted = async {
        let store = keystead_stores::connect(url, Arc::new(SystemClock)).await?;
        let key = Key::new(format!("tls-{:x}", fresh_seed()).as_str())?;
        let mut count = 0;
        for _ in 0..3 {
            count = store.apply(&key, &increment(Ttl::Never)).await?;
        }
        store.reset(&key).await?;
        Ok::<u64, keystead_core::Error>(count)
    };
    match counted.await {
        Ok(count) => json!({ "count": count }),
        Err(error) => json!({
            "error": format!("{error:?}"),
            "code": format!("{:?}", error.code()),
            "outcome": format!("{:?}", error.outcome()),
            "ms": since.elapsed().as_millis() as u64,
        }),
    }
}

/// What a process that trusts this authority gets for each URL.
fn opened_by_one_that_trusts(authority: &Path, urls: &[String]) -> Checked<Vec<Value>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(URLS, urls.join("\n")).env("SSL_CERT_FILE", authority).env_remove("SSL_CERT_DIR");
    let output = command.stdin(Stdio::null()).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    match lines.len() == urls.len() {
        true => Ok(lines),
        false => Err(Failure::new(format_args!("a process ended with {}: {out}{err}", output.status))),
    }
}

/// It was rejected in these words, and nothing was written.
fn assert_rejected(what: &str, got: &Value, expected: &str) -> Checked {
    let error = got["error"].as_str().unwrap_or_default();
    let typed = got["code"] == "StoreUnavailable" && got["outcome"] == "NotApplied";
    match typed && error.contains(expected) && !SECRETS.iter().any(|secret| error.contains(secret)) {
        true => Ok(()),
        false => Err(Failure::new(format_args!("{what}: {got}, and not '{expected}'"))),
    }
}

fn missing(kind: &Kind) -> Option<String> {
    match (kind.find)() {
        Err(NotOpened::Missing(reason)) => Some(reason),
        _ => None,
    }
}

/// A test of a store, which is skipped if something is missing and not required.
fn trial<F>(
    label: &str,
    name: &str,
    missing: Option<String>,
    run: impl FnOnce() -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = Checked> + Send + 'static,
{
    let required = std::env::var("REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|name| name == "all" || name == label);
    let trial = Trial::test(format!("{label}::{name}"), move || {
        within(DEADLINE, run()).map_err(|failure| Failed::from(failure.to_string()))
    });
    match missing {
        Some(reason) if !required => trial.with_ignored_flag(true).with_kind(format!("skipped: {reason}")),
        _ => trial,
    }
}

fn trials() -> Vec<Trial> {
    let of_case = |case: &'static Case| {
        let missing = missing(case.encrypted).or_else(|| missing(case.plain));
        trial(case.label, "certificates_are_checked", missing, move || cases::certificates_are_checked(case))
    };
    let of_cases = CASES.iter().map(of_case);
    #[cfg(feature = "redis")]
    let of_cases = of_cases.chain([trial(
        "redis",
        "a_client_certificate_is_asked_for",
        missing(&keystead_testkit::servers::redis::REDIS_MUTUAL_TLS),
        cases::a_client_certificate_is_asked_for,
    )]);
    of_cases.collect()
}
