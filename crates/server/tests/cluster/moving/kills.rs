//! Source, target and operator killed with `kill -9` at random moments of moves: one owner, no orphan, every acknowledged write is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_cluster::Edit;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};

use super::{Reply, Routed};
use crate::Nodes;
use crate::resp::until;

const COUNTERS: usize = 40;

/// How often each counter was incremented: acknowledged, and beyond that of unknown outcome.
#[derive(Clone, Copy, Default)]
struct Count {
    acknowledged: u64,
    unknown: u64,
}

fn increment(ports: Vec<u16>, client: usize, stop: &AtomicBool) -> (Vec<Count>, Vec<String>) {
    let (mut routed, mut counts) = (Routed::new(ports), vec![Count::default(); COUNTERS]);
    let mut wrong = Vec::new();
    for n in (0..COUNTERS).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, count) = (format!("counter:{client}:{n}"), &mut counts[n]);
        match routed.ask(&key, &format!("INCR {key}")) {
            Reply::Unknown => count.unknown += 1,
            Reply::Text(reply) => match reply.strip_prefix(':').and_then(|value| value.parse::<u64>().ok()) {
                Some(value) => {
                    let (least, most) = (count.acknowledged + 1, count.acknowledged + 1 + count.unknown);
                    if !(least..=most).contains(&value) {
                        wrong.push(format!("{key}: {value} is not from {least} to {most}"));
                    }
                    (count.unknown, count.acknowledged) = (most.saturating_sub(value), value);
                }
                // A node that was killed, or a hand over that takes long: not applied.
                None if reply.starts_with("-TRYAGAIN") || reply.starts_with("-LOADING") => {}
                None => wrong.push(format!("{key}: {reply}")),
            },
        }
    }
    (counts, wrong)
}

#[test]
fn kills_at_any_moment_of_a_move_lose_nothing() {
    let rounds: usize = std::env::var("KEYSTEAD_KILLS").map_or(4, |text| text.parse().unwrap());
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    nodes.add_node();
    let stop = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let ports = nodes.resp_ports();
        let clients: Vec<_> = (0..2)
            .map(|client| {
                let (ports, stop) = (ports.clone(), &stop);
                scope.spawn(move || increment(ports, client, stop))
            })
            .collect();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..rounds {
                kill_in_a_move(&mut nodes, round, &mut random);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        let counted: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        ended.unwrap();
        counted
    });
    let mut routed = Routed::new(nodes.resp_ports());
    let mut keys = 0;
    for (client, (counts, wrong)) in counted.iter().enumerate() {
        assert_eq!(wrong, &[] as &[String]);
        for (n, count) in counts.iter().enumerate() {
            let key = format!("counter:{client}:{n}");
            let Reply::Text(reply) = routed.ask(&key, &format!("GET {key}")) else { panic!("{key}: lost") };
            let value: u64 = reply.parse().unwrap_or(0);
            keys += usize::from(value > 0);
            let possible = count.acknowledged..=count.acknowledged + count.unknown;
            assert!(possible.contains(&value), "{key}: {reply} is not in {possible:?}");
        }
    }
    assert_eq!(nodes.dbsize(), keys, "a key is on exactly one node");
}

/// Moves about a quarter of the slots to or from the last node, kills one of source, target and operator meanwhile, and brings the move
/// to its end.
fn kill_in_a_move(nodes: &mut Nodes, round: usize, random: &mut Rng) {
    let d = keystead_cluster::NodeId::new("d").unwrap();
    nodes.edit(if round % 2 == 1 { Edit::Leave(d) } else { Edit::Stay(d) });
    let mut operator = nodes.begin_cluster(&["rebalance"]);
    std::thread::park_timeout(Duration::from_millis(random.below(1200)));
    match random.below(5) {
        0 => {}
        // The last node is the target of every second round, and the source of the others.
        victim @ 1..4 => {
            let victim = if victim == 3 { 3 } else { victim as usize };
            nodes.servers[victim].kill().unwrap();
            nodes.servers[victim].restart().unwrap();
        }
        _ => {
            nodes.servers[0].kill().unwrap();
            nodes.servers[3].kill().unwrap();
            nodes.servers[3].restart().unwrap();
            nodes.servers[0].restart().unwrap();
        }
    }
    operator.kill().unwrap();
    operator.wait().unwrap();
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "round {round}: {stderr}");
    until("all nodes have cleaned up", || {
        (0..4).all(|node| nodes.report(node)["migrations"].as_array().unwrap().is_empty())
    });
}
