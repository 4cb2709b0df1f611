//! `CLUSTER subcommand ...`, `READONLY`, `READWRITE`, `ASKING`: the slot table as clients of Redis Cluster read it.
//!
//! Without `--cluster` all of them return the error of Redis without cluster mode.

use std::fmt::Write;

use keystead_cluster::bounds::SLOTS;
use keystead_cluster::{Node, SlotTable};
use keystead_core::key;
use keystead_model::Bytes;

use super::CLUSTER_FLAGS;
use crate::args::Args;
use crate::conn::Conn;
use crate::ctx::Ctx;
use crate::errors::{CommandResult, Fail};
use crate::families::scripting::sha1_hex;
use crate::help as help_lines;
use crate::hub::{Cluster, Hub, endpoint};
use crate::keys_of::Keys;
use crate::reply::Reply;
use crate::spec::flag::NO_REST;
use crate::spec::{Spec, Spread};

const DISABLED: Fail = Fail::fixed("ERR This instance has cluster support disabled");
const INVALID_SLOT: Fail = Fail::fixed("ERR Invalid slot");
const INVALID_SLOT_OR_COUNT: Fail = Fail::fixed("ERR Invalid slot or number of keys");

pub(super) const TABLE: &[Spec] = &[
    Spec::data("cluster|countkeysinslot", 3, NO_REST, Keys::None, countkeysinslot).spread(Spread::Sum).doc(
        "slot",
        "Returns the number of keys in a hash slot, on this node.",
        "3.0.0",
    ),
    Spec::data("cluster|getkeysinslot", 4, NO_REST, Keys::None, getkeysinslot).spread(Spread::Join).doc(
        "slot count",
        "Returns names of keys in a hash slot, on this node.",
        "3.0.0",
    ),
    Spec::conn("cluster|help", 2, CLUSTER_FLAGS, help).doc(
        "",
        "Returns a list of the subcommands of CLUSTER.",
        "5.0.0",
    ),
    Spec::conn("cluster|info", 2, NO_REST, info).doc("", "Returns information about the cluster.", "3.0.0"),
    Spec::conn("cluster|keyslot", 3, NO_REST, keyslot).doc("key", "Returns the hash slot of a key.", "3.0.0"),
    Spec::conn("cluster|myid", 2, NO_REST, myid).doc("", "Returns the id of this node.", "3.0.0"),
    Spec::conn("cluster|nodes", 2, NO_REST, nodes).doc(
        "",
        "Returns the nodes and their slots, a line for each node.",
        "3.0.0",
    ),
    Spec::conn("cluster|shards", 2, NO_REST, shards).doc("", "Returns the slots of each node.", "7.0.0"),
    Spec::conn("cluster|slots", 2, NO_REST, slots).doc(
        "",
        "Returns the node of each range of slots.",
        "3.0.0",
    ),
];

fn cluster(hub: &Hub) -> Result<&Cluster, Fail> {
    hub.cluster.get().ok_or(DISABLED)
}

/// `READONLY`, and `READWRITE` and `ASKING`, which do the same: there are no replicas, and no slot is served by two nodes.
pub(super) fn readonly(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    cluster(conn.hub).map(|_| Reply::Ok)
}

fn help(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    cluster(conn.hub)?;
    help_lines::help(conn, args)
}

fn keyslot(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    cluster(conn.hub).map(|_| Reply::Int(key::slot(args.at(2)).into()))
}

fn myid(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let cluster = cluster(conn.hub)?;
    Ok(Reply::text(id_of(&cluster.table(), cluster.me())))
}

/// The id of a node in the form of Redis, which some clients check: 40 hexadecimal digits.
fn id_of(table: &SlotTable, node: &Node) -> String {
    let digits = sha1_hex(format!("{}/{}", table.cluster(), node.id).as_bytes());
    String::from_utf8_lossy(&digits).into_owned()
}

fn info(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let table = cluster(conn.hub)?.table();
    let owned = |node: &&Node| table.slots_owned(&node.id) > 0;
    let assigned: usize = table.nodes().iter().map(|node| table.slots_owned(&node.id)).sum();
    let mut text = String::new();
    let fields: [(&str, &dyn std::fmt::Display); 12] = [
        ("state", &if assigned == usize::from(SLOTS) { "ok" } else { "fail" }),
        ("slots_assigned", &assigned),
        ("slots_ok", &assigned),
        ("slots_pfail", &0),
        ("slots_fail", &0),
        ("known_nodes", &table.nodes().len()),
        ("size", &table.nodes().iter().filter(owned).count()),
        ("current_epoch", &table.epoch()),
        ("my_epoch", &table.epoch()),
        ("stats_messages_sent", &0),
        ("stats_messages_received", &0),
        ("total_links_buffer_limit_exceeded", &0),
    ];
    for (name, value) in fields {
        // Writing to a String cannot fail.
        let _ = match name.strip_prefix("total_") {
            Some(name) => write!(text, "total_cluster_{name}:{value}\r\n"),
            None => write!(text, "cluster_{name}:{value}\r\n"),
        };
    }
    Ok(Reply::Verbatim(text))
}

fn nodes(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let cluster = cluster(conn.hub)?;
    let (table, mut text) = (cluster.table(), String::new());
    for node in table.nodes() {
        let (host, port) = endpoint(&node.resp).unwrap_or(("", 0));
        let flags = if node.id == cluster.me().id { "myself,master" } else { "master" };
        let (id, epoch) = (id_of(&table, node), table.epoch());
        // Writing to a String cannot fail. There is no cluster bus: its port is 0.
        let _ = write!(text, "{id} {host}:{port}@0 {flags} - 0 0 {epoch} connected");
        for (range, _) in table.ranges().filter(|(_, owner)| owner.is_some_and(|owner| owner.id == node.id)) {
            let _ = write!(text, " {range}");
        }
        text.push('\n');
    }
    Ok(Reply::Verbatim(text))
}

fn slots(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let table = cluster(conn.hub)?.table();
    let row = |(range, owner): (keystead_cluster::SlotRange, Option<&Node>)| {
        let owner = owner?;
        let (host, port) = endpoint(&owner.resp).unwrap_or(("", 0));
        let node = vec![
            Reply::bulk(host.as_bytes()),
            Reply::Int(port.into()),
            Reply::text(id_of(&table, owner)),
            // Other addresses of the node.
            Reply::Map(Vec::new()),
        ];
        let bounds = [range.first(), range.last()].map(|slot| Reply::Int(slot.into()));
        Some(Reply::Array(bounds.into_iter().chain([Reply::Array(node)]).collect()))
    };
    Ok(Reply::Array(table.ranges().filter_map(row).collect()))
}

fn shards(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let table = cluster(conn.hub)?.table();
    let word = |word: &'static str| Reply::bulk(word.as_bytes());
    let shard = |node: &Node| {
        let ranges = table.ranges().filter(|(_, owner)| owner.is_some_and(|owner| owner.id == node.id));
        let slots = ranges.flat_map(|(range, _)| [range.first(), range.last()].map(|n| Reply::Int(n.into())));
        let (host, port) = endpoint(&node.resp).unwrap_or(("", 0));
        let port_name = if node.resp.starts_with("rediss:") { "tls-port" } else { "port" };
        let about = Reply::Map(vec![
            (word("id"), Reply::text(id_of(&table, node))),
            (word(port_name), Reply::Int(port.into())),
            (word("ip"), Reply::bulk(host.as_bytes())),
            (word("endpoint"), Reply::bulk(host.as_bytes())),
            (word("role"), word("master")),
            (word("replication-offset"), Reply::Int(0)),
            (word("health"), word("online")),
        ]);
        Reply::Map(vec![
            (word("slots"), Reply::Array(slots.collect())),
            (word("nodes"), Reply::Array(vec![about])),
        ])
    };
    Ok(Reply::Array(table.nodes().iter().map(shard).collect()))
}

fn slot_of(number: i64, invalid: Fail) -> Result<u16, Fail> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS).ok_or(invalid)
}

fn countkeysinslot(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    cluster(ctx.hub)?;
    let (slot, mut count) = (slot_of(args.int(2)?, INVALID_SLOT)?, 0);
    each_key(ctx, slot, |_| {
        count += 1;
        true
    })?;
    Ok(Reply::count(count))
}

fn getkeysinslot(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    cluster(ctx.hub)?;
    let (slot, count) = (args.int(2)?, args.int(3)?);
    let slot = slot_of(slot, INVALID_SLOT_OR_COUNT)?;
    let count = usize::try_from(count).map_err(|_| INVALID_SLOT_OR_COUNT)?;
    let mut found = Vec::new();
    if count > 0 {
        each_key(ctx, slot, |key| {
            found.push(Reply::shared(key.clone()));
            found.len() < count
        })?;
    }
    Ok(Reply::Array(found))
}

/// Calls `each` with the keys of a slot until it returns false. It reads the names of all keys, as there is no index of slots.
fn each_key(ctx: &mut Ctx<'_>, slot: u16, mut each: impl FnMut(&Bytes) -> bool) -> Result<(), Fail> {
    let (mut cursor, mut more) = (0, true);
    loop {
        cursor = ctx.keys.scan(cursor, usize::MAX, ctx.now, |key, _| {
            if more && key::slot(key) == slot {
                more = each(key);
            }
        })?;
        if cursor == 0 || !more {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::hub::cluster_tests::member;
    use crate::testing::Desk;

    #[test]
    fn without_a_cluster_there_is_none() {
        let disabled = "-ERR This instance has cluster support disabled";
        Desk::new().expect(&[
            ("CLUSTER INFO", disabled),
            ("CLUSTER HELP", disabled),
            ("CLUSTER KEYSLOT k", disabled),
            ("CLUSTER SLOTS", disabled),
            ("CLUSTER COUNTKEYSINSLOT 0", disabled),
            ("CLUSTER GETKEYSINSLOT 0 1", disabled),
            ("READONLY", disabled),
            ("READWRITE", disabled),
            ("ASKING", disabled),
            ("CLUSTER", "-ERR wrong number of arguments for 'cluster' command"),
        ]);
    }

    #[test]
    fn a_node_describes_its_cluster() {
        let mut desk = Desk::new();
        assert!(desk.hub.cluster.set(member()).is_ok());
        desk.expect(&[
            ("READONLY", "+OK"),
            ("ASKING", "+OK"),
            ("CLUSTER KEYSLOT {user}:1", ":5474"),
            ("SET {user}:1 v", "+OK"),
            ("SET {user}:2 v", "+OK"),
            ("SET other v", "+OK"),
            ("CLUSTER COUNTKEYSINSLOT 5474", ":2"),
            ("CLUSTER COUNTKEYSINSLOT 1", ":0"),
            ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
            ("CLUSTER GETKEYSINSLOT 5474 1", "*1 $8 {user}:1"),
            ("CLUSTER GETKEYSINSLOT 5474 0", "*0"),
            ("CLUSTER GETKEYSINSLOT 5474 -1", "-ERR Invalid slot or number of keys"),
        ]);
        let info = desk.resp("CLUSTER INFO");
        assert!(info.contains("cluster_state:fail cluster_slots_assigned:16383"), "{info}");
        assert!(desk.resp("INFO cluster").contains("cluster_enabled:1"));
        assert!(desk.resp("CLUSTER SLOTS").contains("$9 127.0.0.1 :7000 $40 "));
        assert!(desk.resp("CLUSTER NODES").contains(" 127.0.0.1:7000@0 myself,master - 0 0 1 connected "));
        assert!(desk.resp("CLUSTER SHARDS").contains("$4 role $6 master"));
    }

    #[test]
    fn a_script_reaches_no_key_of_another_node() {
        let mut desk = Desk::new();
        let cluster = member();
        let theirs = (0..).map(|n| format!("k{n}"));
        let theirs = theirs.into_iter().find(|key| !cluster.serves(keystead_core::key::slot(key.as_bytes())));
        assert!(desk.hub.cluster.set(cluster).is_ok());
        let reply = desk.run_args(&["EVAL", "return redis.pcall('set', ARGV[1], 1)", "0", &theirs.unwrap()]);
        let words = "-ERR Script attempted to access a non local key in a cluster node";
        assert!(crate::testing::shown(&reply).starts_with(words), "{reply:?}");
        assert_eq!(desk.resp("DBSIZE"), ":0");
    }
}
