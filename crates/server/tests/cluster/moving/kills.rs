//! Source, target, router and operator killed with `kill -9` at random moments of moves: one owner, no orphan, every acknowledged write is there.
//! `KEYSTEAD_KILLS` is the number of rounds; the states of a move, one by one, are in `states`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_cluster::{Edit, NodeId};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use super::client::{May, Routed, check_counters, increment};
use super::load::slots_of;
use crate::Nodes;
use crate::resp::until;

const COUNTERS: usize = 40;

/// How often a kill may come too late, when nothing moved any more.
const LATE_MAX: usize = 10;

/// Who increments counters meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clients {
    /// Clients of the nodes.
    pub(super) of_nodes: usize,
    /// One more of the router at this port.
    pub(super) of_router: Option<u16>,
    pub(super) may: May,
    /// Keys that are there besides the counters.
    pub(super) other_keys: usize,
}

impl Clients {
    /// Two clients of the nodes, and one of this router.
    pub(super) fn with_router(router: &Server, may: May) -> Clients {
        Clients { of_nodes: 2, of_router: Some(router.resp().unwrap().port()), may, other_keys: 0 }
    }
}

/// Runs something while clients increment counters, and checks that all of them, and nothing else, are there afterwards.
pub(super) fn while_clients_increment(nodes: &mut Nodes, clients: Clients, run: impl FnOnce(&mut Nodes)) {
    let stop = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let of_nodes = (0..clients.of_nodes).map(|_| Routed::new(nodes.resp_ports()));
        let running: Vec<_> = of_nodes
            .chain(clients.of_router.map(Routed::of_router))
            .enumerate()
            .map(|(client, routed)| {
                let stop = &stop;
                scope.spawn(move || increment(routed, client, COUNTERS, clients.may, stop))
            })
            .collect();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(nodes)));
        stop.store(true, Ordering::Relaxed);
        let counted: Vec<_> = running.into_iter().map(|client| client.join().unwrap()).collect();
        if let Err(panic) = ended {
            // What clients saw may say why.
            counted.iter().for_each(|(_, wrong)| println!("{:?}", wrong.iter().take(3).collect::<Vec<_>>()));
            std::panic::resume_unwind(panic);
        }
        counted
    });
    let keys = check_counters(Routed::new(nodes.resp_ports()), &counted);
    assert_eq!(nodes.dbsize(), keys + clients.other_keys, "a key is on exactly one node");
    for (client, (counts, _)) in counted.iter().enumerate() {
        let writes: u64 = counts.iter().map(|count| count.acknowledged).sum();
        let by = if client < clients.of_nodes { "nodes" } else { "router" };
        println!("{writes} increments through the {by}, none lost or repeated");
        assert!(writes > 0, "the client of the {by} did nothing");
    }
}

#[test]
fn kills_at_any_moment_of_a_move_lose_nothing() {
    let rounds: usize = std::env::var("KEYSTEAD_KILLS").map_or(3, |text| text.parse().unwrap());
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    nodes.add_node();
    let mut router = nodes.start_router();
    while_clients_increment(&mut nodes, Clients::with_router(&router, May::SeeFaults), |nodes| {
        let mut late = 0;
        for round in 0..rounds {
            while !kill_in_a_move(nodes, &mut router, round, &mut random) {
                late += 1;
                assert!(late <= LATE_MAX + rounds, "{late} kills came when nothing moved any more");
            }
        }
        println!("{rounds} kills while slots moved, and {late} too late");
    });
}

/// Begins to move about a quarter of the slots to or from the last node, and returns when some are under way.
pub(super) fn begin_to_move(nodes: &Nodes, joins: bool, arguments: &[&str]) -> std::process::Child {
    let d = NodeId::new("d").unwrap();
    nodes.edit(if joins { Edit::Stay(d) } else { Edit::Leave(d) });
    let mut operator = nodes.begin_cluster(&[&["rebalance"], arguments].concat());
    until("slots move", || nodes.table().migrations().len() > 0 || operator.try_wait().unwrap().is_some());
    operator
}

/// Whether slots move from or to one of these nodes, or at all.
pub(super) fn is_moving(nodes: &Nodes, ends: &[usize]) -> bool {
    let ids = ["a", "b", "c", "d"];
    let is_end = |id: &NodeId| ends.is_empty() || ends.iter().any(|end| ids[*end] == id.as_str());
    nodes.table().migrations().any(|migration| is_end(&migration.from) || is_end(&migration.to))
}

/// Kills one of source, target, router and operator in a move, and brings the move to its end. Returns whether it was not over before.
fn kill_in_a_move(nodes: &mut Nodes, router: &mut Server, round: usize, random: &mut Rng) -> bool {
    // A round that was late has moved everything: this one moves it back.
    let joins = slots_of(nodes, "d") == 0;
    let mut operator = begin_to_move(nodes, joins, &[]);
    std::thread::park_timeout(Duration::from_millis(random.below(400)));
    // The last node is the target of the moves, or the source of all of them.
    let victims: &[usize] = match (round + random.below(2) as usize) % 6 {
        0 => &[],
        1 => &[1],
        2 => &[2],
        3 => &[3],
        4 => &[0, 3],
        _ => {
            router.kill().unwrap();
            &[]
        }
    };
    for victim in victims {
        nodes.servers[*victim].kill().unwrap();
    }
    if victims.is_empty() && router.is_running() {
        operator.kill().unwrap();
    }
    // Without its nodes or its operator, it cannot end now.
    let was_moving = is_moving(nodes, victims);
    if !router.is_running() {
        router.restart().unwrap();
    }
    victims.iter().rev().for_each(|victim| nodes.servers[*victim].restart().unwrap());
    operator.kill().unwrap();
    operator.wait().unwrap();
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "round {round}: {stderr}");
    nodes.until_settled();
    was_moving
}
