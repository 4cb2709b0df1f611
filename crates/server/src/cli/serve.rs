//! `keystead serve`: run the server until a signal stops it. Touches what the server touches.

use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;

use super::Subcommand;
use crate::failure::{failure, io_words};
use crate::settings::Loaded;
use crate::{logs, server};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "serve",
    about: "Run the server (the default)",
    operands: &[],
    flags: &[],
    takes: |setting| setting.name != "nodes",
    details: "",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let Loaded { settings, warnings, .. } = super::load(matches)?;
    logs::start(&settings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| {
        failure(format_args!("cannot start threads ({})", io_words(&e)), "check the limits of this process")
    })?;
    let done = runtime.block_on(server::run(settings));
    // The task that waits for a second signal never ends by itself.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
