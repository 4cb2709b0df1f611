//! Connections that are cut or hang between any two while slots move: source and target in every round, and with them nodes and the store of
//! the table, the router and the nodes, the router and the store, the operator and the nodes. Nothing is lost, and the move ends when they are
//! back. Each kind of connection has one of the faults in a run; with `KEYSTEAD_KILLS`, all of them for each ten.

use std::time::Duration;

use keystead_cluster::{Node, NodeId};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;
use keystead_testkit::servers::free_ports;
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use tokio::runtime::Runtime;

use super::client::May;
use super::kills::{Clients, begin_to_move, is_moving, while_clients_increment};
use super::load::slots_of;
use crate::others::REDIS;
use crate::resp::until;
use crate::{IDS, Nodes, addresses, common, node_at, url};

/// Values that take a while at the rate of the moves.
const VALUES: usize = 400;
const VALUE_BYTES: usize = 1000;
const RATE: &str = "40kb";

/// Four nodes and a router. All that they say to each other, and to the store of the table, goes through proxies.
struct Proxied {
    nodes: Nodes,
    router: Server,
    /// In front of the listeners of the nodes.
    http: Vec<Proxy>,
    resp: Vec<Proxy>,
    /// In front of the store, for each of the nodes and for the router.
    store: Vec<Proxy>,
    _runtime: Runtime,
}

/// What is cut besides the connections between the nodes.
#[derive(Clone, Copy, Debug)]
enum Also {
    Nothing,
    NodesAndStore,
    RouterAndNodes,
    RouterAndStore,
    Everything,
}

const ALSO: [Also; 5] =
    [Also::Nothing, Also::NodesAndStore, Also::RouterAndNodes, Also::RouterAndStore, Also::Everything];

const FAULTS: [Traffic; 3] = [Traffic::RepliesLost, Traffic::RequestsLost, Traffic::Held];

/// How often a proxy has done something to what goes through it.
fn faults(proxy: &Proxy) -> u64 {
    proxy.cuts() + proxy.holds()
}

impl Proxied {
    /// Nothing if there is no Redis on this machine.
    fn start(seed: u64) -> Option<Proxied> {
        let store = REDIS.start()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let in_front_of = |port: u16| runtime.block_on(Proxy::start(port)).unwrap();
        let (own, stores) = (free_ports(8).unwrap(), (0..5).map(|_| in_front_of(store.ports()[0])));
        let stores: Vec<Proxy> = stores.collect();
        let resp: Vec<Proxy> = own.iter().step_by(2).map(|port| in_front_of(*port)).collect();
        let http: Vec<Proxy> = own.iter().skip(1).step_by(2).map(|port| in_front_of(*port)).collect();
        let seen: Vec<u16> =
            resp.iter().zip(&http).flat_map(|(resp, http)| [resp.port(), http.port()]).collect();
        let (code, _, stderr) = crate::init(&url(&store), &seen[..6], &["--name", "test"]);
        assert_eq!(code, 0, "{stderr}");
        let url_of = |at: usize| format!("redis://127.0.0.1:{}/0?deadline=2s", stores[at].port());
        let random = Rng::new(seed);
        let mut nodes = Nodes { store, ports: seen.clone(), servers: Vec::new(), random };
        let d = NodeId::new("d").unwrap();
        let (to, from) = (format!("redis://127.0.0.1:{}", seen[6]), format!("http://127.0.0.1:{}", seen[7]));
        nodes.edit(keystead_cluster::Edit::Add(Node::new(d, to, from)));
        for (at, id) in ["a", "b", "c", "d"].iter().enumerate() {
            let (listens, says) = (&own[2 * at..2 * at + 2], addresses(&seen[2 * at..2 * at + 2]));
            nodes.start_node(node_at(&url_of(at), id, listens, &says), &[]);
        }
        let router = common::launch(&["router"]).env("KEYSTEAD_CLUSTER", url_of(4)).start().unwrap();
        Some(Proxied { nodes, router, http, resp, store: stores, _runtime: runtime })
    }
}

/// Cuts connections of nodes that move slots, and others.
fn cut(
    nodes: &mut Nodes,
    (http, resp, store): (&[Proxy], &[Proxy], &[Proxy]),
    (also, fault): (Also, Traffic),
    random: &mut Rng,
) {
    let joins = slots_of(nodes, "d") == 0;
    let mut operator = begin_to_move(nodes, joins, &["--rate", RATE]);
    std::thread::park_timeout(Duration::from_millis(random.below(200)));
    let others: Vec<&[Proxy]> = match also {
        Also::Nothing => vec![],
        Also::NodesAndStore => vec![&store[..4]],
        Also::RouterAndNodes => vec![resp],
        Also::RouterAndStore => vec![&store[4..]],
        Also::Everything => vec![resp, store],
    };
    let links: Vec<&[Proxy]> = std::iter::once(http).chain(others).collect();
    let before: Vec<u64> = links.iter().map(|link| link.iter().map(faults).sum()).collect();
    links.iter().copied().flatten().for_each(|proxy| proxy.set(fault));
    // What goes through the proxies of the nodes while they move slots is what targets ask of sources, and the operator of targets.
    until("each kind of connection is disturbed", || {
        links.iter().zip(&before).all(|(link, before)| link.iter().map(faults).sum::<u64>() > *before)
    });
    assert!(is_moving(nodes, &[]), "{fault:?} and {also:?} came when nothing moved any more");
    std::thread::park_timeout(Duration::from_millis(200 + random.below(1500)));
    let disturbed: Vec<u64> = links
        .iter()
        .zip(before)
        .map(|(link, before)| link.iter().map(faults).sum::<u64>() - before)
        .collect();
    links.iter().copied().flatten().for_each(|proxy| proxy.set(Traffic::Forwarded));
    // The operator goes on by itself; if it has given up, another one does.
    let ended = operator.wait().unwrap();
    println!("{fault:?} between nodes, and {also:?}: {disturbed:?} times; the operator ended with {ended}");
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{fault:?}: {stderr}");
    nodes.until_settled();
}

#[test]
fn connections_that_are_cut_or_hang_lose_nothing() {
    let times: usize = std::env::var("KEYSTEAD_KILLS").map_or(0, |text| text.parse::<usize>().unwrap() / 10);
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    let Some(Proxied { mut nodes, router, http, resp, store, _runtime }) = Proxied::start(seed) else {
        return;
    };
    super::operator::fill(&nodes, VALUES, VALUE_BYTES);
    let all = ALSO.into_iter().flat_map(|also| FAULTS.map(|fault| (also, fault)));
    let mut rounds: Vec<(Also, Traffic)> = (0..times).flat_map(|_| all.clone()).collect();
    if times == 0 {
        let first = random.below(3) as usize;
        rounds.extend(ALSO.into_iter().enumerate().map(|(n, also)| (also, FAULTS[(first + n) % 3])));
    }
    let clients = Clients { other_keys: VALUES, ..Clients::with_router(&router, May::SeeFaults) };
    while_clients_increment(&mut nodes, clients, |nodes| {
        for round in rounds {
            cut(nodes, (&http, &resp, &store), round, &mut random);
        }
        // The store is away for everybody: nothing moves, everything is served, and it goes on.
        for away in [true, false] {
            let joins = slots_of(nodes, "d") == 0;
            let mut operator = begin_to_move(nodes, joins, &["--rate", RATE]);
            assert!(is_moving(nodes, &[]));
            match away {
                true => nodes.store.kill(),
                false => nodes.store.pause(),
            }
            std::thread::park_timeout(Duration::from_millis(1500));
            let is_moving = |at: usize| !nodes.report(at)["migrations"].as_array().unwrap().is_empty();
            assert!((0..4).any(is_moving), "no move ends without the store");
            match away {
                true => nodes.store.restart(),
                false => nodes.store.resume(),
            }
            let ended = operator.wait().unwrap();
            println!("the store was away: the operator ended with {ended}");
            let (code, _, stderr) = nodes.cluster(&["rebalance"]);
            assert_eq!(code, 0, "{stderr}");
            nodes.until_settled();
        }
    });
    assert!(IDS.iter().all(|id| slots_of(&nodes, id) > 0));
}
