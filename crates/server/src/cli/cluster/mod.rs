//! `keystead cluster init` and `keystead cluster status`: the slot table of a cluster. Touches the store that `--cluster` names, the
//! nodes (status), stdout and stderr.
//!
//! | To find                       | open       |
//! |-------------------------------|------------|
//! | the first table               | [`init`]   |
//! | slots per node, who answers   | [`status`] |

mod init;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;

use super::store::runtime;
use super::{Flag, Operand, Subcommand};
use crate::cluster::Record;
use crate::failure::failure;
use crate::stores::StoreName;

/// The flags that only `init` has.
const NODE: &str = "node";
const NAME: &str = "name";

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "cluster",
    about: "Create the slot table of a cluster, and show it",
    operands: &[Operand { name: "ACTION", help: "init or status" }],
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
    ],
    takes: |setting| matches!(setting.name, "cluster" | "config"),
    details: "\
init shares the 16,384 slots out among the nodes and writes the slot table, one record, to the store that --cluster names: etcd,
PostgreSQL, Redis, DynamoDB, NATS; see docs/stores.md. It fails if the store has a table already. Then each node is started with
keystead serve --cluster URL --node-id NAME --advertise ADDRESSES.

status prints the epoch, the slots of each node, and whether it answers. Exits with 0 when every slot has an owner and every node
answers, 1 otherwise, 2 when the arguments are invalid.

Examples:
  keystead cluster init --cluster etcd://10.0.0.9:2379 \\
    --node a=redis://10.0.0.1:6379,http://10.0.0.1:8080 --node b=redis://10.0.0.2:6379,http://10.0.0.2:8080
  keystead cluster status --cluster etcd://10.0.0.9:2379",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let action = matches.get_one::<OsString>("ACTION").cloned().unwrap_or_default();
    let settings = super::load(matches)?.settings;
    let url = settings.cluster.ok_or_else(|| {
        failure("--cluster is missing", "name the store of the slot table, for example etcd://HOST:2379")
    })?;
    match action.to_str() {
        Some("init") => {
            let nodes: Vec<String> = matches.get_many(NODE).into_iter().flatten().cloned().collect();
            init::run(&url, &nodes, matches.get_one::<String>(NAME).cloned())
        }
        Some("status") if matches.contains_id(NODE) || matches.contains_id(NAME) => {
            Err(failure("--node and --name have no effect on keystead cluster status", "leave them out"))
        }
        Some("status") => status::run(&url),
        _ => {
            let action = action.to_string_lossy();
            Err(failure(
                format_args!("unknown action '{action}'"),
                "write keystead cluster init or keystead cluster status",
            ))
        }
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
