//! `keystead store verify URL` and `keystead store bench URL`: whether a server of the user's is a correct store, and how fast it is.
//! Touches what the URL names, stdout and stderr.
//!
//! Everything is written under keys with a random prefix and removed again. Passwords in the URL are never printed.
//!
//! | To find                               | open         |
//! |---------------------------------------|--------------|
//! | the cases, the report, the exit code  | [`verify`]   |
//! | the measurement                       | [`bench`]    |
//! | opening, probing and removing keys    | [`target`]   |
//! | the line that shows how far it is     | [`progress`] |

mod bench;
mod target;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;

use super::{Flag, Operand, Subcommand};
use crate::failure::failure;

pub(super) use target::{Target, random_prefix, runtime};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "store",
    about: "Check that a server of yours is a correct store, and measure it",
    operands: &[
        Operand { name: "ACTION", help: "verify or bench", required: true },
        Operand { name: "URL", help: "The store, as in a policy: redis://..., postgres://...; see docs/stores.md", required: true },
    ],
    flags: &[Flag {
        name: "seconds",
        value_name: "N",
        help: "How long each row of figures is measured [default: 3]",
        required: false,
        many: false,
    }],
    takes: |_| false,
    details: "\
verify runs every case of Keystead's conformance suite and its decision vectors against that server: atomicity under concurrent
calls, expiry to the millisecond, all bytes of keys, doubles bit for bit, and the decisions of every kind of rate limit. It
prints a table of the cases, the first divergence with what was expected, and figures. Exits with 0 when the store conforms,
1 when it diverges, 2 when it cannot run: a bad URL, no connection, a wrong password.

bench prints checks a second and latencies with 1 and 32 checks in flight, on one key and on 10,000 keys.

Both use keys that begin with keystead-verify- or keystead-bench- and a random number, and remove them in the end. A server
that keeps removed keys for a while (see docs/stores.md) frees their space by itself.

Examples:
  keystead store verify redis://localhost:6379
  keystead store verify 'postgres://app:SECRET@db.internal/app?table=limits'
  keystead store bench redis://localhost:6379 --seconds 10
  keystead store verify \"$STORE_URL\" && echo safe to use",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let word = |name: &str| {
        let word = matches.get_one::<OsString>(name).cloned().unwrap_or_default();
        // It may contain a password, so it is not repeated.
        word.into_string().map_err(|_| failure(format_args!("{name} is not UTF-8"), "write it in UTF-8"))
    };
    let (action, url) = (word("ACTION")?, word("URL")?);
    let time = bench::time(matches)?;
    match action.as_str() {
        "verify" => verify::run(&url, time),
        "bench" => bench::run(&url, time),
        _ => Err(failure(
            format_args!("unknown action '{action}'"),
            "write keystead store verify or keystead store bench",
        )),
    }
}
