//! Two servers with one id, also where both advertise the same address: the first one has the id, until an operator has released it.

use keystead_testkit::server::Launch;
use keystead_testkit::servers::free_ports;

use crate::{Nodes, addresses, common, node, url};

/// Another server that says that it is the first node, with a data directory of its own. It listens elsewhere, as on another machine.
fn second(nodes: &Nodes) -> Launch {
    let ports = free_ports(2).unwrap();
    let listens = [format!("127.0.0.1:{}", ports[0]), format!("127.0.0.1:{}", ports[1])];
    common::launch(&["--data", "data", "--resp", &listens[0], "--http", &listens[1]])
        .args(["--node-id", "a", "--advertise", &addresses(&nodes.ports[..2])])
        .env("KEYSTEAD_CLUSTER", url(&nodes.store))
}

#[track_caller]
fn refused(launch: Launch) {
    let error = launch.start().err().unwrap().to_string();
    assert!(error.contains("node 'a' of cluster 'test' is another server"), "{error}");
    assert!(error.contains("keystead cluster release a"), "{error}");
}

#[test]
fn a_second_server_with_the_id_and_address_of_a_node_is_refused() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let [mine, _] = nodes.keys_of(0);
    nodes.resp(0).expect(&[(&format!("SET {mine} 1"), "+OK")]);
    refused(second(&nodes));
    nodes.resp(0).expect(&[(&format!("GET {mine}"), "1")]);
    // Also when the first one is away, and after its restart, which needs no store.
    nodes.servers[0].kill().unwrap();
    refused(second(&nodes));
    nodes.store.kill();
    nodes.servers[0].restart().unwrap();
    nodes.resp(0).expect(&[(&format!("GET {mine}"), "1")]);
    nodes.store.restart();
    refused(second(&nodes));
}

#[test]
fn another_server_takes_over_what_an_operator_has_released() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let (code, _, stderr) = nodes.cluster(&["release", "a"]);
    assert!(code == 1 && stderr.contains("node a answers: stop it first"), "{code} {stderr}");
    let (code, _, stderr) = nodes.cluster(&["release", "x"]);
    assert!(code == 2 && stderr.contains("the cluster has no node 'x'"), "{code} {stderr}");
    nodes.servers[0].stop().unwrap();
    // A new data directory at the same place: its keys would be missing, and nobody would know.
    refused(node(&url(&nodes.store), "a", &nodes.ports[..2]));
    let (code, stdout, stderr) = nodes.cluster(&["release", "a"]);
    assert!(
        code == 0 && stdout.contains("the next server that is started as node a is that node"),
        "{stderr}"
    );
    let mut new = node(&url(&nodes.store), "a", &nodes.ports[..2]).start().unwrap();
    assert_eq!(nodes.cluster(&["status"]).0, 0);
    new.stop().unwrap();
    let error = nodes.servers[0].restart().unwrap_err().to_string();
    assert!(error.contains("node 'a' of cluster 'test' is another server"), "the old one: {error}");
}

#[test]
fn a_removed_node_leaves_its_id_to_others() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let joins = nodes.add_node();
    for _ in 0..2 {
        let (code, _, stderr) = nodes.cluster(&["rebalance"]);
        assert_eq!(code, 0, "{stderr}");
        let (code, _, stderr) = nodes.cluster(&["remove", "d"]);
        assert_eq!(code, 0, "{stderr}");
        let old = nodes.servers.pop().unwrap();
        drop(old);
        // A server that was not there before.
        let add = nodes.begin_cluster(&["add", &joins]);
        let ports = nodes.ports[6..8].to_vec();
        crate::resp::until("the node is in the table", || nodes.table().nodes().len() == 4);
        nodes.servers.push(node(&url(&nodes.store), "d", &ports).start().unwrap());
        assert!(add.wait_with_output().unwrap().status.success());
    }
}
