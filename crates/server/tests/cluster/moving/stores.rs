//! A cluster whose slot table is in each of the stores that the guide names: it is created and shown, a node joins and gets its share while the
//! nodes follow the table, and a removed one leaves.

use keystead_testkit::servers::free_ports;

use super::client::Routed;
use crate::common::run_in;
use crate::others::{DYNAMODB, ETCD, NATS, OtherKind, POSTGRES};
use crate::resp::until;
use crate::{IDS, addresses, common, init, node};

const KEYS: usize = 200;

fn serves(kind: OtherKind) {
    let Some(store) = kind.start() else { return };
    let (url, ports) = (store.url_with("deadline=5s"), free_ports(8).unwrap());
    let dir = common::dir();
    let operate = |arguments: &[&str]| {
        let arguments: Vec<&str> = std::iter::once("cluster").chain(arguments.iter().copied()).collect();
        let (code, stdout, stderr) = run_in(dir.path(), &arguments, &[("KEYSTEAD_CLUSTER", url.as_str())]);
        assert_eq!(code, 0, "{arguments:?}: {stdout}{stderr}");
        stdout
    };
    let (code, stdout, stderr) = init(&url, &ports[..6], &["--name", "test"]);
    assert!(code == 0 && stdout.starts_with("cluster test has 3 nodes:\n"), "{stdout}{stderr}");
    let again = init(&url, &ports[..6], &[]);
    assert!(again.0 == 1 && again.2.contains("there is a slot table already, of epoch 1"), "{again:?}");
    let start = |(id, ports): (&&str, &[u16])| node(&url, id, ports).start().unwrap();
    let mut servers: Vec<_> = IDS.iter().zip(ports.chunks(2)).map(start).collect();
    let shown = operate(&["status"]);
    assert!(shown.starts_with("cluster test, epoch 1\n"), "{shown}");
    assert_eq!(shown.matches(" answers").count(), 3, "{shown}");
    let resp_ports: Vec<u16> = ports.iter().step_by(2).copied().collect();
    let mut routed = Routed::new(resp_ports[..3].to_vec());
    for n in 0..KEYS {
        routed.expect(&format!("key:{n}"), &format!("SET key:{n} {n}"), "+OK");
    }
    let joins = format!("d={}", addresses(&ports[6..]));
    std::thread::scope(|scope| {
        let add = scope.spawn(|| operate(&["add", &joins]));
        until("the new node is in the table", || operate_status(dir.path(), &url).contains("\n  d "));
        servers.push(start((&"d", &ports[6..])));
        add.join().unwrap();
    });
    let shares = operate(&["status"]).lines().filter(|line| line.contains("  4096 slots")).count();
    assert_eq!(shares, 4);
    let left = operate(&["remove", "a"]);
    assert!(left.contains("node a has been removed"), "{left}");
    servers[0].stop().unwrap();
    let mut routed = Routed::new(resp_ports[1..].to_vec());
    for n in 0..KEYS {
        routed.expect(&format!("key:{n}"), &format!("GET key:{n}"), &n.to_string());
    }
    let shown = operate(&["status"]);
    assert!(!shown.contains("\n  a ") && !shown.contains("under way"), "{shown}");
}

/// What is shown while a node of the table may not be there yet.
fn operate_status(dir: &std::path::Path, url: &str) -> String {
    run_in(dir, &["cluster", "status"], &[("KEYSTEAD_CLUSTER", url)]).1
}

#[test]
fn postgresql_may_have_the_table() {
    serves(POSTGRES);
}

#[test]
fn dynamodb_may_have_the_table() {
    serves(DYNAMODB);
}

#[test]
fn nats_may_have_the_table() {
    serves(NATS);
}

#[test]
fn etcd_may_have_the_table_of_a_cluster_that_changes() {
    serves(ETCD);
}
