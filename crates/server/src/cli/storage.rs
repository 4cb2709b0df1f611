//! `keystead storage DIR`: a storage service, until a signal stops it. Touches what a storage service touches.

use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;

use super::{Operand, Subcommand};
use crate::failure::{failure, io_words};
use crate::settings::Loaded;
use crate::{logs, storage};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "storage",
    about: "Serve one SQLite file to servers that were started with --storage",
    operands: &[Operand { name: "DIR", help: "The directory of the file, created if it does not exist", required: true }],
    flags: &[],
    takes: |setting| SETTINGS_USED.contains(&setting.name),
    details: "\
Split mode: this process keeps the rows, and keystead serve --storage URL runs the commands, for example on a VM or on Lambda. Any
number of those may share one storage: a change is written only if every key that it depends on is still as it was read. A
request is POST /statements, and a response means that SQLite has synced its log (synchronous = FULL). See docs/split.md.

Whoever has the token may read and write every row. Without a token only this machine is served.

Examples:
  keystead storage /var/lib/keystead-storage --http 127.0.0.1:8090
  keystead serve --storage http://127.0.0.1:8090
  KEYSTEAD_TOKEN=SECRET keystead storage /data --http 0.0.0.0:8090
  KEYSTEAD_STORAGE_TOKEN=SECRET keystead serve --storage http://10.0.0.9:8090",
    run,
};

const SETTINGS_USED: [&str; 8] =
    ["http", "token", "token-file", "allowed-hosts", "log", "log-file", "log-level", "config"];

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let dir = super::operand_path(matches, "DIR")?;
    let Loaded { mut settings, warnings, .. } = super::load(matches)?;
    // Only compute services have a token here, and they need all rights.
    settings.read_only_token = None;
    logs::start(&settings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| {
        failure(format_args!("cannot start threads ({})", io_words(&e)), "check the limits of this process")
    })?;
    let done = runtime.block_on(storage::run(settings, dir));
    // The task that waits for a second signal never ends by itself.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
