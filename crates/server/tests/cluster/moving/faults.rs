//! Connections that are cut or hang between any two while slots move: nodes and the store of the table, source and target, operator and
//! nodes. Nothing is lost, and the move ends when they are back. `KEYSTEAD_KILLS` is the number of times that all are run.

use std::time::Duration;

use keystead_cluster::{Edit, Node, NodeId};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::servers::free_ports;
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use tokio::runtime::Runtime;

use super::kills::while_clients_increment;
use crate::{Nodes, common};

/// A fourth node, whose HTTP listener and whose store are behind proxies.
struct Proxies {
    /// In front of the node: the target of what comes to it, the source of what leaves it.
    http: Proxy,
    store: Proxy,
    _runtime: Runtime,
}

fn add_behind_proxies(nodes: &mut Nodes) -> Proxies {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ports = free_ports(2).unwrap();
    let http = runtime.block_on(Proxy::start(ports[1])).unwrap();
    let store = runtime.block_on(Proxy::start(nodes.store.ports()[0])).unwrap();
    let (resp, seen_http) =
        (format!("redis://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", http.port()));
    nodes.edit(Edit::Add(Node::new(NodeId::new("d").unwrap(), resp.clone(), seen_http.clone())));
    let (listens, url) = (
        [format!("127.0.0.1:{}", ports[0]), format!("127.0.0.1:{}", ports[1])],
        format!("redis://127.0.0.1:{}/0?deadline=2s", store.port()),
    );
    let launch = common::launch(&["--durability", "commit", "--data", "data", "--resp", &listens[0]])
        .args(["--http", &listens[1], "--node-id", "d", "--advertise", &format!("{resp},{seen_http}")])
        .env("KEYSTEAD_CLUSTER", url);
    nodes.servers.push(launch.start().unwrap());
    nodes.ports.extend([ports[0], http.port()]);
    Proxies { http, store, _runtime: runtime }
}

#[test]
fn connections_that_are_cut_or_hang_lose_nothing() {
    let times: usize =
        std::env::var("KEYSTEAD_KILLS").map_or(1, |text| text.parse::<usize>().unwrap().div_ceil(6));
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    let proxies = add_behind_proxies(&mut nodes);
    let faults = [Traffic::RepliesLost, Traffic::RequestsLost, Traffic::Held];
    // To the node, as a source and as a target; from the node to the store; and of all to the store.
    let links: [&[&Proxy]; 3] = [&[&proxies.http], &[&proxies.store], &[&proxies.http, &proxies.store]];
    let rounds =
        (0..times).flat_map(|_| links.iter().flat_map(|link| faults.iter().map(move |fault| (link, fault))));
    while_clients_increment(&mut nodes, 2, |nodes| {
        for (round, (link, fault)) in rounds.enumerate() {
            let d = NodeId::new("d").unwrap();
            nodes.edit(if round % 2 == 1 { Edit::Leave(d) } else { Edit::Stay(d) });
            let mut operator = nodes.begin_cluster(&["rebalance"]);
            std::thread::park_timeout(Duration::from_millis(100 + random.below(500)));
            link.iter().for_each(|proxy| proxy.set(*fault));
            std::thread::park_timeout(Duration::from_millis(200 + random.below(1500)));
            link.iter().for_each(|proxy| proxy.set(Traffic::Forwarded));
            // The operator goes on by itself; if it has given up, another one does.
            let ended = operator.wait().unwrap();
            println!("{fault:?} on {} links: the operator ended with {ended}", link.len());
            let (code, _, stderr) = nodes.cluster(&["rebalance"]);
            assert_eq!(code, 0, "{fault:?}: {stderr}");
            nodes.until_settled();
        }
        // The store is away for everybody: nothing moves, everything is served, and it goes on.
        for away in [true, false] {
            let d = NodeId::new("d").unwrap();
            nodes.edit(if away { Edit::Leave(d) } else { Edit::Stay(d) });
            let mut operator = nodes.begin_cluster(&["rebalance"]);
            std::thread::park_timeout(Duration::from_millis(200 + random.below(300)));
            match away {
                true => nodes.store.kill(),
                false => nodes.store.pause(),
            }
            std::thread::park_timeout(Duration::from_millis(1500));
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
}
