//! A router that follows the slot table of a store: nodes that join and leave while clients write through it, and a store that is away.

mod bodies;
mod streams;

use std::sync::atomic::{AtomicBool, Ordering};

use keystead_cluster::{Edit, NodeId, TableStep};
use keystead_core::{Key, StoreExt};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::{Launch, Server};
use keystead_testkit::servers::free_ports;
use serde_json::json;

use crate::client::Http;
use crate::common;
use crate::others::{Other, REDIS};
use crate::resp::{Client, request, until};

const IDS: [&str; 3] = ["a", "b", "c"];

/// Three nodes of a cluster, the store of their table, and a router.
struct Moving {
    store: Other,
    nodes: Vec<Server>,
    router: Server,
    /// Chooses how many shards a node has.
    random: Rng,
}

fn addresses(ports: &[u16]) -> String {
    format!("redis://127.0.0.1:{},http://127.0.0.1:{}", ports[0], ports[1])
}

/// The URL of the table's store: a store that is killed must be noticed soon.
fn url(store: &Other) -> String {
    store.url_with("deadline=2s")
}

fn node(url: &str, id: &str, ports: &[u16], random: &mut Rng) -> Launch {
    let (resp, http) = (format!("127.0.0.1:{}", ports[0]), format!("127.0.0.1:{}", ports[1]));
    common::launch(&["--durability", "commit", "--data", "data", "--resp", &resp, "--http", &http])
        .args(["--node-id", id, "--advertise", &addresses(ports)])
        .args(["--shards", ["1", "2", "4"][random.below(3) as usize]])
        .env("KEYSTEAD_CLUSTER", url)
}

fn router(url: &str) -> Launch {
    common::launch(&["router"]).env("KEYSTEAD_CLUSTER", url)
}

impl Moving {
    /// Nothing if there is no Redis on this machine.
    fn start(arguments: &[&str]) -> Option<Moving> {
        let store = REDIS.start()?;
        let ports = free_ports(6).unwrap();
        let urls: Vec<String> =
            IDS.iter().zip(ports.chunks(2)).map(|(id, ports)| format!("{id}={}", addresses(ports))).collect();
        let mut words = vec!["cluster", "init", "--name", "test"];
        urls.iter().for_each(|node| words.extend(["--node", node.as_str()]));
        let (code, _, stderr) =
            common::run_in(common::dir().path(), &words, &[("KEYSTEAD_CLUSTER", &url(&store))]);
        assert_eq!(code, 0, "{stderr}");
        let seed = seed_from_env().unwrap_or_else(fresh_seed);
        println!("KEYSTEAD_SEED={seed} for the shards of nodes");
        let mut random = Rng::new(seed);
        let start =
            |(id, ports): (&&str, &[u16])| node(&url(&store), id, ports, &mut random).start().unwrap();
        let nodes = IDS.iter().zip(ports.chunks(2)).map(start).collect();
        let router = router(&url(&store)).args(arguments).start().unwrap();
        Some(Moving { store, nodes, router, random })
    }

    /// Starts a fourth node, in the table already.
    fn join(&mut self) {
        let ports = free_ports(2).unwrap();
        let (resp, http) =
            (format!("redis://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", ports[1]));
        let edit = Edit::Add(keystead_cluster::Node::new(NodeId::new("d").unwrap(), resp, http));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            let store = keystead_stores::open(&url(&self.store)).unwrap();
            let key = Key::new("keystead:cluster").unwrap();
            store.apply(&key, &TableStep::from(edit)).await.unwrap().unwrap();
            store.close().await.unwrap();
        });
        let launch = node(&url(&self.store), "d", &ports, &mut self.random);
        self.nodes.push(launch.start().unwrap());
    }

    fn cluster(&self, arguments: &[&str]) {
        // It ends by itself when nothing moves, so it needs no deadline.
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_keystead"));
        let command = command.arg("cluster").args(arguments).env("KEYSTEAD_CLUSTER", url(&self.store));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

const COUNTERS: usize = 40;

/// What one client did: how often each counter was incremented, and what went wrong.
type Done = (Vec<u64>, Vec<String>);

/// A client of a router, until it is stopped.
type Run = fn(&Server, &AtomicBool) -> Done;

/// Increments counters one after the other, until it is stopped.
fn count(stop: &AtomicBool, mut increment: impl FnMut(usize) -> String) -> Done {
    let (mut counts, mut wrong) = (vec![0; COUNTERS], Vec::new());
    for n in (0..COUNTERS).cycle() {
        if stop.load(Ordering::Relaxed) {
            return (counts, wrong);
        }
        let reply = increment(n);
        match reply == (counts[n] + 1).to_string() {
            true => counts[n] += 1,
            false => wrong.push(format!("counter {n}: {reply} after {}", counts[n])),
        }
        if wrong.len() > 5 {
            return (counts, wrong);
        }
    }
    (counts, wrong)
}

fn resp(router: &Server, stop: &AtomicBool) -> Done {
    let mut client = Client::connect(router);
    count(stop, |n| client.ask(&format!("INCR resp:{n}")).trim_start_matches(':').to_owned())
}

/// Many requests at once: those on one key must keep their order.
fn resp_pipeline(router: &Server, stop: &AtomicBool) -> Done {
    let mut client = Client::connect(router);
    let (mut counts, mut wrong) = (vec![0; COUNTERS], Vec::new());
    while !stop.load(Ordering::Relaxed) && wrong.len() < 5 {
        let requests: Vec<u8> =
            (0..5 * COUNTERS).flat_map(|n| request(&format!("INCR pipe:{}", n % COUNTERS))).collect();
        client.send_raw(&requests);
        for n in 0..5 * COUNTERS {
            let count = &mut counts[n % COUNTERS];
            *count += 1;
            let reply = client.receive();
            if reply != format!(":{count}") {
                wrong.push(format!("counter {}: {reply} in place of {count}", n % COUNTERS));
            }
        }
    }
    (counts, wrong)
}

fn transaction(router: &Server, stop: &AtomicBool) -> Done {
    let mut client = Client::connect_3(router);
    count(stop, |n| {
        let key = format!("multi:{n}");
        let replies = client.ask_all(["MULTI", &format!("INCR {key}"), "EXEC"]);
        replies[2].trim_matches(['[', ']', ':']).to_owned()
    })
}

/// Read, then compare and set. EXEC does not run if the slot has moved meanwhile, and is tried again.
fn watch(router: &Server, stop: &AtomicBool) -> Done {
    let mut client = Client::connect(router);
    count(stop, |n| {
        let key = format!("watch:{n}");
        loop {
            assert_eq!(client.ask(&format!("WATCH {key}")), "+OK");
            let next = client.ask(&format!("GET {key}")).parse().unwrap_or(0) + 1;
            let replies = client.ask_all(["MULTI", &format!("SET {key} {next}"), "EXEC"]);
            match &*replies[2] {
                "[+OK]" => return next.to_string(),
                "*-1" => {}
                other => return other.to_owned(),
            }
        }
    })
}

fn rest(router: &Server, stop: &AtomicBool) -> Done {
    let mut http = Http::connect(router);
    count(stop, |n| {
        let response = http.post("/", &format!(r#"["INCR","rest:{n}"]"#));
        response.json()["result"].to_string() + if response.status == 200 { "" } else { " error" }
    })
}

fn rest_pipeline(router: &Server, stop: &AtomicBool) -> Done {
    let mut http = Http::connect(router);
    let (mut counts, mut wrong) = (vec![0; COUNTERS], Vec::new());
    let body = json!((0..COUNTERS).map(|n| json!(["INCR", format!("restpipe:{n}")])).collect::<Vec<_>>());
    while !stop.load(Ordering::Relaxed) && wrong.len() < 5 {
        let replies = http.post("/pipeline", &body.to_string()).json();
        for (n, count) in counts.iter_mut().enumerate() {
            *count += 1;
            if replies[n]["result"] != *count {
                wrong.push(format!("counter {n}: {} in place of {count}", replies[n]));
            }
        }
    }
    (counts, wrong)
}

fn documents(router: &Server, stop: &AtomicBool) -> Done {
    let mut http = Http::connect(router);
    count(stop, |n| {
        let path = format!("/kv/doc:{n}");
        let read = http.get(&path);
        let (value, condition) = match read.status {
            404 => (1, "If-None-Match: *".to_owned()),
            _ => (
                read.json()["value"].as_u64().unwrap_or(0) + 1,
                format!("If-Match: \"{}\"", read.json()["version"]),
            ),
        };
        let put = http.ask("PUT", &path, &[&condition], value.to_string().as_bytes());
        if [200, 201].contains(&put.status) { value.to_string() } else { put.text().to_owned() }
    })
}

#[test]
fn a_node_joins_and_another_leaves_while_clients_write_through_the_router() {
    let Some(mut moving) = Moving::start(&[]) else { return };
    let mut client = Client::connect(&moving.router);
    for n in 0..500 {
        client.expect(&[(&format!("SET static:{n} {n}"), "+OK")]);
    }
    let stop = AtomicBool::new(false);
    let clients: [(&str, Run); 7] = [
        ("resp", resp),
        ("pipe", resp_pipeline),
        ("multi", transaction),
        ("watch", watch),
        ("rest", rest),
        ("restpipe", rest_pipeline),
        ("doc", documents),
    ];
    let router = router(&url(&moving.store)).start().unwrap();
    let done: Vec<(&str, Done)> = std::thread::scope(|scope| {
        let running: Vec<_> = clients
            .iter()
            .map(|(name, run)| {
                let (router, stop) = (&router, &stop);
                (*name, scope.spawn(move || run(router, stop)))
            })
            .collect();
        moving.join();
        moving.cluster(&["rebalance"]);
        moving.cluster(&["remove", "a"]);
        moving.nodes[0].stop().unwrap();
        stop.store(true, Ordering::Relaxed);
        running.into_iter().map(|(name, client)| (name, client.join().unwrap())).collect()
    });
    for (name, (counts, wrong)) in &done {
        assert_eq!(wrong, &[] as &[String], "{name}");
        assert!(counts.iter().sum::<u64>() > 0, "{name} did nothing");
        for (n, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let key = format!("{name}:{n}");
            let found = match *name {
                "doc" => Http::connect(&router).get(&format!("/kv/{key}")).json()["value"].to_string(),
                _ => client.ask(&format!("GET {key}")),
            };
            assert_eq!(found, count.to_string(), "{key}");
        }
    }
    for n in 0..500 {
        client.expect(&[(&format!("GET static:{n}"), &n.to_string())]);
    }
    // The router reads the table each second.
    until("the router has dropped the node that is no more", || {
        let health = Http::connect(&router).get("/healthz").json();
        let nodes = health["nodes"].as_array().unwrap();
        let ids: Vec<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
        health["status"] == "ok" && ids == ["b", "c", "d"]
    });
    let metrics = Http::connect(&router).get("/metrics");
    let metrics = metrics.text();
    let redirects = metrics.lines().filter_map(|line| line.strip_prefix("keystead_router_redirects_total{"));
    let redirects: u64 = redirects.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert!(redirects > 0, "slots moved under the clients: {metrics}");
}

#[test]
fn without_the_store_a_router_goes_on_and_restarts_from_its_copy() {
    let Some(mut moving) = Moving::start(&["--data", "copy"]) else { return };
    let mut without_copy = router(&url(&moving.store)).start().unwrap();
    Client::connect(&moving.router).expect(&[("SET a 1", "+OK")]);
    moving.store.kill();
    let mut http = Http::connect(&moving.router);
    until("the router misses the store", || http.get("/healthz").json()["status"] == "degraded");
    let health = http.get("/healthz").json();
    assert!(health["reasons"][0].as_str().unwrap().starts_with("the slot table cannot be read"), "{health}");
    assert_eq!((&health["epoch"], &health["cluster"]), (&json!(1), &json!("test")));
    Client::connect(&moving.router).expect(&[("GET a", "1")]);
    moving.router.restart().unwrap();
    Client::connect(&moving.router).expect(&[("INCR a", ":2")]);
    without_copy.kill().unwrap();
    assert!(without_copy.restart().is_err(), "it knows no node");
}

#[test]
fn a_blocked_client_and_a_subscriber_follow_their_slots() {
    let Some(mut moving) = Moving::start(&[]) else { return };
    let mut waiting: Vec<Client> = (0..10).map(|_| Client::connect(&moving.router)).collect();
    let mut subscriber = Client::connect(&moving.router);
    for (n, client) in waiting.iter_mut().enumerate() {
        client.send(&format!("BLPOP queue:{n} 0"));
        subscriber.ask(&format!("SSUBSCRIBE channel:{n}"));
        subscriber.ask(&format!("SUBSCRIBE channel:{n}"));
    }
    moving.join();
    moving.cluster(&["rebalance"]);
    moving.cluster(&["remove", "a"]);
    moving.nodes[0].stop().unwrap();
    let mut client = Client::connect(&moving.router);
    for (n, waiting) in waiting.iter_mut().enumerate() {
        client.expect(&[(&format!("RPUSH queue:{n} v{n}"), ":1")]);
        assert_eq!(waiting.receive(), format!("[queue:{n} v{n}]"));
        client.expect(&[(&format!("PUBLISH channel:{n} m"), ":1")]);
        assert_eq!(subscriber.receive(), format!("[message channel:{n} m]"));
        // The owner's subscription follows the table.
        until("the shard channel has moved", || client.ask(&format!("SPUBLISH channel:{n} s")) == ":1");
        assert_eq!(subscriber.receive(), format!("[smessage channel:{n} s]"));
    }
}
