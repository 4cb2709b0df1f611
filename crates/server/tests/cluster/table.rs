//! The slot table: its store away, tables that must not be followed, nodes that must not start, and the command line.

use keystead_core::{Change, Key, StoreExt, Ttl, step_fn};
use keystead_testkit::servers::free_ports;
use rustix::fs::Mode;
use serde_json::Value;

use crate::others::{ETCD, Other, OtherKind, REDIS};
use crate::resp::until;
use crate::{IDS, Nodes, addresses, common, init, node, url};

/// Changes the record in the store, past all checks.
pub(crate) fn rewrite(store: &Other, change: impl Fn(&mut Value) + Clone + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = keystead_stores::open(&url(store)).unwrap();
        let key = Key::new("keystead:cluster").unwrap();
        let step = step_fn(move |state: Option<&Value>, _| {
            let mut table = state.cloned().unwrap();
            change(&mut table);
            Change::Put(table, Ttl::Never, ())
        });
        store.apply(&key, &step).await.unwrap();
        store.close().await.unwrap();
    });
}

/// The reasons that a node gives for not being well.
fn reasons(nodes: &Nodes, at: usize) -> String {
    let health = nodes.http(at).get("/healthz");
    assert_eq!(health.status, 200);
    health.json()["reasons"].to_string()
}

#[test]
fn without_the_store_nodes_go_on_and_restart_from_their_copy() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let [mine, _] = nodes.keys_of(1);
    nodes.resp(1).expect(&[(&format!("SET {mine} before"), "+OK")]);
    assert_eq!(reasons(&nodes, 1), "null");
    nodes.store.kill();
    until("the store is found to be away", || reasons(&nodes, 1).contains("the slot table cannot be read"));
    nodes.resp(1).expect(&[(&format!("GET {mine}"), "before"), (&format!("SET {mine} during"), "+OK")]);
    nodes.servers[1].kill().unwrap();
    nodes.servers[1].restart().unwrap();
    nodes.resp(1).expect(&[
        (&format!("GET {mine}"), "during"),
        ("CLUSTER INFO x", "-ERR wrong number of arguments for 'cluster|info' command"),
    ]);
    assert!(nodes.resp(0).ask(&format!("GET {mine}")).starts_with("-MOVED"));
    assert!(reasons(&nodes, 1).contains("cluster: the slot table cannot be read"));
    let copy = nodes.servers[1].dir().join("data/cluster.json");
    let mode = rustix::fs::stat(&copy).unwrap().st_mode;
    assert_eq!(Mode::from_raw_mode(mode) & Mode::from_raw_mode(0o777), Mode::RUSR | Mode::WUSR);
    nodes.store.restart();
    until("the store is back", || reasons(&nodes, 1) == "null");
}

/// A cluster of one machine needs no server for its table.
#[test]
fn nodes_of_one_machine_keep_their_table_in_a_file() {
    let dir = common::dir();
    let url = format!("sqlite-file:{}", dir.path().join("table.db").display());
    let ports = free_ports(8).unwrap();
    let (code, _, stderr) = init(&url, &ports[..6], &["--name", "test"]);
    assert_eq!(code, 0, "{stderr}");
    let start = |(id, ports): (&&str, &[u16])| node(&url, id, ports).start().unwrap();
    let mut servers: Vec<_> = IDS.iter().zip(ports.chunks(2)).map(start).collect();
    let operate = |arguments: &[&str]| {
        let arguments: Vec<&str> = std::iter::once("cluster").chain(arguments.iter().copied()).collect();
        common::run_in(dir.path(), &arguments, &[("KEYSTEAD_CLUSTER", url.as_str())])
    };
    // It joins while the others read the file, and write it when slots have moved.
    let joins = format!("d={}", addresses(&ports[6..]));
    std::thread::scope(|scope| {
        let add = scope.spawn(|| operate(&["add", &joins]));
        // Until it answers, status says so by its exit code.
        until("the new node is in the table", || operate(&["status"]).1.contains("\n  d "));
        servers.push(start((&"d", &ports[6..])));
        let (code, _, stderr) = add.join().unwrap();
        assert_eq!(code, 0, "{stderr}");
    });
    let (code, status, stderr) = operate(&["status"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(status.lines().filter(|line| line.contains("4096 slots")).count(), 4, "{status}");
}

#[test]
fn a_lost_table_is_created_again_by_the_same_init() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let [mine, _] = nodes.keys_of(0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = keystead_stores::open(&url(&nodes.store)).unwrap();
        assert!(store.reset(&Key::new("keystead:cluster").unwrap()).await.unwrap());
        store.close().await.unwrap();
    });
    until("the loss is reported", || reasons(&nodes, 0).contains("no slot table any more"));
    nodes.resp(0).expect(&[(&format!("SET {mine} 1"), "+OK")]);
    assert_eq!(init(&url(&nodes.store), &nodes.ports, &["--name", "test"]).0, 0);
    until("the table is back", || reasons(&nodes, 0) == "null");
}

#[test]
fn a_later_table_is_followed_and_others_are_not() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let epoch = |nodes: &Nodes| nodes.resp(0).ask("CLUSTER INFO").contains("my_epoch:7");
    rewrite(&nodes.store, |table| table["epoch"] = 7.into());
    until("the table is followed", || epoch(&nodes));
    for (what, change, words) in [
        (
            "older",
            (|table| table["epoch"] = 6.into()) as fn(&mut Value),
            "epoch 6, and epoch 7 was seen before",
        ),
        ("another cluster", |table| table["cluster"] = "other".into(), "cluster 'other'"),
        ("another format", |table| table["format"] = 2.into(), "format 2, this version reads 1"),
        ("same epoch", |table| table["begun"] = 5.into(), "two slot tables of epoch 7"),
    ] {
        rewrite(&nodes.store, change);
        until(what, || reasons(&nodes, 0).contains(words));
        assert!(epoch(&nodes), "{what}");
        // It does not start with it either.
        nodes.servers[0].stop().unwrap();
        let failed = nodes.servers[0].restart().unwrap_err().to_string();
        assert!(failed.contains(words), "{what}: {failed}");
        rewrite(&nodes.store, |table| {
            table["epoch"] = 7.into();
            table["cluster"] = "test".into();
            table["format"] = 1.into();
            table["begun"] = 0.into();
        });
        nodes.servers[0].restart().unwrap();
        assert!(epoch(&nodes), "{what}");
    }
}

#[test]
fn a_node_whose_address_changes_in_the_table_serves_no_more() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let [mine, _] = nodes.keys_of(1);
    rewrite(&nodes.store, |table| {
        table["epoch"] = 2.into();
        table["nodes"][1]["resp"] = "redis://127.0.0.1:1".into();
    });
    until("the table says that another server is the node", || {
        nodes.resp(1).ask(&format!("GET {mine}")).ends_with(" 127.0.0.1:1")
    });
    until("the reason is reported", || reasons(&nodes, 1).contains("another server has this id"));
}

#[test]
fn a_node_that_does_not_belong_is_refused_with_the_reason() {
    let Some(store) = REDIS.start() else { return };
    let ports = free_ports(6).unwrap();
    let rejected = |id: &str, ports: &[u16], more: &[&str]| {
        let started = node(&url(&store), id, ports).args(more.iter().copied()).start();
        started.err().unwrap().to_string()
    };
    assert!(rejected("a", &ports, &[]).contains("there is no slot table yet: run `keystead cluster init`"));
    assert_eq!(init(&url(&store), &ports, &["--name", "shop"]).0, 0);
    for (id, at, more, words) in [
        ("x", 0, &[][..], "cluster 'shop' has no node 'x': its nodes are a, b, c"),
        ("a", 2, &[], "another server has this id, or an address is wrong"),
        ("a", 0, &["--upstream", "redis://h"], "--cluster and --upstream are both set"),
    ] {
        let failed = rejected(id, &ports[at..], more);
        assert!(failed.contains(words), "{failed}");
    }
    let run = |arguments: &[&str], url: &str| {
        let ended = common::run_in(common::dir().path(), arguments, &[("KEYSTEAD_CLUSTER", url)]);
        common::only_line(2, &ended)
    };
    let all = ["--node-id", "a", "--advertise", "redis://h:1,http://h:2"];
    let memory = [&all[..], &["--durability", "memory"]].concat();
    assert!(run(&memory, &url(&store)).contains("durability memory has none"));
    assert!(run(&all[..2], &url(&store)).contains("--advertise is not"));
    assert!(run(&all[2..], &url(&store)).contains("--node-id is not"));
    for local in ["memory:", "sqlite:table"] {
        assert!(run(&all, local).contains("only one process can use it at a time"), "{local}");
    }
    let unknown = common::run(&all);
    assert!(common::only_line(2, &unknown).contains("name the cluster with --cluster"));
    // Passwords are not shown.
    let shown =
        common::run_in(common::dir().path(), &["config"], &[("KEYSTEAD_CLUSTER", "redis://:hunter2@h")]);
    assert!(
        shown.0 == 0
            && shown.1.lines().any(|line| line.split_whitespace().take(2).eq(["cluster", "(set)"]))
            && !shown.1.contains("hunter2"),
        "{}",
        shown.1
    );
}

#[test]
fn the_command_line_creates_and_shows_a_table() {
    creates_and_shows(REDIS);
}

#[test]
fn etcd_may_have_the_table() {
    creates_and_shows(ETCD);
}

fn creates_and_shows(kind: OtherKind) {
    let Some(store) = kind.start() else { return };
    let ports = free_ports(6).unwrap();
    let run = |arguments: &[&str]| {
        common::run_in(common::dir().path(), arguments, &[("KEYSTEAD_CLUSTER", &url(&store))])
    };
    let missing = run(&["cluster", "status"]);
    assert!(missing.0 != 0 && missing.2.contains("keystead cluster init"), "{missing:?}");
    assert!(common::only_line(2, &run(&["cluster", "init"])).contains("--node is missing"));
    assert!(common::only_line(2, &run(&["cluster", "dance"])).contains("unknown action 'dance'"));
    let one = format!("a={}", addresses(&ports));
    let twice = run(&["cluster", "init", "--node", &one, "--node", &one]);
    assert!(common::only_line(2, &twice).contains("there are two nodes with the id 'a'"));
    let (code, stdout, _) = init(&url(&store), &ports, &["--name", "shop"]);
    assert!(code == 0 && stdout.starts_with("cluster shop has 3 nodes:\n"), "{stdout}");
    assert!(common::only_line(1, &init(&url(&store), &ports, &[])).contains("there is a slot table already"));
    let _first = node(&url(&store), "a", &ports).start().unwrap();
    let (code, stdout, _) = run(&["cluster", "status"]);
    assert_eq!(code, 1, "two nodes do not answer");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], "cluster shop, epoch 1");
    for ((line, id), answer) in
        lines[1..].iter().zip(IDS).zip([" answers, 0 redirects", "does not answer", "does not answer"])
    {
        assert!(line.starts_with(&format!("  {id}   546")) && line.ends_with(answer), "{line}");
    }
    let _others: Vec<_> =
        (1..3).map(|n| node(&url(&store), IDS[n], &ports[2 * n..]).start().unwrap()).collect();
    assert_eq!(run(&["cluster", "status"]).0, 0);
}
