//! `keystead router`: one address for several nodes, until a signal stops it. Touches what a router touches.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;

use super::Subcommand;
use crate::failure::{failure, io_words};
use crate::router::NodeList;
use crate::settings::Loaded;
use crate::{logs, router};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "router",
    about: "Put one HTTP address in front of several nodes",
    operands: &[],
    flags: &[],
    takes: |setting| SETTINGS_USED.contains(&setting.name),
    details: "\
The nodes are servers (keystead serve) that know nothing of each other. Each key is on one node: its hash slot decides, and
the 16384 slots are shared out by the names of the nodes, so that all routers with the same list route alike. A router
keeps nothing, and any number of them may run. Set the same token on the routers and on the nodes.

A node is http://HOST:PORT, or NAME=http://HOST:PORT. The name decides which slots a node has: by default it is made of
host and port, so name a node whose address may change. Without --nodes and KEYSTEAD_NODES, the variable NODES is used.
Do not change the list of nodes while there is data: keys are not moved. See docs/cluster.md.

Examples:
  keystead router --nodes http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083
  KEYSTEAD_TOKEN=... keystead router --http 0.0.0.0:8080 --nodes a=http://10.0.0.1:8080,b=http://10.0.0.2:8080",
    run,
};

const SETTINGS_USED: [&str; 11] = [
    "http",
    "nodes",
    "token",
    "read-only-token",
    "token-file",
    "read-only-token-file",
    "allowed-hosts",
    "log",
    "log-file",
    "log-level",
    "config",
];

/// The variable that many deployments of routers use.
const NODES: &str = "NODES";

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let Loaded { settings, warnings, .. } = super::load(matches)?;
    let nodes = match settings.nodes.clone() {
        Some(nodes) => nodes,
        None => of_variable(std::env::var_os(NODES))?,
    };
    logs::start(&settings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| {
        failure(format_args!("cannot start threads ({})", io_words(&e)), "check the limits of this process")
    })?;
    let done = runtime.block_on(router::run(settings, nodes));
    // The task that waits for a second signal never ends by itself.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}

fn of_variable(value: Option<OsString>) -> Result<NodeList> {
    let Some(text) = value.filter(|text| !text.is_empty()) else {
        return Err(failure(
            "no nodes",
            "list them, for example --nodes http://127.0.0.1:8081,http://127.0.0.1:8082",
        ));
    };
    let invalid = |why: &str, fix: &str| failure(format_args!("{NODES} {why}"), fix);
    let text = text.to_str().ok_or_else(|| invalid("is not UTF-8", "write it in UTF-8"))?;
    NodeList::parse(text).map_err(|error| invalid(&error.why, &error.fix))
}
