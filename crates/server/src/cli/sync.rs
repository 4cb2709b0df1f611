//! `keystead sync token --client NAME --prefix PREFIX [--expires 30d]`: prints a token for an offline client. Touches stdout.

use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::{Clock, Result, SystemClock, parse_duration_ms};

use super::{Flag, Operand, Subcommand};
use crate::failure::failure;
use crate::settings::table::CONFIG;
use crate::sync_token::Scope;

/// How long a token is valid if nothing else is said.
const EXPIRES: &str = "30d";

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "sync",
    about: "Make a token for an offline client",
    operands: &[Operand { name: "ACTION", help: "token", required: true }],
    flags: &[
        Flag { name: "client", value_name: "NAME", help: "The client, one per device or browser: letters, digits, and . _ : -", required: true, many: false },
        Flag { name: "prefix", value_name: "PREFIX", help: "It may read and change documents whose keys begin with this, and no others", required: true, many: false },
        Flag { name: "expires", value_name: "TIME", help: "How long it is valid, for example 12h [default: 30d]", required: false, many: false },
    ],
    takes: |setting| setting.name == CONFIG.name || setting.name == "sync-secret",
    details: "\
The token is signed with --sync-secret, which is also that of the server: the server needs nothing else to check it. It is for
/sync only. To end all tokens before they expire, start the server with another secret.

Examples:
  export KEYSTEAD_SYNC_SECRET=$(openssl rand -hex 32)
  keystead sync token --client phone-1 --prefix todo:ada: --expires 30d",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let action = super::operand_path(matches, "ACTION")?;
    if action.as_os_str() != "token" {
        return Err(failure(
            format_args!("unknown action '{}'", action.display()),
            "write keystead sync token",
        ));
    }
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let expires = text("expires").unwrap_or_else(|| EXPIRES.to_owned());
    let expires_ms = parse_duration_ms(&expires)
        .map_err(|error| failure(format_args!("--expires: {}", error.message()), "write for example 30d"))?;
    let scope = Scope {
        client: text("client").unwrap_or_default(),
        prefix: text("prefix").unwrap_or_default(),
        expires_at: SystemClock.now().plus_ms(expires_ms).0,
    };
    if let Some(flaw) = scope.flaw() {
        return Err(failure(flaw, "see keystead sync --help"));
    }
    let loaded = super::load(matches)?;
    let Some(secret) = &loaded.settings.sync_secret else {
        return Err(failure(
            "no secret to sign with",
            "set the server's: KEYSTEAD_SYNC_SECRET, for example the output of openssl rand -hex 32",
        ));
    };
    super::print(&format!("{}\n", secret.sign(&scope)));
    Ok(ExitCode::SUCCESS)
}
