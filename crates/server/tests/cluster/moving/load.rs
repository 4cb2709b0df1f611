//! Nodes join and leave while clients write as fast as they can: no error, no lost or repeated write, and only the share of a node moves.
//! `KEYSTEAD_MOVE_KEYS` is how many keys there are besides those of the clients, `KEYSTEAD_MOVE_CLIENTS` how many clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_testkit::cluster_writers::{Options, Window, Writers};
use serde_json::json;

use super::client::Routed;
use crate::Nodes;
use crate::client::Http;

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

fn from_env(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn fill(nodes: &Nodes, keys: usize) {
    let mut routed = Routed::new(nodes.resp_ports());
    for n in 0..keys {
        let key = format!("static:{n}");
        routed.expect(&key, &format!("SET {key} {n}"), "+OK");
    }
    for (key, write, ..) in KINDS {
        let super::Reply::Text(reply) = routed.ask(key, write) else { panic!("{write}") };
        assert!(!reply.starts_with('-'), "{write}: {reply}");
    }
    routed.expect("expires", "SET expires v PXAT 99999999999999", "+OK");
    routed.expect("group", "XGROUP CREATE group g $ MKSTREAM", "+OK");
}

fn check(nodes: &Nodes, keys: usize, ports: Vec<u16>) {
    let mut routed = Routed::new(ports);
    for n in 0..keys {
        let key = format!("static:{n}");
        routed.expect(&key, &format!("GET {key}"), &n.to_string());
    }
    for (key, _, read, expected) in KINDS {
        routed.expect(key, read, expected);
    }
    routed.expect("expires", "PEXPIRETIME expires", ":99999999999999");
    routed.expect("group", "XGROUP CREATE group g $", "-BUSYGROUP Consumer Group name already exists");
    for gone in [0, 1] {
        nodes.resp(gone).expect(&[("DBSIZE", ":0"), ("SCAN 0", "[0 []]")]);
    }
}

/// Changes documents with `ifVersion` at the node that owns them, and follows 421. Returns how many changes there were, and what went wrong.
fn change_documents(ports: &[u16], stop: &AtomicBool) -> (u64, Vec<String>) {
    const DOCUMENTS: usize = 20;
    let (mut versions, mut ats, mut wrong, mut changes) =
        ([0u64; DOCUMENTS], [ports[0]; DOCUMENTS], Vec::new(), 0);
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
                421 => {
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
    println!(
        "{name:<12} {:>8.0} writes/s  p50 {p50:.1} ms  p99 {p99:.1} ms  max {most:.0} ms  {:>6} redirections  {:.1} s",
        window.rate(),
        window.redirections,
        window.lasted.as_secs_f64()
    );
    assert_eq!((window.errors, window.wrong), Default::default(), "{name}");
}

#[test]
fn nodes_join_and_leave_while_clients_write() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let (keys, clients) = (from_env("KEYSTEAD_MOVE_KEYS", 2000), from_env("KEYSTEAD_MOVE_CLIENTS", 2));
    fill(&nodes, keys);
    let ports = nodes.resp_ports();
    let options = Options { ports, clients, keys: 200, pipeline: 64, swaps: true };
    let (mut writers, stop) = (Writers::start(options), AtomicBool::new(false));
    let ((changes, wrong), moved) = std::thread::scope(|scope| {
        let https: Vec<u16> = nodes.ports.iter().skip(1).step_by(2).copied().collect();
        let stop = &stop;
        let documents = scope.spawn(move || change_documents(&https, stop));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            std::thread::park_timeout(Duration::from_secs(1));
            report("before", writers.mark());
            nodes.add_node();
            let (code, stdout, stderr) = nodes.cluster(&["rebalance"]);
            assert_eq!(code, 0, "{stderr}");
            print!("{stdout}");
            report("3 -> 4", writers.mark());
            // A quarter of the slots, from each of the others a third of that.
            assert!(stdout.contains("4096 slots were moved in "), "{stdout}");
            assert!(nodes.cluster(&["status"]).1.contains("d   4096 slots"));
            let size = |at: usize| nodes.resp(at).ask("DBSIZE")[1..].parse::<usize>().unwrap();
            let moved = size(3) as f64 / nodes.dbsize() as f64;
            for name in ["a", "b"] {
                let (code, stdout, stderr) = nodes.cluster(&["remove", name]);
                assert_eq!(code, 0, "{stderr}");
                print!("{stdout}");
                assert!(
                    stdout.ends_with(&format!("node {name} has been removed: it may be stopped\n")),
                    "{stdout}"
                );
            }
            report("4 -> 2", writers.mark());
            let status = nodes.cluster(&["status"]).1;
            assert!(!status.contains("  a ") && status.contains("d   8192 slots"), "{status}");
            std::thread::park_timeout(Duration::from_secs(1));
            report("after", writers.mark());
            moved
        }));
        stop.store(true, Ordering::Relaxed);
        (documents.join().unwrap(), ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let written = writers.stop_and_check().unwrap();
    assert_eq!(wrong.iter().take(5).collect::<Vec<_>>(), [] as [&String; 0], "documents");
    println!("{changes} changes of documents with ifVersion, none lost or repeated");
    println!("{:.1} % of the keys moved to the fourth node", moved * 100.0);
    assert!((0.15..0.35).contains(&moved), "about a quarter");
    nodes.until_settled();
    let ports = nodes.resp_ports()[2..].to_vec();
    check(&nodes, keys, ports);
    assert_eq!(nodes.dbsize(), keys + KINDS.len() + 2 + 20 + written);
}
