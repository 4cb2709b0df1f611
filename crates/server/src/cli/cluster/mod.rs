//! `keystead cluster`: the slot table of a cluster, and moving slots between its nodes. Touches the store that `--cluster` names, the
//! nodes, stdout and stderr.
//!
//! | To find                       | open       |
//! |-------------------------------|------------|
//! | the first table               | [`init`]   |
//! | slots per node, who answers   | [`status`] |
//! | adding and removing nodes     | [`change`] |
//! | moving slots                  | [`rebalance`] |
//! | how large they are            | [`sizes`]  |
//! | calls of nodes                | [`peers`]  |
//! | what routers have counted     | [`routers`] |

mod change;
mod init;
mod peers;
mod rebalance;
mod routers;
mod sizes;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_cluster::bounds::WEIGHT_MAX;
use keystead_core::Result;

use super::store::runtime;
use super::{Flag, Operand, Subcommand};
use crate::cluster::Record;
use crate::failure::failure;
use crate::settings::Token;
use crate::settings::size::parse_size_bytes;
use crate::stores::StoreName;

/// The flags that only `init` has.
const NODE: &str = "node";
const NAME: &str = "name";
const IF_MISSING: &str = "if-missing";

/// The flag that only `status` has.
const ROUTER: &str = "router";

/// The flag that only `add` has.
const WEIGHT: &str = "weight";

/// The flags that only `add`, `remove` and `rebalance` have.
const DRY_RUN: &str = "dry-run";
const RATE: &str = "rate";

const ACTIONS: &str = "init, status, add, remove, rebalance or release";

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "cluster",
    about: "Create a cluster, show it, add and remove nodes, move slots",
    operands: &[
        Operand { name: "ACTION", help: ACTIONS, required: true },
        Operand { name: "NODE", help: "add: NAME=ADDRESSES, as with --node; remove, release: NAME", required: false },
    ],
    flags: &[
        Flag {
            name: NODE,
            value_name: "NAME=ADDRESSES",
            help: "init: a node, for example a=redis://10.0.0.1:6379,http://10.0.0.1:8080; once for each node",
            required: false,
            many: true,
        },
        Flag {
            name: NAME,
            value_name: "CLUSTER",
            help: "init: the name of the cluster, which no other has [default: a random one]",
            required: false,
            many: false,
        },
        Flag {
            name: IF_MISSING,
            value_name: "",
            help: "init: if the store has a table already, leave it as it is and succeed",
            required: false,
            many: false,
        },
        Flag {
            name: ROUTER,
            value_name: "URL",
            help: "status: show also what this router has proxied, for example http://10.0.0.7:8080; once for each router",
            required: false,
            many: true,
        },
        Flag {
            name: WEIGHT,
            value_name: "N",
            help: "add: the share of the node, relative to the weights of the others; also of one that is in the table [default: 1]",
            required: false,
            many: false,
        },
        Flag {
            name: DRY_RUN,
            value_name: "",
            help: "add, remove, rebalance: print what would move, and change nothing",
            required: false,
            many: false,
        },
        Flag {
            name: RATE,
            value_name: "SIZE",
            help: "add, remove, rebalance: most bytes a second that each node takes in, for example 64mb [default: no limit]",
            required: false,
            many: false,
        },
    ],
    takes: |setting| matches!(setting.name, "cluster" | "config" | "token" | "token-file"),
    details: "\
init shares the 16,384 slots out among the nodes and writes the slot table, one record, to the store that --cluster names: etcd,
PostgreSQL, Redis, DynamoDB, NATS; see docs/stores.md. It fails if the store has a table already, unless --if-missing is set. Then each node is started with
keystead serve --cluster URL --node-id NAME --advertise ADDRESSES.

status prints the epoch, the slots of each node, and whether it answers; with --router also how many requests a router has proxied since
its start. Exits with 0 when every slot has an owner and every node
answers, 1 otherwise, 2 when the arguments are invalid.

add writes a node into the table, waits until it answers, and moves its share of the slots to it. remove moves all slots of a node to
the others, and then removes it from the table. rebalance gives every node its share, and continues what was interrupted. Clients go on
meanwhile. The command may be stopped at any time, and run again. A node that has too little memory or disk left for what it would get is
refused before anything moves. --rate spares the clients: without it slots move as fast as the nodes can. Nodes with a token need it here:
KEYSTEAD_TOKEN.

release lets another server be a node that does not answer, or the same one with another data directory: a server claims the id of its
node when it joins, so that two servers are never one node. Keys that the data directory of the next server does not have are gone.

Examples:
  keystead cluster init --cluster etcd://10.0.0.9:2379 \\
    --node a=redis://10.0.0.1:6379,http://10.0.0.1:8080 --node b=redis://10.0.0.2:6379,http://10.0.0.2:8080
  keystead cluster status --cluster etcd://10.0.0.9:2379
  keystead cluster add c=redis://10.0.0.3:6379,http://10.0.0.3:8080 --cluster etcd://10.0.0.9:2379
  keystead cluster remove a --dry-run --cluster etcd://10.0.0.9:2379",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let text = |name| matches.get_one::<OsString>(name).map(|text| text.to_string_lossy().into_owned());
    let (action, node) = (text("ACTION").unwrap_or_default(), text("NODE"));
    let settings = super::load(matches)?.settings;
    let url = settings.cluster.ok_or_else(|| {
        failure("--cluster is missing", "name the store of the slot table, for example etcd://HOST:2379")
    })?;
    let is_dry = matches.get_flag(DRY_RUN);
    let rate = matches.get_one::<String>(RATE).map(|text| rate(text)).transpose()?;
    let is_moving = !matches!(&*action, "init" | "status" | "release");
    let unused = [
        (
            action != "init" && (matches.contains_id(NODE) || matches.contains_id(NAME)),
            "--node and --name have",
        ),
        (action != "init" && matches.get_flag(IF_MISSING), "--if-missing has"),
        (action != "status" && matches.contains_id(ROUTER), "--router has"),
        (action != "add" && matches.contains_id(WEIGHT), "--weight has"),
        (!is_moving && is_dry, "--dry-run has"),
        (!is_moving && rate.is_some(), "--rate has"),
        (!matches!(&*action, "add" | "remove" | "release") && node.is_some(), "NODE has"),
    ];
    if let Some((_, what)) = unused.iter().find(|(is_unused, _)| *is_unused) {
        return Err(failure(format_args!("{what} no effect on keystead cluster {action}"), "leave it out"));
    }
    let operator =
        Operator { url: &url, token: settings.token.as_ref(), is_dry, rate: Some(rate.unwrap_or(0)) };
    match (&*action, node) {
        ("init", _) => {
            let nodes: Vec<String> = matches.get_many(NODE).into_iter().flatten().cloned().collect();
            let name = matches.get_one::<String>(NAME).cloned();
            init::run(&url, &nodes, name, matches.get_flag(IF_MISSING))
        }
        ("status", _) => {
            let routers: Vec<String> = matches.get_many(ROUTER).into_iter().flatten().cloned().collect();
            status::run(&Operator { rate: None, ..operator }, &routers)
        }
        ("add", Some(node)) => {
            let weight = matches.get_one::<String>(WEIGHT).map(|text| weight(text)).transpose()?;
            change::add(&operator, &init::node(&node)?, weight)
        }
        ("remove", Some(node)) => change::remove(&operator, &node),
        ("release", Some(node)) => change::release(&operator, &node),
        ("add" | "remove" | "release", None) => {
            Err(failure("NODE is missing", format_args!("see the examples of keystead cluster --help")))
        }
        ("rebalance", _) => change::rebalance(&operator),
        _ => Err(failure(
            format_args!("unknown action '{action}'"),
            format_args!("write keystead cluster {ACTIONS}"),
        )),
    }
}

/// Who changes a cluster.
struct Operator<'a> {
    url: &'a StoreName,
    token: Option<&'a Token>,
    /// Whether it only prints what would move.
    is_dry: bool,
    /// How many bytes a second a node takes in, 0 for no limit; `None` leaves that as it is.
    rate: Option<u64>,
}

fn weight(text: &str) -> Result<u16> {
    let valid = text.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    valid.ok_or_else(|| {
        failure(
            format_args!("--weight '{text}' is not a weight"),
            format_args!("write a number from 1 to {WEIGHT_MAX}"),
        )
    })
}

fn rate(text: &str) -> Result<u64> {
    match parse_size_bytes(text) {
        Ok(0) => Err(failure("--rate '0' would move nothing", "leave it out for no limit")),
        Ok(bytes) => Ok(bytes),
        Err(invalid) => Err(failure(format_args!("--rate '{text}' {}", invalid.why), invalid.fix)),
    }
}

/// Runs something with the record of the table, and closes its store.
fn with_record<T>(url: &StoreName, run: impl AsyncFnOnce(&Record) -> Result<T>) -> Result<T> {
    runtime()?.block_on(async {
        let record = Record::open(url).map_err(|error| {
            failure(format_args!("--cluster: {}", error.message()), "see docs/cluster-nodes.md")
        })?;
        let ran = run(&record).await;
        let closed = record.close().await;
        ran.and_then(|ran| closed.map(|()| ran))
    })
}
