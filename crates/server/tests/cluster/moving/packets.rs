//! Packets that are dropped between any two hosts while slots move. Each process is in a network namespace of its own, behind one bridge, and a
//! host sends what is for another one to a hardware address that nobody has: no connection is closed, nothing arrives. Five pairs of
//! hosts in a run; with `KEYSTEAD_KILLS`, all of them for each ten. Needs root; skipped and counted elsewhere.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_cluster::{Edit, Node, NodeId};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::{Launch, Server};
use keystead_testkit::skip::skipped;

use super::client::{May, Routed, check_counters, increment};
use super::{edit_at, table_at};
use crate::client::Http;
use crate::resp::{Client, PATIENCE, until};

const NAME: &str = "moving::packets::packets_dropped_between_any_two_lose_nothing";

/// Set in the process that is inside the namespace of the bridge.
const INSIDE: &str = "PACKETS_INSIDE";

const BINARY: &str = env!("CARGO_BIN_EXE_keystead");
const TOKEN: &str = "a-token-of-the-tests-of-packets";
const RESP: u16 = 6379;
const HTTP: u16 = 8080;

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const STORE: usize = 4;
const ROUTER: usize = 5;
const HOSTS: usize = 6;

/// Values that take a while at the rate of the moves.
const VALUES: usize = 400;

fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

/// Runs a line of the shell, and returns whether it succeeded.
fn succeeds(line: &str) -> bool {
    let status = Command::new("bash").args(["-c", line]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[track_caller]
fn run(line: &str) {
    assert!(succeeds(line), "{line}");
}

/// The hosts: a process each that keeps its namespace.
struct Network(Vec<Child>);

impl Network {
    fn start() -> Network {
        run(
            "ip link set lo up && ip link add br0 type bridge && ip addr add 10.77.0.254/24 dev br0 && ip link set br0 up",
        );
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let mut holders = Vec::new();
        for host in 0..HOSTS {
            let holder = Command::new("unshare").args(["-n", "sleep", "1800"]).spawn().unwrap();
            let pid = holder.id();
            let is_apart =
                || std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|namespace| namespace != own);
            until("a host has its namespace", is_apart);
            holders.push(holder);
            run(&format!(
                "ip link add v{host} type veth peer name eth0 netns {pid} && ip link set v{host} master br0 up"
            ));
            let address = address(host);
            run(&format!(
                "nsenter -t {pid} -n sh -c 'ip link set lo up && ip addr add {address}/24 dev eth0 && ip link set eth0 up'"
            ));
        }
        Network(holders)
    }

    /// A line of the shell on a host.
    fn on(&self, host: usize, line: &str) -> String {
        format!("nsenter -t {} -n {line}", self.0[host].id())
    }

    fn launch(&self, host: usize, arguments: &str) -> Launch {
        let pid = self.0[host].id().to_string();
        Launch::new("nsenter")
            .args(["-t", &pid, "-n", BINARY])
            .args(arguments.split(' '))
            .env("KEYSTEAD_TOKEN", TOKEN)
    }

    /// Drops what two hosts send to each other, or does not any more.
    fn cut(&self, [one, other]: [usize; 2], is_cut: bool) {
        for (from, to) in [(one, other), (other, one)] {
            let to = address(to);
            run(&self.on(
                from,
                &match is_cut {
                    true => format!("ip neigh replace {to} lladdr 02:00:00:00:00:fe dev eth0 nud permanent"),
                    false => format!("ip neigh del {to} dev eth0"),
                },
            ));
        }
        let connects = format!("timeout 1 bash -c '</dev/tcp/{}/{RESP}'", address(other));
        assert_eq!(succeeds(&self.on(one, &connects)), !is_cut, "host {one} reaches host {other}");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for holder in &mut self.0 {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// The URL of the table's store, with how long it may take to reply.
fn url_with(deadline: &str) -> String {
    format!("redis://:{TOKEN}@{}:{RESP}/0?deadline={deadline}", address(STORE))
}

/// The same as it is for nodes and routers.
fn url() -> String {
    url_with("2s")
}

/// The same for these tests, which must not take a slow store for one that is stuck.
fn own_url() -> String {
    url_with("20s")
}

fn addresses(host: usize) -> [String; 2] {
    [format!("redis://{}:{RESP}", address(host)), format!("http://{}:{HTTP}", address(host))]
}

fn cluster(arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.arg("cluster").args(arguments).env("KEYSTEAD_CLUSTER", url()).env("KEYSTEAD_TOKEN", TOKEN);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

fn until_rebalanced() {
    assert!(cluster(&["rebalance"]).wait().unwrap().success());
    until("all nodes have cleaned up", || {
        (0..NODES.len()).all(|host| {
            let mut http = Http::try_connect((address(host).as_str(), HTTP)).unwrap();
            let bearer = format!("authorization: Bearer {TOKEN}");
            let report = http.ask("GET", "/admin/cluster", &["keystead-cluster: test", &bearer], b"").json();
            report["migrations"].as_array().unwrap().is_empty()
        })
    });
}

fn connect(host: usize) -> Client {
    let stream = TcpStream::connect((address(host).as_str(), RESP)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut client = Client::over(stream);
    client.expect(&[(&format!("AUTH {TOKEN}"), "+OK")]);
    client
}

fn routed() -> Routed {
    Routed::of_router_at(&address(ROUTER), RESP, TOKEN)
}

/// Store, nodes and router, which are stopped at the end.
fn start(network: &Network) -> Vec<Server> {
    let listens = |host: usize| format!("--resp {0}:{RESP} --http {0}:{HTTP}", address(host));
    let store = network.launch(STORE, &format!("--durability commit --data data {}", listens(STORE)));
    let mut servers = vec![store.start().unwrap()];
    let named = |host: usize| format!("--node={}={}", NODES[host], addresses(host).join(","));
    let init = [named(0), named(1), named(2)];
    let words: Vec<&str> =
        ["init", "--name", "test"].into_iter().chain(init.iter().map(String::as_str)).collect();
    assert!(cluster(&words).wait().unwrap().success());
    let [resp, http] = addresses(3);
    edit_at(&own_url(), Edit::Add(Node::new(NodeId::new("d").unwrap(), resp, http))).unwrap();
    for (host, id) in NODES.iter().enumerate() {
        let says = addresses(host).join(",");
        let words =
            format!("--durability commit --data data --node-id {id} --advertise {says} {}", listens(host));
        servers.push(network.launch(host, &words).env("KEYSTEAD_CLUSTER", url()).start().unwrap());
    }
    let router =
        network.launch(ROUTER, &format!("router {}", listens(ROUTER))).env("KEYSTEAD_CLUSTER", url());
    servers.push(router.start().unwrap());
    servers
}

/// Drops what two hosts send to each other while slots move to or from the last node.
fn cut_while_slots_move(network: &Network, pair: [usize; 2], random: &mut Rng) {
    let d = NodeId::new("d").unwrap();
    let joins = table_at(&own_url()).slots_owned(&d) == 0;
    edit_at(&own_url(), if joins { Edit::Stay(d) } else { Edit::Leave(d) }).unwrap();
    let mut operator = cluster(&["rebalance", "--rate", "20kb"]);
    let is_moving = || table_at(&own_url()).migrations().len() > 0;
    until("slots move", is_moving);
    network.cut(pair, true);
    assert!(is_moving(), "the packets of {pair:?} were dropped when nothing moved any more");
    std::thread::park_timeout(Duration::from_millis(500 + random.below(2500)));
    network.cut(pair, false);
    let ended = operator.wait().unwrap();
    println!("packets between {pair:?} were dropped: the operator ended with {ended}");
    until_rebalanced();
}

fn inside() {
    let times: usize = std::env::var("KEYSTEAD_KILLS").map_or(0, |text| text.parse::<usize>().unwrap() / 10);
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    let network = Network::start();
    let _servers = start(&network);
    let mut client = connect(ROUTER);
    for n in 0..VALUES {
        client.expect(&[(&format!("SET value:{n} {}", "v".repeat(1000)), "+OK")]);
    }
    let all = (0..HOSTS).flat_map(|one| (one + 1..HOSTS).map(move |other| [one, other]));
    let mut pairs: Vec<[usize; 2]> = (0..times).flat_map(|_| all.clone()).collect();
    if times == 0 {
        // Source and target, either and the store, the router and either, the router and the store.
        let source = random.below(3) as usize;
        pairs.extend([[source, 3], [3, STORE], [source, STORE], [source, ROUTER], [STORE, ROUTER]]);
    }
    let stop = AtomicBool::new(false);
    let counted: Vec<_> = std::thread::scope(|scope| {
        let stop = &stop;
        let running: Vec<_> = (0..3)
            .map(|client| scope.spawn(move || increment(routed(), client, 40, May::SeeFaults, stop)))
            .collect();
        let run = || pairs.iter().for_each(|pair| cut_while_slots_move(&network, *pair, &mut random));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        stop.store(true, Ordering::Relaxed);
        let counted = running.into_iter().map(|client| client.join().unwrap()).collect();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        counted
    });
    let keys = check_counters(routed(), &counted);
    let sizes = (0..NODES.len()).map(|host| connect(host).ask("DBSIZE")[1..].parse::<usize>().unwrap());
    assert_eq!(sizes.sum::<usize>(), keys + VALUES, "a key is on exactly one node");
    let writes: u64 = counted.iter().flat_map(|(counts, _)| counts).map(|count| count.acknowledged).sum();
    println!("{} pairs of hosts, {writes} increments, none lost or repeated", pairs.len());
    assert!(writes > 0);
}

#[test]
fn packets_dropped_between_any_two_lose_nothing() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let needed = "unshare -n sh -c 'ip link add br0 type bridge && ip link add v0 type veth peer name v1' && type nsenter";
    if !succeeds(needed) {
        return skipped("network namespaces", "they need root, ip, unshare and nsenter");
    }
    let inside = Command::new("unshare")
        .arg("-n")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let (said, errors) = (String::from_utf8_lossy(&inside.stdout), String::from_utf8_lossy(&inside.stderr));
    println!("{said}");
    assert!(inside.status.success() && said.contains("none lost or repeated"), "{errors}");
}
