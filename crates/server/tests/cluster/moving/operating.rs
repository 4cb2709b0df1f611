//! What an operator sees besides moves: what routers have proxied, shares by weight, and a disk without room.

use std::process::Command;

use keystead_cluster::{Edit, Node, NodeId};
use keystead_testkit::servers::free_ports;
use keystead_testkit::skip::skipped;

use crate::resp::{Client, until};
use crate::{Nodes, addresses, common, url};

#[test]
fn the_status_shows_what_routers_have_proxied() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let router = common::launch(&["router"]).env("KEYSTEAD_CLUSTER", url(&nodes.store)).start().unwrap();
    let mut client = Client::connect(&router);
    for n in 0..30 {
        client.expect(&[(&format!("SET k{n} v"), "+OK")]);
    }
    let at = router.url("");
    // Redis commands are counted every second.
    until("all requests are counted", || {
        let (code, stdout, stderr) = nodes.cluster(&["status", "--router", &at]);
        assert_eq!(code, 0, "{stdout}{stderr}");
        let line = stdout.lines().find(|line| line.contains("  router ")).unwrap();
        assert!(line.starts_with(&format!("  router {at}  epoch 1, ")), "{line}");
        let count = |node: &str| -> u64 {
            let counts = line.split(['(', ')', ',']).map(str::trim);
            counts
                .filter_map(|text| text.strip_prefix(node)?.strip_prefix(' ')?.parse().ok())
                .next()
                .unwrap_or(0)
        };
        ["a", "b", "c"].iter().all(|node| count(node) > 0) && count("a") + count("b") + count("c") >= 30
    });
    let nowhere = format!("http://127.0.0.1:{}", free_ports(1).unwrap()[0]);
    let (code, stdout, _) = nodes.cluster(&["status", "--router", &nowhere]);
    assert_eq!(code, 1);
    assert!(stdout.contains(&format!("  router {nowhere}  does not answer\n")), "{stdout}");
    for wrong in [&["status", "--router", "nonsense"][..], &["rebalance", "--router", &at]] {
        let (code, _, stderr) = nodes.cluster(wrong);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
    }
}

#[test]
fn a_node_gets_its_share_by_its_weight() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let joins = nodes.add_node();
    for (weight, slots) in [("3", 8192), ("1", 4096)] {
        let (code, stdout, _) = nodes.cluster(&["add", &joins, "--weight", weight, "--dry-run"]);
        assert_eq!(code, 0, "{stdout}");
        let (code, stdout, stderr) = nodes.cluster(&["add", &joins, "--weight", weight]);
        assert_eq!(code, 0, "{stdout}{stderr}");
        let shown = nodes.cluster(&["status"]).1;
        assert!(shown.contains(&format!("\n  d   {slots} slots")), "{shown}");
    }
    for wrong in [&["add", &joins, "--weight", "0"][..], &["rebalance", "--weight", "2"]] {
        let (code, _, stderr) = nodes.cluster(wrong);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
    }
}

/// A small file system, until it is dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(bytes: &str) -> Result<Mounted, String> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={bytes},mode=0700");
        let mut command = Command::new("mount");
        let command = command.args(["-t", "tmpfs", "-o", &options, "keystead-test"]).arg(dir.path());
        match command.output() {
            Ok(output) if output.status.success() => Ok(Mounted(dir)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The server may take a moment to close its files.
        until("the file system is unmounted", || {
            Command::new("umount").arg(self.0.path()).status().is_ok_and(|status| status.success())
        });
    }
}

#[test]
fn a_node_whose_disk_is_too_small_is_refused_before_anything_moves() {
    let mounted = match Mounted::new("24m") {
        Ok(mounted) => mounted,
        Err(why) => return skipped("tmpfs", &format!("a file system cannot be mounted: {why}")),
    };
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let value = "v".repeat(1 << 20);
    let mut routed = super::client::Routed::new(nodes.resp_ports());
    for n in 0..80 {
        routed.expect(&format!("fill:{n}"), &format!("SET fill:{n} {value}"), "+OK");
    }
    let data = mounted.0.path().join("data");
    let ports = free_ports(2).unwrap();
    let (resp, http) = (format!("127.0.0.1:{}", ports[0]), format!("127.0.0.1:{}", ports[1]));
    let d = Node::new(NodeId::new("d").unwrap(), format!("redis://{resp}"), format!("http://{http}"));
    nodes.edit(Edit::Add(d));
    let launch = common::launch(&["--data", data.to_str().unwrap(), "--resp", &resp, "--http", &http])
        .args(["--node-id", "d", "--advertise", &addresses(&ports)])
        .env("KEYSTEAD_CLUSTER", url(&nodes.store));
    nodes.servers.push(launch.start().unwrap());
    let before = nodes.table();
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("nothing moves: node 'd' has ") && stderr.contains(" of disk left, and would get "),
        "{stderr}"
    );
    assert_eq!((nodes.table(), nodes.dbsize()), (before, 80), "nothing has changed");
    // Unmounting needs the server to have ended.
    nodes.servers.pop().unwrap().stop().unwrap();
    drop(nodes);
    drop(mounted);
}

/// Without a limit of its own, a node has what the machine and its control group have.
#[test]
fn a_node_without_a_limit_says_how_much_memory_the_machine_has() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let sizes = nodes.http(0).ask("GET", "/admin/cluster/sizes", &["keystead-cluster: test"], b"").json();
    assert_eq!(sizes["evicts"], false, "{sizes}");
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")).unwrap();
    let free = sizes["memory_free"].as_u64().unwrap();
    assert!((1..=total.parse::<u64>().unwrap() * 1024).contains(&free), "{free} of {total} kB");
}
