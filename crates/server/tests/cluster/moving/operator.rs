//! What an operator sees: sizes, rate, progress, errors; and an operator that is killed, after which nobody waits for it.

use std::time::Duration;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::client::{May, Reply, Routed};
use super::kills::{Clients, begin_to_move, while_clients_increment};
use super::load::slots_of;
use crate::resp::until;
use crate::{Nodes, key_of};

/// The least limit that a node accepts, and names that need more when all of a slot, or a quarter of all, come.
const LEAST_MEMORY: &str = "1mb";
const LONG_NAMES: usize = 300;

pub(super) fn fill(nodes: &Nodes, keys: usize, bytes: usize) {
    let (mut routed, value) = (Routed::new(nodes.resp_ports()), "v".repeat(bytes));
    for n in 0..keys {
        routed.expect(&format!("fill:{n}"), &format!("SET fill:{n} {value}"), "+OK");
    }
}

#[test]
fn a_dry_run_says_what_would_move_and_how_large_it_is() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    fill(&nodes, 300, 1000);
    nodes.add_node();
    let (code, stdout, stderr) = nodes.cluster(&["rebalance", "--dry-run"]);
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{stdout}");
    let keys: usize = lines
        .iter()
        .map(|line| {
            assert!(
                line.contains(" slots from ") && line.contains(" to d: ") && line.ends_with("kb"),
                "{line}"
            );
            line.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse::<usize>().unwrap()
        })
        .sum();
    let before = nodes.dbsize();
    let (code, stdout, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains(&format!("with {keys} keys (")), "{stdout}");
    let size: usize = nodes.resp(3).ask("DBSIZE").trim_start_matches(':').parse().unwrap();
    assert_eq!((size, nodes.dbsize()), (keys, before));
    let metrics = nodes.http(3).get("/metrics").text().to_owned();
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(value("keystead_cluster_moved_keys_total{direction=\"received\"}"), keys as f64);
    assert!(value("keystead_cluster_moved_bytes_total{direction=\"received\"}") > 1000.0 * keys as f64);
    assert!(value("keystead_cluster_moves_total{end=\"finished\"}") > 0.0);
    assert_eq!(value("keystead_cluster_moves_under_way{role=\"target\"}"), 0.0);
    assert_eq!(value("keystead_cluster_parked_requests"), 0.0);
}

#[test]
fn a_rate_slows_a_move_down_and_an_interrupted_one_is_continued() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    fill(&nodes, 400, 1000);
    nodes.add_node();
    for wrong in
        [&["rebalance", "--rate", "0b"][..], &["rebalance", "--rate", "64"], &["status", "--rate", "1mb"]]
    {
        let (code, _, stderr) = nodes.cluster(wrong);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
    }
    // About 100 keys of 1 kB move: at 10 kB/s that takes ten seconds.
    let mut slow = nodes.command(&["rebalance", "--rate", "10kb"]);
    let child =
        slow.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    until("something moves", || nodes.report(3)["received_keys"].as_u64().unwrap() > 0);
    let status = nodes.cluster(&["status"]).1;
    assert!(status.contains(" moves are under way\n") && status.contains(" slots from a to d, "), "{status}");
    std::thread::park_timeout(Duration::from_millis(700));
    let bytes = nodes.report(3)["received_bytes"].as_u64().unwrap();
    assert!(bytes < 60_000, "{bytes} bytes in a second at 10 kB/s");
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted: ") && said.contains("keystead cluster rebalance"), "{said}");
    let (code, stdout, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("slots are under way: "), "{stdout}");
    assert!(nodes.cluster(&["status"]).1.contains("d   4096 slots"));
    assert_eq!(nodes.dbsize(), 400);
}

#[test]
fn a_node_without_room_is_refused_before_anything_moves() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    // Values can be evicted, so long names are what needs memory. About a quarter of them would move.
    let (mut routed, long) = (Routed::new(nodes.resp_ports()), "n".repeat(30_000));
    for n in 0..LONG_NAMES {
        routed.expect(&format!("{n}:{long}"), &format!("SET {n}:{long} v"), "+OK");
    }
    nodes.add_node_with(&["--memory", LEAST_MEMORY]);
    let table = nodes.cluster(&["status"]).1;
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("nothing moves: node 'd' has ") && stderr.contains(" of memory left"),
        "{stderr}"
    );
    let epoch = |text: &str| text.lines().next().unwrap().to_owned();
    assert_eq!(epoch(&nodes.cluster(&["status"]).1), epoch(&table), "the table has not changed");
    // One that was begun all the same is refused by the node, and aborted.
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let (tag, mut first) = (key_of(slot), nodes.resp(0));
    for n in 0..LONG_NAMES {
        first.expect(&[(&format!("SET {{{tag}}}{n}:{long} v"), "+OK")]);
    }
    let id = nodes.begin_move(slot, "a", "d");
    until("the node has no memory left", || nodes.row(3, id)["refused"] == json!(true));
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("nothing moves: node 'd' has "), "{stderr}");
    nodes.until_settled();
    assert_eq!(
        (nodes.owner(slot), nodes.dbsize()),
        (0, 2 * LONG_NAMES),
        "aborted, and nothing is left there"
    );
}

#[test]
fn another_format_is_refused_with_the_reason() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let headers = ["keystead-cluster: test", "keystead-migration-format: 2"];
    let refused = nodes.http(0).ask("POST", "/admin/cluster/migrations/1/copy", &headers, b"{\"page\":0}");
    assert!(refused.status >= 400, "{}", refused.status);
    assert!(refused.text().contains("run the same version on both"), "{}", refused.text());
}

/// Names that are as long as they may be, and values larger than a message.
#[test]
fn long_names_and_large_values_move() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let tag = key_of(slot);
    let names: Vec<String> =
        (0..4).map(|n| format!("{{{tag}}}{}", format!("{n}\u{1}").repeat(15_000))).collect();
    let large = "v".repeat(9 << 20);
    let mut first = nodes.resp(0);
    for name in &names {
        assert_eq!(first.ask_words(&["SET", name, "v"]), "+OK");
    }
    assert_eq!(first.ask_words(&["SET", &format!("large{{{tag}}}"), &large]), "+OK");
    for n in 0..20 {
        first.expect(&[(
            &format!("RPUSH list{{{tag}}} {}", format!("{n} ").repeat(5000).trim_end()),
            &format!(":{}", (n + 1) * 5000),
        )]);
    }
    let id = nodes.begin_move(slot, "a", "b");
    until("the keys are copied", || nodes.row(1, id)["progress"]["Tailing"].is_object());
    nodes.hand_over(0, id);
    until("the target owns the slot", || nodes.owner(slot) == 1);
    nodes.until_settled();
    let mut owner = nodes.resp(1);
    for name in &names {
        assert_eq!(owner.ask_words(&["GET", name]), "v");
    }
    owner.expect(&[
        (&format!("STRLEN large{{{tag}}}"), &format!(":{}", 9 << 20)),
        (&format!("LLEN list{{{tag}}}"), ":100000"),
    ]);
    assert_eq!(nodes.dbsize(), names.len() + 2);
}

/// What could not be written is written later, and until then nobody acts on it.
#[test]
fn nothing_is_revealed_that_is_not_durable() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let key = key_of(slot);
    let id = nodes.begin_move(slot, "a", "b");
    until("the keys are copied", || nodes.row(1, id)["progress"]["Tailing"].is_object());
    let block = |at: usize| nodes.servers[at].dir().join("data/migrations.json.new");
    std::fs::create_dir(block(0)).unwrap();
    nodes.hand_over(0, id);
    until("the source cannot persist that it is frozen", || nodes.row(0, id)["phase"] == json!("waiting"));
    // The target asks all the time, and must not get to know of it.
    std::thread::park_timeout(Duration::from_millis(500));
    let progress = nodes.row(1, id)["progress"].clone();
    assert!(progress["Tailing"].is_object(), "{progress}");
    std::fs::create_dir(block(1)).unwrap();
    std::fs::remove_dir(block(0)).unwrap();
    until("the target cannot persist that it is ready", || {
        nodes.report(1)["migrations"][0]["progress"].is_null() && nodes.row(0, id)["phase"] == json!("frozen")
    });
    assert_eq!(nodes.owner(slot), 0, "the table has not changed");
    std::fs::remove_dir(block(1)).unwrap();
    let mut routed = Routed::new(nodes.resp_ports());
    until(
        "somebody serves the slot",
        || matches!(routed.ask(&key, &format!("SET {key} v")), Reply::Text(reply) if reply == "+OK"),
    );
}

/// An operator that is killed at any moment leaves no slot that nobody serves, and clients see no error.
#[test]
fn nobody_waits_for_an_operator_that_was_killed() {
    let rounds: usize = std::env::var("KEYSTEAD_KILLS").map_or(3, |text| text.parse().unwrap());
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    nodes.add_node();
    let router = nodes.start_router();
    while_clients_increment(&mut nodes, Clients::with_router(&router, May::SeeNoError), |nodes| {
        let (mut killed, mut late) = (0, 0);
        while killed < rounds {
            let joins = slots_of(nodes, "d") == 0;
            let mut operator = begin_to_move(nodes, joins, &[]);
            let phase = ["sealing", "frozen", "cleaning"][random.below(3) as usize];
            let is_in = |at: usize| {
                let report = nodes.report(at);
                report["migrations"].as_array().unwrap().iter().any(|row| row["phase"] == phase)
            };
            let mut was_in = false;
            until("a move is in that phase", || {
                was_in = (0..4).any(is_in);
                was_in || operator.try_wait().unwrap().is_some()
            });
            operator.kill().unwrap();
            operator.wait().unwrap();
            if was_in {
                killed += 1;
            } else {
                late += 1;
                assert!(late <= 10 * rounds, "no move was seen in the phase {phase}");
            }
            until("every slot is served", || {
                let is_served = |at: usize| {
                    let report = nodes.report(at);
                    let rows = report["migrations"].as_array().unwrap();
                    rows.iter().all(|row| {
                        !["sealing", "frozen", "waiting"].iter().any(|phase| row["phase"] == *phase)
                    })
                };
                (0..4).all(is_served)
            });
            let (code, _, stderr) = nodes.cluster(&["rebalance"]);
            assert_eq!(code, 0, "{phase}: {stderr}");
            nodes.until_settled();
        }
        println!("{killed} operators killed in a phase of a hand over, {late} too late");
    });
}
