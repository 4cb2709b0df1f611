//! `keystead router` in front of two nodes, compared with twemproxy (`nutcracker`) in front of the same nodes and of two Redis, with a node alone,
//! and with the nodes of a Redis Cluster, by redis-benchmark; and over HTTP beside a node alone, by wrk.
//!
//! All are up for the whole run and get the same requests one right after the other, `ROUNDS` times alternately; the best round of each is
//! reported. Nodes persist nothing, so that the cost is that of the way. `KEYSTEAD_ROWS="16 get"` selects rows.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::keystead::{Keystead, binary};
use crate::redis::Redis;
use crate::report::is_wanted;
use crate::resp::{Figure, ROUNDS, measure_with};
use crate::rest;

const ROWS: [(&str, &[&str]); 2] =
    [("set", &["SET", "key:__rand_int__", "xxx"]), ("get", &["GET", "key:__rand_int__"])];

/// Requests in flight of each of 50 connections, and how many there are in all.
const PIPELINES: [(u32, u32); 2] = [(1, 60_000), (16, 400_000)];

/// A process that is killed with its owner.
struct Proxy(Child, u16);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn until_open(port: u16) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    })
}

/// twemproxy in front of servers; nothing if it is not installed.
fn nutcracker(ports: &[u16], dir: &std::path::Path) -> Option<Proxy> {
    let (port, stats) = (free_port(), free_port());
    let file = dir.join(format!("{port}.yml"));
    let mut text = format!(
        "bench:\n  listen: 127.0.0.1:{port}\n  hash: crc16\n  distribution: ketama\n  redis: true\n  preconnect: true\n  servers:\n"
    );
    ports.iter().for_each(|port| text.push_str(&format!("   - 127.0.0.1:{port}:1\n")));
    std::fs::File::create(&file).unwrap().write_all(text.as_bytes()).unwrap();
    let child = Command::new("nutcracker")
        .arg("-c")
        .arg(&file)
        .args(["-s", &stats.to_string(), "-a", "127.0.0.1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let proxy = Proxy(child, port);
    until_open(port).then_some(proxy)
}

fn router(nodes: &[Keystead]) -> (Proxy, u16) {
    let (resp, http) = (free_port(), free_port());
    let list: Vec<String> = ["a", "b"]
        .iter()
        .zip(nodes)
        .map(|(name, node)| {
            format!("{name}=http://127.0.0.1:{},{name}=redis://127.0.0.1:{}", node.http_port, node.port)
        })
        .collect();
    let child = Command::new(binary())
        .args(["router", "--resp", &format!("127.0.0.1:{resp}"), "--http", &format!("127.0.0.1:{http}")])
        .args(["--nodes", &list.join(",")])
        .env_remove("KEYSTEAD_ROWS")
        .env_remove("KEYSTEAD_BIN")
        .stdout(Stdio::null())
        .spawn()
        .expect("build the server first: cargo build --release");
    assert!(until_open(resp), "the router does not start");
    (Proxy(child, resp), http)
}

/// Three nodes of a Redis Cluster; nothing if they cannot be joined.
fn redis_cluster() -> Option<Vec<Redis>> {
    let options = ["--appendonly", "no", "--cluster-enabled", "yes"];
    let nodes: Vec<Redis> = (0..3).map(|_| Redis::start_with(&options)).collect::<Option<_>>()?;
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let created = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(&addresses)
        .args(["--cluster-replicas", "0", "--cluster-yes"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    created.is_ok_and(|status| status.success()).then_some(nodes)
}

pub(crate) fn run() {
    let dir = tempfile::tempdir().unwrap();
    let nodes: Vec<Keystead> = (0..2).map(|_| Keystead::start("memory")).collect();
    let redis: Vec<Redis> = (0..2).filter_map(|_| Redis::start()).collect();
    let (router, http) = router(&nodes);
    let same = nutcracker(&nodes.iter().map(|node| node.port).collect::<Vec<_>>(), dir.path());
    let of_redis = nutcracker(&redis.iter().map(|redis| redis.port).collect::<Vec<_>>(), dir.path());
    let cluster = redis_cluster();
    // What is not installed is a gap in the table.
    let ways: [(&str, Option<u16>, bool); 5] = [
        ("router", Some(router.1), false),
        ("twemproxy, the same nodes", same.as_ref().map(|proxy| proxy.1), false),
        ("twemproxy, two redis", of_redis.as_ref().map(|proxy| proxy.1), false),
        ("a node alone", Some(nodes[0].port), false),
        ("redis cluster, its client", cluster.as_ref().map(|nodes| nodes[0].port), true),
    ];
    println!("{:>4} {:<4} {:<26} {:>12} {:>6} {:>9}", "pipe", "", "", "requests/s", "ratio", "p99 ms");
    for (pipeline, requests) in PIPELINES {
        for (name, command) in ROWS {
            if !is_wanted(&format!("{pipeline} {name}")) {
                continue;
            }
            let mut best = [Figure::default(); 5];
            for _ in 0..ROUNDS {
                for (best, (_, port, is_cluster)) in best.iter_mut().zip(ways) {
                    let Some(port) = port else { continue };
                    // Its client for clusters replaces {tag} by one of each slot.
                    let words: Vec<String> = match is_cluster {
                        true => command.iter().map(|word| word.replace("key:", "key:{tag}:")).collect(),
                        false => command.iter().map(|word| (*word).to_owned()).collect(),
                    };
                    let first = is_cluster.then_some("--cluster");
                    let words: Vec<&str> =
                        first.into_iter().chain(words.iter().map(String::as_str)).collect();
                    *best = best.better(measure_with(port, 50, pipeline, requests, &words));
                }
            }
            for (figure, (way, ..)) in best.iter().zip(ways).filter(|(figure, _)| figure.per_second > 0.0) {
                println!(
                    "{pipeline:>4} {name:<4} {way:<26} {:>12.0} {:>5.2}x {:>9.2}",
                    figure.per_second,
                    best[0].per_second / figure.per_second,
                    figure.p99_ms
                );
            }
        }
    }
    over_http(http, &nodes[0]);
}

fn over_http(router: u16, node: &Keystead) {
    if !is_wanted("http") {
        return;
    }
    let command = r#"wrk.format("GET", "/get/key:" .. math.random(KEYS))"#;
    let (mut ours, mut alone) = (Figure::default(), Figure::default());
    for _ in 0..ROUNDS {
        ours = ours.better(rest::measure(router, "50", command, 1.0));
        alone = alone.better(rest::measure(node.http_port, "50", command, 1.0));
    }
    for (way, figure) in [("router, http", ours), ("a node alone, http", alone)] {
        println!(
            "{:>4} {:<4} {way:<26} {:>12.0} {:>5.2}x {:>9.2}",
            1,
            "get",
            figure.per_second,
            ours.per_second / figure.per_second,
            figure.p99_ms
        );
    }
}
