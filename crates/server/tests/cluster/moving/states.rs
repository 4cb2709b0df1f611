//! Source, target, both, router and operator killed with `kill -9` in every state of a move, each held until it was seen: one owner, no orphan,
//! every acknowledged write is there. Every state has one of the victims in a run; with `KEYSTEAD_KILLS`, all of them for each 20.

use keystead_cluster::MigrationId;
use keystead_core::key::slot;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use super::client::{May, counter};
use super::kills::{Clients, while_clients_increment};
use super::scene::{STATES, Scene, State, VICTIMS, Victim};
use crate::resp::until;
use crate::{IDS, Nodes, key_of};

/// Keys of the slot whose digest takes a while, and whose deletion does.
const HEAVY: usize = 8000;

/// How often a state that cannot be held may be over before the kill.
const LATE_MAX: usize = 5;

/// The slots of a node that clients write to, with other keys in them.
fn busy_slots(nodes: &Nodes, owner: usize) -> Vec<u16> {
    let slots = (0..3).flat_map(|client| (0..40).map(move |n| slot(counter(client, n).as_bytes())));
    let table = nodes.table();
    let is_own = |slot: &u16| table.owner(*slot).is_some_and(|node| node.id.as_str() == IDS[owner]);
    let mut slots: Vec<u16> = slots.filter(is_own).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Exactly one node accepts a slot, and the others name that one, those that took no part as soon as they have read the table.
fn check_owners(nodes: &Nodes, slots: &[u16]) {
    for slot in slots {
        let get = format!("GET {}", key_of(*slot));
        until(&format!("all nodes name the owner of slot {slot}"), || {
            let replies: Vec<String> = (0..nodes.servers.len()).map(|at| nodes.resp(at).ask(&get)).collect();
            let owners: Vec<usize> = (0..replies.len()).filter(|at| !replies[*at].starts_with("-")).collect();
            let rejections = replies.iter().filter(|reply| reply.starts_with("-MOVED ")).count();
            assert_eq!((owners.len(), rejections), (1, replies.len() - 1), "slot {slot}: {replies:?}");
            let moved = format!("-MOVED {slot} 127.0.0.1:{}", nodes.resp_ports()[owners[0]]);
            replies.iter().filter(|reply| **reply == moved).count() == rejections
        });
    }
}

/// Keys in one slot that nobody writes to. Returns the slot.
fn fill_heavy(nodes: &Nodes) -> u16 {
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let (tag, mut owner) = (key_of(slot), nodes.resp(0));
    for chunk in (0..HEAVY).collect::<Vec<_>>().chunks(1000) {
        let lines: Vec<String> = chunk.iter().map(|n| format!("SET {n}{{{tag}}} {n}")).collect();
        let replies = owner.ask_all(lines.iter().map(String::as_str));
        assert!(replies.iter().all(|reply| reply == "+OK"));
    }
    slot
}

/// Moves slots, kills in a state, and brings the move to its end. Returns whether the kill was in that state.
fn kill_in(
    nodes: &mut Nodes,
    router: &mut Server,
    (state, victim): (State, Victim),
    heavy: u16,
    random: &mut Rng,
) -> bool {
    // Two states are as long as there are keys to read, or to delete.
    let needs_heavy = matches!(state, State::Comparing | State::Cleaning);
    let from = match needs_heavy {
        true => nodes.owner(heavy),
        false => (0..3).max_by_key(|at| busy_slots(nodes, *at).len()).unwrap(),
    };
    let to = (from + 1 + random.below(2) as usize) % 3;
    let mut slots: Vec<u16> = busy_slots(nodes, from).into_iter().take(20).collect();
    slots.extend(needs_heavy.then_some(heavy));
    println!("{state:?} of {} slots from {} to {}: {victim:?} killed", slots.len(), IDS[from], IDS[to]);
    let mut scene = Scene { nodes, router, operator: None, from, to, id: MigrationId(0), victim };
    if scene.is_copy_held(state) {
        scene.set_rate(1);
    }
    scene.id = scene.nodes.begin_moves(slots.iter().copied(), IDS[from], IDS[to]);
    let was_in = scene.kill_in(state);
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{state:?}: {stderr}");
    nodes.until_settled();
    check_owners(nodes, &slots);
    was_in
}

#[test]
fn kills_in_every_state_of_a_move_lose_nothing() {
    let times: usize = std::env::var("KEYSTEAD_KILLS").map_or(0, |text| text.parse::<usize>().unwrap() / 20);
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    let all = STATES.into_iter().flat_map(|state| VICTIMS.map(|victim| (state, victim)));
    let mut rounds: Vec<(State, Victim)> = (0..times).flat_map(|_| all.clone()).collect();
    if times == 0 {
        let first = random.below(VICTIMS.len() as u64) as usize;
        rounds.extend(
            STATES.into_iter().enumerate().map(|(n, state)| (state, VICTIMS[(first + n) % VICTIMS.len()])),
        );
    }
    let heavy = fill_heavy(&nodes);
    let mut router = nodes.start_router();
    let clients = Clients { other_keys: HEAVY, ..Clients::with_router(&router, May::SeeFaults) };
    while_clients_increment(&mut nodes, clients, |nodes| {
        for round in rounds {
            let mut late = 0;
            while !kill_in(nodes, &mut router, round, heavy, &mut random) {
                late += 1;
                assert!(late <= LATE_MAX, "{round:?}: the state was over before the kill, {late} times");
            }
        }
    });
    let (tag, mut owner) = (key_of(heavy), nodes.resp(nodes.owner(heavy)));
    for n in (0..HEAVY).step_by(97) {
        owner.expect(&[(&format!("GET {n}{{{tag}}}"), &n.to_string())]);
    }
}
