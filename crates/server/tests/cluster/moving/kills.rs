//! Source, target and operator killed with `kill -9` at random moments of moves: one owner, no orphan, every acknowledged write is there.
//! `KEYSTEAD_KILLS` is the number of rounds; the states of a move, one by one, are in `states`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_cluster::Edit;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};

use super::client::{check_counters, increment};
use crate::Nodes;

const COUNTERS: usize = 40;

/// Runs something while clients increment counters, and checks that all of them, and nothing else, are there afterwards.
pub(super) fn while_clients_increment(nodes: &mut Nodes, clients: usize, run: impl FnOnce(&mut Nodes)) {
    let stop = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let ports = nodes.resp_ports();
        let clients: Vec<_> = (0..clients)
            .map(|client| {
                let (ports, stop) = (ports.clone(), &stop);
                scope.spawn(move || increment(ports, client, COUNTERS, stop))
            })
            .collect();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(nodes)));
        stop.store(true, Ordering::Relaxed);
        let counted: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
        counted
    });
    let keys = check_counters(nodes.resp_ports(), &counted);
    assert_eq!(nodes.dbsize(), keys, "a key is on exactly one node");
    let writes: u64 = counted.iter().flat_map(|(counts, _)| counts).map(|count| count.acknowledged).sum();
    println!("{writes} increments, none lost or repeated");
}

#[test]
fn kills_at_any_moment_of_a_move_lose_nothing() {
    let rounds: usize = std::env::var("KEYSTEAD_KILLS").map_or(3, |text| text.parse().unwrap());
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    nodes.add_node();
    while_clients_increment(&mut nodes, 2, |nodes| {
        (0..rounds).for_each(|round| kill_in_a_move(nodes, round, &mut random));
    });
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
            nodes.servers[victim as usize].kill().unwrap();
            nodes.servers[victim as usize].restart().unwrap();
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
    nodes.until_settled();
}
