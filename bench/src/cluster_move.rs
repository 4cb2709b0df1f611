//! A quarter of the slots moves to a fourth node while clients write: Keystead, Valkey's atomic slot migration, and Redis's resharding by
//! `redis-cli`, in one run. Durability is alike: written to a file before the reply, synced each second or less often.
//!
//! Touches servers on free ports of loopback, stopped by their process ids.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use keystead_testkit::cluster_writers::{Options, Way, Window, Writers};
use keystead_testkit::servers::free_ports;
use redis::{Client, Connection, Value};

/// Keys besides those that are written, each of 100 bytes.
pub(crate) const KEYS: usize = 200_000;

/// Slots that move, as many as the fourth node's share.
const SLOTS: usize = 4096;

/// How long a move may take.
const PATIENCE: Duration = Duration::from_secs(120);

struct Servers {
    children: Vec<Child>,
    ports: Vec<u16>,
    _dir: tempfile::TempDir,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Row {
    name: &'static str,
    took: Duration,
    /// Keys that the fourth node has afterwards.
    keys: i64,
    before: Window,
    during: Window,
}

pub(crate) fn run() {
    let valkey = std::env::var_os("KEYSTEAD_VALKEY").unwrap_or_else(|| "valkey-server".into());
    let rows = [
        keystead("Keystead, its nodes", false),
        keystead("Keystead, through a router", true),
        others("Valkey, CLUSTER MIGRATESLOTS", &valkey, migrate_slots),
        others("Redis, redis-cli --cluster reshard", &"redis-server".into(), reshard),
    ];
    println!(
        "\n{KEYS} keys of 100 bytes, {SLOTS} of 16,384 slots to a fourth node, 2 clients with pipelines of 32 INCR:\n"
    );
    println!(
        "| server | took | keys moved | keys/s | errors | writes/s before | during | p99 before | p99 during | longest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut first = None;
    for row in rows.into_iter().flatten() {
        let Row { name, took, keys, mut before, mut during } = row;
        let (seconds, errors) = (took.as_secs_f64(), during.errors.values().sum::<u64>());
        let first = *first.get_or_insert(seconds);
        println!(
            "| {name} | {seconds:.2} s ({:.2}x) | {keys} | {:.0} | {errors} | {:.0} | {:.0} | {:.1} ms | {:.1} ms | {:.0} ms |",
            seconds / first,
            keys as f64 / seconds,
            before.rate(),
            during.rate(),
            before.quantile_ms(0.99),
            during.quantile_ms(0.99),
            during.quantile_ms(1.0),
        );
        assert!(before.wrong.is_empty() && during.wrong.is_empty(), "{name}: {:?}", during.wrong);
        if !during.errors.is_empty() {
            println!("  {name}: {:?}", during.errors);
        }
    }
}

fn connect(port: u16) -> Option<Connection> {
    let client = Client::open(format!("redis://127.0.0.1:{port}")).ok()?;
    (0..500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        client.get_connection().ok()
    })
}

fn words(connection: &mut Connection, words: &[String]) -> redis::RedisResult<Value> {
    let mut command = redis::cmd(&words[0]);
    for word in &words[1..] {
        command.arg(word);
    }
    command.query(connection)
}

fn text(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Writes the keys, measures before and during the move, and checks that every write is there.
fn measure(
    name: &'static str,
    ports: &[u16],
    way: Way,
    run_move: impl FnOnce() -> Option<()>,
) -> Option<Row> {
    fill(ports)?;
    let options =
        Options { way, clients: 2, keys: 2000, pipeline: 32, per_slot: 1, swaps: false, pace: None };
    let mut writers = Writers::start(options);
    std::thread::sleep(Duration::from_secs(1));
    let _ = writers.mark();
    std::thread::sleep(Duration::from_secs(3));
    let before = writers.mark();
    let since = Instant::now();
    let moved = run_move();
    let took = since.elapsed();
    let during = writers.mark();
    let checked = writers.stop_and_check();
    if moved.is_none() {
        println!("{name} did not move its slots");
        return None;
    }
    let keys = redis::cmd("DBSIZE").query(&mut connect(ports[3])?).ok()?;
    if let Err(error) = checked {
        println!("{name}: {error}");
    }
    Some(Row { name, took, keys, before, during })
}

/// Writes the keys that nobody changes, through the first three nodes.
pub(crate) fn fill(ports: &[u16]) -> Option<()> {
    let mut fill = redis::cluster::ClusterClient::new(
        ports[..3].iter().map(|port| format!("redis://127.0.0.1:{port}")).collect::<Vec<_>>(),
    )
    .ok()?
    .get_connection()
    .ok()?;
    let value = "v".repeat(100);
    for chunk in (0..KEYS).collect::<Vec<_>>().chunks(1000) {
        let mut pipe = redis::cluster::cluster_pipe();
        for n in chunk {
            pipe.cmd("SET").arg(format!("fill:{n}")).arg(&value).ignore();
        }
        pipe.query::<()>(&mut fill).ok()?;
    }
    Some(())
}

/// Three nodes of Keystead with all slots, a fourth that is in the table without any, and the store of the table.
pub(crate) struct Cluster {
    servers: Servers,
    table: String,
}

impl Cluster {
    pub(crate) fn start() -> Option<Cluster> {
        let (dir, ports) = (tempfile::tempdir().ok()?, free_ports(9).ok()?);
        let table = format!("redis://127.0.0.1:{}", ports[8]);
        let addresses =
            |n: usize| format!("redis://127.0.0.1:{},http://127.0.0.1:{}", ports[n], ports[4 + n]);
        let servers = Servers { children: Vec::new(), ports: ports[..4].to_vec(), _dir: dir };
        let mut cluster = Cluster { servers, table };
        let store = format!("--durability commit --data table --http off --resp 127.0.0.1:{}", ports[8]);
        cluster.add(&store)?;
        connect(ports[8])?;
        let init: Vec<String> = ["a", "b", "c"]
            .iter()
            .enumerate()
            .map(|(n, id)| format!("--node={id}={}", addresses(n)))
            .collect();
        cluster.run(&format!("cluster init --name bench {}", init.join(" ")))?;
        let node = |n: usize, id: &str| {
            let (resp, http) = (ports[n], ports[4 + n]);
            format!(
                "--durability commit --data {id} --node-id {id} --resp 127.0.0.1:{resp} --http 127.0.0.1:{http} --advertise {}",
                addresses(n)
            )
        };
        for (n, id) in ["a", "b", "c"].iter().enumerate() {
            cluster.add(&node(n, id))?;
            connect(ports[n])?;
        }
        // In the table, without slots, as the fourth node of the others.
        let mut adding = cluster.begin(&format!("cluster add d={}", addresses(3)))?;
        while cluster.run("cluster status").is_some() {
            std::thread::sleep(Duration::from_millis(20));
        }
        adding.kill().ok()?;
        adding.wait().ok()?;
        cluster.add(&node(3, "d"))?;
        connect(ports[3])?;
        Some(cluster)
    }

    /// Starts a router. Returns its RESP port.
    pub(crate) fn router(&mut self) -> Option<u16> {
        let ports = free_ports(2).ok()?;
        self.add(&format!("router --resp 127.0.0.1:{} --http 127.0.0.1:{}", ports[0], ports[1]))?;
        connect(ports[0])?;
        Some(ports[0])
    }

    /// The RESP ports of the nodes.
    pub(crate) fn ports(&self) -> &[u16] {
        &self.servers.ports
    }

    fn begin(&self, line: &str) -> Option<Child> {
        Command::new(crate::keystead::binary())
            .args(line.split(' '))
            .env("KEYSTEAD_CLUSTER", &self.table)
            .env_remove("KEYSTEAD_VALKEY")
            .env_remove("KEYSTEAD_RATE")
            .current_dir(self.servers._dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()
    }

    /// Starts a server, which ends with this value.
    fn add(&mut self, line: &str) -> Option<()> {
        let child = self.begin(line)?;
        self.servers.children.push(child);
        Some(())
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, line: &str) -> Option<()> {
        self.begin(line)?.wait().ok()?.success().then_some(())
    }
}

fn keystead(name: &'static str, is_through_router: bool) -> Option<Row> {
    let mut cluster = Cluster::start()?;
    let way = match is_through_router {
        true => Way::Router(cluster.router()?),
        false => Way::Nodes(cluster.ports()[..3].to_vec()),
    };
    measure(name, cluster.ports(), way, || cluster.run("cluster rebalance"))
}

/// Servers with Redis's cluster protocol: three masters with all slots, and a fourth without any.
fn others(
    name: &'static str,
    program: &OsString,
    run_move: fn(&[u16], &[String]) -> Option<()>,
) -> Option<Row> {
    let (dir, ports) = (tempfile::tempdir().ok()?, free_cluster_ports()?);
    let mut servers = Servers { children: Vec::new(), ports: ports.clone(), _dir: dir };
    for port in &ports {
        let home = servers._dir.path().join(port.to_string());
        std::fs::create_dir(&home).ok()?;
        let child = Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"])
            .args(["--cluster-enabled", "yes", "--port", &port.to_string(), "--dir"])
            .arg(&home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| println!("{name}: {error}"))
            .ok()?;
        servers.children.push(child);
    }
    let mut ids = Vec::new();
    for (n, port) in ports.iter().enumerate() {
        let mut connection = connect(*port)?;
        ids.push(redis::cmd("CLUSTER").arg("MYID").query::<String>(&mut connection).ok()?);
        if n < 3 {
            let (first, last) = (n * 16_384 / 3, (n + 1) * 16_384 / 3 - 1);
            words(&mut connection, &text(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"))).ok()?;
        }
        words(&mut connection, &text(&format!("CLUSTER MEET 127.0.0.1 {}", ports[0]))).ok()?;
    }
    for port in &ports {
        let mut connection = connect(*port)?;
        let since = Instant::now();
        loop {
            let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).ok()?;
            if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:4") {
                break;
            }
            if since.elapsed() > PATIENCE {
                println!("{name}: the cluster does not come up");
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let way = Way::Nodes(ports[..3].to_vec());
    measure(name, &ports, way, || run_move(&ports, &ids))
}

/// Ports whose cluster bus, 10,000 above, exists.
fn free_cluster_ports() -> Option<Vec<u16>> {
    (0..50).find_map(|_| free_ports(4).ok().filter(|ports| ports.iter().all(|port| *port < 55_000)))
}

/// Valkey: each source sends its third.
fn migrate_slots(ports: &[u16], ids: &[String]) -> Option<()> {
    for (n, port) in ports[..3].iter().enumerate() {
        let first = n * 16_384 / 3;
        let last = first + SLOTS / 3 - 1 + usize::from(n == 0);
        let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {}", ids[3]);
        words(&mut connect(*port)?, &text(&line)).map_err(|error| println!("{error}")).ok()?;
    }
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        let mut fourth = connect(ports[3])?;
        let nodes: String = redis::cmd("CLUSTER").arg("NODES").query(&mut fourth).ok()?;
        let own = nodes.lines().find(|line| line.contains("myself")).unwrap_or_default();
        let ranges = own.split(' ').skip(8).filter_map(|range| range.split_once('-'));
        let owned: usize = ranges
            .filter_map(|(first, last)| Some(last.parse::<usize>().ok()? + 1 - first.parse::<usize>().ok()?))
            .sum();
        if owned >= SLOTS {
            return Some(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Redis: `redis-cli` moves key by key, from all masters.
fn reshard(ports: &[u16], ids: &[String]) -> Option<()> {
    let status = Command::new("redis-cli")
        .args(["--cluster", "reshard", &format!("127.0.0.1:{}", ports[0]), "--cluster-from", "all"])
        .args(["--cluster-to", &ids[3], "--cluster-slots", &SLOTS.to_string(), "--cluster-yes"])
        .stdout(Stdio::null())
        .status()
        .ok()?;
    status.success().then_some(())
}
