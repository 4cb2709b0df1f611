//! `keystead router`: one address for several nodes, until a signal stops it. Touches what a router touches.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;

use super::Subcommand;
use crate::failure::{failure, io_words};
use crate::router::{NodeList, Nodes};
use crate::settings::{Listen, Loaded, Source};
use crate::{logs, router};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "router",
    about: "Put one address in front of several nodes, for HTTP and for Redis clients",
    operands: &[],
    flags: &[],
    takes: |setting| SETTINGS_USED.contains(&setting.name),
    details: "\
Each key is on one node: its hash slot decides. A router keeps nothing, and any number of them may run. Set the same token on
the routers and on the nodes. Redis clients connect as to one server: --resp opens a listener for them.

With --cluster, the slot table in that store says which node has which slots, and the router follows it: nodes join and leave
while it runs. With --data it keeps a copy of the table, and starts without the store.

With --nodes, the list is fixed, and the slots are shared out by the names of the nodes. A node is http://HOST:PORT, or
NAME=http://HOST:PORT, and for --resp also NAME=redis://HOST:PORT. The default name is made of host and port, so name a node
whose address may change. Without --nodes and KEYSTEAD_NODES, the variable NODES is used. Do not change the list while there is
data: keys are not moved. See docs/cluster.md.

Examples:
  keystead router --cluster etcd://10.0.0.9:2379 --resp 0.0.0.0:6379 --http 0.0.0.0:8080
  keystead router --nodes http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083
  keystead router --resp 127.0.0.1:6379 --nodes a=http://10.0.0.1:8080,a=redis://10.0.0.1:6379,b=http://10.0.0.2:8080,b=redis://10.0.0.2:6379",
    run,
};

const SETTINGS_USED: [&str; 16] = [
    "http",
    "resp",
    "resp-tls-cert",
    "resp-tls-key",
    "nodes",
    "cluster",
    "data",
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
    let Loaded { mut settings, values, warnings } = super::load(matches)?;
    let is_set =
        |name: &str| values.iter().any(|value| value.setting.name == name && value.source != Source::Default);
    if !is_set("resp") {
        // Nodes of a list need an address for it, so it is opened for those who ask for it.
        settings.resp = Listen::Off;
    }
    let nodes = match (settings.nodes.clone(), settings.cluster.clone()) {
        (Some(_), Some(_)) => {
            return Err(failure("--nodes and --cluster are both set", "keep one of them"));
        }
        (None, Some(url)) => Nodes::Cluster(url, is_set("data").then(|| settings.data.clone())),
        (Some(_), None) if is_set("data") => {
            return Err(failure("--data has no effect with --nodes", "leave it out"));
        }
        (Some(list), None) => Nodes::List(list),
        (None, None) => Nodes::List(of_variable(std::env::var_os(NODES))?),
    };
    if let (Nodes::List(list), Listen::At { .. }) = (&nodes, &settings.resp)
        && let Some(id) = list.without_resp()
    {
        return Err(failure(
            format_args!("--resp is set, and the list has no redis:// address of node '{id}'"),
            format_args!("add {id}=redis://HOST:PORT to --nodes"),
        ));
    }
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
            "list them, for example --nodes http://127.0.0.1:8081,http://127.0.0.1:8082, or name the store of a slot table with --cluster",
        ));
    };
    let invalid = |why: &str, fix: &str| failure(format_args!("{NODES} {why}"), fix);
    let text = text.to_str().ok_or_else(|| invalid("is not UTF-8", "write it in UTF-8"))?;
    NodeList::parse(text).map_err(|error| invalid(&error.why, &error.fix))
}
