//! `keystead serve`: run the server until a signal stops it. Touches what the server touches.

use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;

use super::Subcommand;
use crate::failure::{failure, io_words};
use crate::settings::{Loaded, Source, Value};
use crate::{compute, logs, server};

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
    let Loaded { settings, mut warnings, values } = super::load(matches)?;
    if settings.storage.is_some() {
        reject_unused(&values, &mut warnings)?;
    } else if settings.storage_token.is_some() {
        warnings.push("--storage-token has no effect without --storage".to_owned());
    }
    logs::start(&settings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| {
        failure(format_args!("cannot start threads ({})", io_words(&e)), "check the limits of this process")
    })?;
    let done = match settings.storage.clone() {
        Some(url) => runtime.block_on(compute::run(settings, url)),
        None => runtime.block_on(server::run(settings)),
    };
    // The task that waits for a second signal never ends by itself.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}

/// Rejects flags that have no effect with `--storage`, and warns of others: an image sets variables for the usual server.
fn reject_unused(values: &[Value], warnings: &mut Vec<String>) -> Result<()> {
    let unused = values.iter().filter(|value| compute::NO_EFFECT.contains(&value.setting.name));
    for value in unused.filter(|value| !(value.setting.name == "resp" && value.shown() == "off")) {
        let flag = value.setting.flag();
        match value.source {
            Source::Default => {}
            Source::Flag => {
                return Err(failure(
                    format_args!("{flag} has no effect with --storage"),
                    "leave it out: the storage service has the keys, and HTTP is what is served; see docs/split.md",
                ));
            }
            _ => warnings.push(format!("{flag} is set and has no effect with --storage")),
        }
    }
    Ok(())
}
