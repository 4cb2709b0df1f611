//! Nodes join and leave while clients write as fast as they can, as clients of the cluster and through a router: no error, no lost or repeated
//! write, no second without writes, and only the share of a node moves. `KEYSTEAD_MOVE_KEYS` is how many keys there are besides those of the
//! clients, `KEYSTEAD_MOVE_CLIENTS` how many clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_core::key::slot;
use keystead_testkit::cluster_writers::{Options, Way, Window, Writers};
use serde_json::json;

use super::client::Routed;
use crate::Nodes;
use crate::client::Http;
use crate::resp::until;

/// Keys of all kinds, and what reads them.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("string", "SET string value", "GET string", "value"),
    ("hash", "HSET hash a 1 b 2", "HGETALL hash", "[a 1 b 2]"),
    ("list", "RPUSH list a b c", "LRANGE list 0 -1", "[a b c]"),
    ("set", "SADD set 1 2 3", "SMEMBERS set", "[1 2 3]"),
    ("zset", "ZADD zset 1.5 a -inf b", "ZRANGE zset 0 -1 WITHSCORES", "[b -inf a 1.5]"),
    ("stream", "XADD stream 5-1 f v", "XRANGE stream - +", "[[5-1 [f v]]]"),
    ("json", r#"JSON.SET json $ {"a":[1,2]}"#, "JSON.GET json", r#"{\"a\":[1,2]}"#),
];

/// Documents that are changed with `ifVersion`.
const DOCUMENTS: usize = 20;

/// How long is measured before anything moves, and after everything has.
const STILL: Duration = Duration::from_secs(3);

fn from_env(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// What is under a key that nobody writes to.
fn value(n: usize, bytes: usize) -> String {
    format!("{n}:{}", "v".repeat(bytes))
}

fn fill(nodes: &Nodes, keys: usize, bytes: usize) {
    let mut routed = Routed::new(nodes.resp_ports());
    for n in 0..keys {
        let key = format!("static:{n}");
        routed.expect(&key, &format!("SET {key} {}", value(n, bytes)), "+OK");
    }
    for (key, write, ..) in KINDS {
        let super::Reply::Text(reply) = routed.ask(key, write) else { panic!("{write}") };
        assert!(!reply.starts_with('-'), "{write}: {reply}");
    }
    routed.expect("expires", "SET expires v PXAT 99999999999999", "+OK");
    routed.expect("group", "XGROUP CREATE group g $ MKSTREAM", "+OK");
}

fn check(nodes: &Nodes, keys: usize, bytes: usize, ports: Vec<u16>) {
    let mut routed = Routed::new(ports);
    for n in 0..keys {
        let key = format!("static:{n}");
        routed.expect(&key, &format!("GET {key}"), &value(n, bytes));
    }
    for (key, _, read, expected) in KINDS {
        routed.expect(key, read, expected);
    }
    routed.expect("expires", "PEXPIRETIME expires", ":99999999999999");
    routed.expect("group", "XGROUP CREATE group g $", "-BUSYGROUP Consumer Group name already exists");
    for gone in [0, 1] {
        nodes.resp(gone).expect(&[("DBSIZE", ":0")]);
        assert_eq!(nodes.scan(gone), [] as [&str; 0]);
    }
}

/// Changes documents with `ifVersion` at the node that owns them, and follows 421; a router follows it itself. Returns how many changes there
/// were, and what went wrong.
fn change_documents(port: u16, follows: bool, stop: &AtomicBool) -> (u64, Vec<String>) {
    let (mut versions, mut ats, mut wrong, mut changes) =
        ([0u64; DOCUMENTS], [port; DOCUMENTS], Vec::new(), 0);
    let mut connections = std::collections::HashMap::new();
    for n in (0..DOCUMENTS).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let condition = if versions[n] == 0 { String::new() } else { format!("?ifVersion={}", versions[n]) };
        let path = format!("/kv/document:{n}{condition}");
        loop {
            let http = connections
                .entry(ats[n])
                .or_insert_with(|| Http::try_connect(("127.0.0.1", ats[n])).unwrap());
            let response = http.ask("PUT", &path, &["content-type: application/json"], br#"{"a":1}"#);
            match response.status {
                421 if follows => {
                    let owner = response.json()["error"]["owner"].as_str().unwrap().to_owned();
                    ats[n] = owner.rsplit_once(':').unwrap().1.parse().unwrap();
                    continue;
                }
                200 | 201 if response.json()["version"] == json!(versions[n] + 1) => versions[n] += 1,
                _ => wrong.push(format!("{path}: {} {}", response.status, response.text())),
            }
            changes += 1;
            break;
        }
    }
    (changes, wrong)
}

/// Prints a window, and checks that nobody has seen an error.
#[track_caller]
fn report(name: &str, mut window: Window) {
    let (p50, p99, most) = (window.quantile_ms(0.5), window.quantile_ms(0.99), window.quantile_ms(1.0));
    let least = window.by_second.iter().take(window.lasted.as_secs() as usize).min().copied();
    println!(
        "{name:<8} {:>7.0} writes/s, at least {:>6} in a second  p50 {p50:.1} ms  p99 {p99:.1} ms  max {most:.0} ms  {:>5} redirections  {:.1} s",
        window.rate(),
        least.unwrap_or_default(),
        window.redirections,
        window.lasted.as_secs_f64()
    );
    assert_eq!((&window.errors, &window.wrong), (&Default::default(), &Vec::new()), "{name}");
    assert_eq!(window.idle_seconds(), 0, "{name}: {:?}", window.by_second);
}

/// The number in the line `N slots were moved in`.
fn moved_slots(stdout: &str) -> usize {
    let line = stdout.lines().find(|line| line.contains(" slots were moved in "));
    line.unwrap_or_else(|| panic!("{stdout}")).split(' ').next().unwrap().parse().unwrap()
}

/// How many slots a node has.
pub(super) fn slots_of(nodes: &Nodes, id: &str) -> usize {
    let table = nodes.table();
    (0..16_384).filter(|slot| table.owner(*slot).is_some_and(|node| node.id.as_str() == id)).count()
}

/// A fourth node joins, and two leave.
fn join_and_leave(nodes: &mut Nodes, arguments: &[&str], writers: &mut Writers, names: &[String]) {
    std::thread::park_timeout(Duration::from_secs(1));
    let _ = writers.mark();
    std::thread::park_timeout(STILL);
    report("before", writers.mark());
    nodes.add_node_with(arguments);
    let (code, stdout, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{stderr}");
    print!("{stdout}");
    report("3 -> 4", writers.mark());
    // A quarter of the slots, and with them their keys and no others.
    assert_eq!((moved_slots(&stdout), slots_of(nodes, "d")), (4096, 4096));
    let table = nodes.table();
    let is_moved =
        |name: &&String| table.owner(slot(name.as_bytes())).is_some_and(|node| node.id.as_str() == "d");
    let moved = names.iter().filter(is_moved).count();
    // The last slots are opened a moment after the table has changed.
    until("the fourth node has its keys", || nodes.resp(3).ask("DBSIZE") == format!(":{moved}"));
    let fixed: Vec<&String> = names.iter().filter(|name| name.starts_with("static:")).collect();
    let share = fixed.iter().copied().filter(is_moved).count() as f64 / fixed.len() as f64;
    println!(
        "{moved} of {} keys moved to the fourth node; of those that are not written, {:.1} %",
        names.len(),
        share * 100.0
    );
    // Four standard deviations of a fair draw.
    let most = 4.0 * (0.25 * 0.75 / fixed.len() as f64).sqrt();
    assert!((share - 0.25).abs() < most, "{share} differs from a quarter by more than {most}");
    for name in ["a", "b"] {
        let own = slots_of(nodes, name);
        let (code, stdout, stderr) = nodes.cluster(&["remove", name]);
        assert_eq!(code, 0, "{stderr}");
        print!("{stdout}");
        assert_eq!(moved_slots(&stdout), own, "the slots of the node that leaves, and no others");
        let last = format!("node {name} has been removed: it may be stopped\n");
        assert!(stdout.ends_with(&last), "{stdout}");
    }
    report("4 -> 2", writers.mark());
    let status = nodes.cluster(&["status"]).1;
    assert!(!status.contains("  a ") && status.contains("d   8192 slots"), "{status}");
    std::thread::park_timeout(STILL);
    report("after", writers.mark());
}

/// A node has less in memory than half of its values.
fn check_evicted(nodes: &Nodes, at: usize, bytes: usize) {
    let stored = nodes.resp(at).ask("DBSIZE")[1..].parse::<usize>().unwrap() * bytes;
    let metrics = nodes.http(at).get("/metrics").text().to_owned();
    let used =
        metrics.lines().filter(|line| line.starts_with("keystead_") && line.contains("memory_used_bytes{"));
    let used: Vec<usize> = used.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
    println!("a node has {used:?} of {stored} bytes in memory");
    assert!(!used.is_empty() && 2 * used.iter().sum::<usize>() < stored, "{used:?} of {stored}");
}

/// How nodes join and leave.
#[derive(Clone, Copy, Default)]
struct Run {
    is_through_router: bool,
    /// How the nodes are started.
    arguments: &'static [&'static str],
    /// Of the values that nobody writes to.
    bytes: usize,
}

fn nodes_join_and_leave(Run { is_through_router, arguments, bytes }: Run) {
    let Some(mut nodes) = Nodes::start(arguments) else { return };
    let is_evicting = arguments.contains(&"--memory");
    // The names of many more would not fit into the least memory.
    let keys = if is_evicting { 2000 } else { from_env("KEYSTEAD_MOVE_KEYS", 2000) };
    let clients = from_env("KEYSTEAD_MOVE_CLIENTS", 2);
    fill(&nodes, keys, bytes);
    if is_evicting {
        (0..3).for_each(|at| check_evicted(&nodes, at, bytes));
    }
    let router = is_through_router.then(|| nodes.start_router());
    let (way, http) = match &router {
        Some(router) => (Way::Router(router.resp().unwrap().port()), router.http().unwrap().port()),
        None => (Way::Nodes(nodes.resp_ports()), nodes.ports[1]),
    };
    // In each pipeline, four writes to one slot follow one another.
    let options = Options { way, clients, keys: 200, pipeline: 64, per_slot: 4, swaps: true, pace: None };
    let of_clients = (0..clients).flat_map(|client| (0..200).map(move |n| (client, n)));
    let names: Vec<String> = (0..keys)
        .map(|n| format!("static:{n}"))
        .chain(KINDS.iter().map(|(key, ..)| (*key).to_owned()))
        .chain(["expires", "group"].map(str::to_owned))
        .chain(of_clients.map(|(client, n)| options.name(client, n)))
        .chain((0..DOCUMENTS).map(|n| format!("document:{n}")))
        .collect();
    let (mut writers, stop) = (Writers::start(options), AtomicBool::new(false));
    let (changes, wrong) = std::thread::scope(|scope| {
        let stop = &stop;
        let documents = scope.spawn(move || change_documents(http, !is_through_router, stop));
        let run = || join_and_leave(&mut nodes, arguments, &mut writers, &names);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        stop.store(true, Ordering::Relaxed);
        let documents = documents.join().unwrap();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        documents
    });
    writers.stop_and_check().unwrap();
    assert_eq!(wrong.iter().take(5).collect::<Vec<_>>(), [] as [&String; 0], "documents");
    println!("{changes} changes of documents with ifVersion, none lost or repeated");
    nodes.until_settled();
    let ports = nodes.resp_ports()[2..].to_vec();
    check(&nodes, keys, bytes, ports);
    assert_eq!(nodes.dbsize(), names.len());
}

#[test]
fn nodes_join_and_leave_while_clients_write() {
    nodes_join_and_leave(Run::default());
}

#[test]
fn nodes_join_and_leave_while_clients_write_through_a_router() {
    nodes_join_and_leave(Run { is_through_router: true, ..Run::default() });
}

/// Sources read values back from the disk, and targets evict what they stage.
#[test]
fn nodes_with_evicted_values_that_sync_every_write_join_and_leave() {
    let arguments = &["--durability", "fsync", "--memory", "2mb"];
    nodes_join_and_leave(Run { is_through_router: true, arguments, bytes: 8000 });
}
