//! A node joins and another leaves while clients write: no error, no lost or repeated write, and only the share of that node moves.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Reply, Routed};
use crate::Nodes;

/// Increments counters until it is stopped. Returns how often each was incremented, and what went wrong.
fn increment(ports: Vec<u16>, client: usize, stop: &AtomicBool) -> (Vec<u64>, Vec<String>) {
    const COUNTERS: usize = 50;
    let (mut routed, mut counts, mut wrong) = (Routed::new(ports), vec![0; COUNTERS], Vec::new());
    for n in (0..COUNTERS).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("counter:{client}:{n}");
        match routed.ask(&key, &format!("INCR {key}")) {
            Reply::Text(reply) if reply == format!(":{}", counts[n] + 1) => counts[n] += 1,
            Reply::Text(reply) => wrong.push(format!("{key}: {reply} after {}", counts[n])),
            Reply::Unknown => wrong.push(format!("{key}: the connection was lost")),
        }
    }
    (counts, wrong)
}

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

#[test]
fn a_node_joins_and_another_leaves_while_clients_write() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let mut routed = Routed::new(nodes.resp_ports());
    for n in 0..2000 {
        let key = format!("static:{n}");
        routed.expect(&key, &format!("SET {key} {n}"), "+OK");
    }
    for (key, write, ..) in KINDS {
        assert!(matches!(routed.ask(key, write), Reply::Text(reply) if !reply.starts_with('-')), "{write}");
    }
    routed.expect("expires", "SET expires v PXAT 99999999999999", "+OK");
    routed.expect("group", "XGROUP CREATE group g $ MKSTREAM", "+OK");
    let stop = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let ports = nodes.resp_ports();
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (ports, stop) = (ports.clone(), &stop);
                scope.spawn(move || increment(ports, client, stop))
            })
            .collect();
        nodes.add_node();
        let (code, stdout, stderr) = nodes.cluster(&["rebalance"]);
        assert_eq!(code, 0, "{stderr}");
        // A quarter of the slots, from each of the others a third of that.
        assert!(stdout.contains("4096 slots were moved in "), "{stdout}");
        assert!(nodes.cluster(&["status"]).1.contains("d   4096 slots"));
        let (code, stdout, stderr) = nodes.cluster(&["remove", "a"]);
        assert_eq!(code, 0, "{stderr}");
        assert!(stdout.ends_with("node a has been removed: it may be stopped\n"), "{stdout}");
        let status = nodes.cluster(&["status"]).1;
        assert!(!status.contains("  a ") && status.contains("d   5461 slots"), "{status}");
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let mut routed = Routed::new(nodes.resp_ports()[1..].to_vec());
    for (client, (counts, wrong)) in counted.iter().enumerate() {
        assert_eq!(wrong, &[] as &[String]);
        for (n, count) in counts.iter().enumerate() {
            let key = format!("counter:{client}:{n}");
            let expected = if *count == 0 { "$-1".to_owned() } else { count.to_string() };
            routed.expect(&key, &format!("GET {key}"), &expected);
        }
    }
    for n in 0..2000 {
        let key = format!("static:{n}");
        routed.expect(&key, &format!("GET {key}"), &n.to_string());
    }
    for (key, _, read, expected) in KINDS {
        routed.expect(key, read, expected);
    }
    routed.expect("expires", "PEXPIRETIME expires", ":99999999999999");
    routed.expect("group", "XGROUP CREATE group g $", "-BUSYGROUP Consumer Group name already exists");
    nodes.resp(0).expect(&[("DBSIZE", ":0"), ("SCAN 0", "[0 []]")]);
    let incremented = counted.iter().flat_map(|(counts, _)| counts).filter(|count| **count > 0).count();
    assert_eq!(nodes.dbsize(), 2000 + KINDS.len() + 2 + incremented);
}
