//! Servers as nodes of a cluster (`--cluster`), through the real binary, with the slot table in a real Redis or etcd.
//!
//! | To find                                          | open          |
//! |--------------------------------------------------|---------------|
//! | who runs what, over RESP and HTTP                | [`ownership`] |
//! | the replies of a real Redis Cluster              | [`redis`]     |
//! | ioredis, redis-py, redis-rs and redis-cli        | [`clients`]   |
//! | the table's store, its faults, what is rejected   | [`table`]     |
//! | slots that move                                  | [`moving`]    |
//! | the example without Docker                       | [`example`]   |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one without its server says so"
)]

#[path = "../kv/linear/checker.rs"]
mod checker;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod example;
mod moving;
#[path = "../common/others.rs"]
mod others;
mod ownership;
mod redis;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod table;

use client::Http;
use keystead_core::key::slot;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::{Launch, Server};
use keystead_testkit::servers::free_ports;
use others::{Other, REDIS};
use resp::Client;

/// The ids of the nodes.
const IDS: [&str; 3] = ["a", "b", "c"];

/// Three nodes, and the store of their table.
struct Nodes {
    store: Other,
    ports: Vec<u16>,
    servers: Vec<Server>,
    /// Chooses how many shards a node has.
    random: Rng,
}

/// The addresses of a node.
fn addresses(ports: &[u16]) -> String {
    format!("redis://127.0.0.1:{},http://127.0.0.1:{}", ports[0], ports[1])
}

/// The URL of the table's store: a store that is killed must be noticed soon.
fn url(store: &Other) -> String {
    store.url_with("deadline=2s")
}

/// A node that is about to start.
fn node(url: &str, id: &str, ports: &[u16]) -> Launch {
    node_at(url, id, ports, &addresses(ports))
}

/// The same behind other addresses, which it advertises to the others. The URL is not an argument, because `ps` shows those.
fn node_at(url: &str, id: &str, ports: &[u16], advertised: &str) -> Launch {
    let (resp, http) = (format!("127.0.0.1:{}", ports[0]), format!("127.0.0.1:{}", ports[1]));
    common::launch(&["--data", "data", "--resp", &resp, "--http", &http])
        .args(["--node-id", id, "--advertise", advertised])
        .env("KEYSTEAD_DURABILITY", "commit")
        .env("KEYSTEAD_CLUSTER", url)
}

/// Creates the table of nodes on these ports.
fn init(url: &str, ports: &[u16], more: &[&str]) -> common::Ended {
    let nodes: Vec<String> =
        IDS.iter().zip(ports.chunks(2)).map(|(id, ports)| format!("{id}={}", addresses(ports))).collect();
    let mut arguments = vec!["cluster", "init"];
    nodes.iter().for_each(|node| arguments.extend(["--node", node.as_str()]));
    arguments.extend(more);
    common::run_in(common::dir().path(), &arguments, &[("KEYSTEAD_CLUSTER", url)])
}

impl Nodes {
    /// Three nodes with these settings; nothing if there is no Redis on this machine.
    fn start_with(settings: &str) -> Option<Nodes> {
        let dir = common::dir();
        let file = dir.path().join("keystead.toml");
        std::fs::write(&file, settings).unwrap();
        Nodes::start(&["--config", file.to_str().unwrap()])
    }

    /// Three nodes; nothing if there is no Redis on this machine.
    fn start(arguments: &[&str]) -> Option<Nodes> {
        let store = REDIS.start()?;
        let ports = free_ports(6).unwrap();
        let (code, _, stderr) = init(&url(&store), &ports, &["--name", "test"]);
        assert_eq!(code, 0, "{stderr}");
        let seed = seed_from_env().unwrap_or_else(fresh_seed);
        println!("KEYSTEAD_SEED={seed} for the shards of nodes");
        let mut nodes = Nodes { store, ports, servers: Vec::new(), random: Rng::new(seed) };
        for (at, id) in IDS.iter().enumerate() {
            let launch = node(&url(&nodes.store), id, &nodes.ports[2 * at..2 * at + 2]);
            nodes.start_node(launch, arguments);
        }
        Some(nodes)
    }

    /// Starts one more node: with 1, 2 or 4 shards, if the arguments do not say how many.
    fn start_node(&mut self, launch: Launch, arguments: &[&str]) {
        let launch = launch.args(arguments.iter().copied());
        let launch = match arguments.contains(&"--shards") {
            true => launch,
            false => {
                let shards = ["1", "2", "4"][self.random.below(3) as usize];
                println!("node {} has {shards} shards", self.servers.len());
                launch.args(["--shards", shards])
            }
        };
        self.servers.push(launch.start().unwrap());
    }

    fn resp(&self, node: usize) -> Client {
        Client::connect(&self.servers[node])
    }

    fn http(&self, node: usize) -> Http {
        Http::connect(&self.servers[node])
    }

    /// Which node owns a slot, as the first node says: it accepts a command, or names the owner.
    fn owner(&self, slot: u16) -> usize {
        let reply = self.resp(0).ask(&format!("GET {}", key_of(slot)));
        match reply.strip_prefix(&format!("-MOVED {slot} 127.0.0.1:")) {
            None => 0,
            Some(port) => {
                let port: u16 = port.parse().unwrap();
                self.ports.iter().step_by(2).position(|other| *other == port).unwrap()
            }
        }
    }

    /// A key that a node owns, and another one in the same slot.
    fn keys_of(&self, node: usize) -> [String; 2] {
        // Not a number that replies have for other reasons.
        let slot = (1_000..).find(|slot| self.owner(*slot) == node).unwrap();
        let tag = key_of(slot);
        [format!("{{{tag}}}"), format!("x{{{tag}}}")]
    }
}

/// A key of a slot.
fn key_of(wanted: u16) -> String {
    (0..).map(|n: u32| format!("k{n}")).find(|key| slot(key.as_bytes()) == wanted).unwrap()
}
