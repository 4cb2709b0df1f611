//! Cluster clients route themselves: ioredis, redis-py, redis-rs and `redis-cli -c` write 1,000 keys and read them, and the first three increment
//! counters while slots move.
//!
//! A client that is not installed is skipped and counted, unless `REQUIRE=` names it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_testkit::skip::skipped;
use redis::Commands;
use redis::cluster::{ClusterClient, cluster_pipe};

use crate::Nodes;

const KEYS: usize = 1000;

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

/// Whether a client is installed. If it is not, the test counts as skipped, or fails if the client is required.
#[track_caller]
pub(crate) fn is_here(name: &str, is_here: bool) -> bool {
    if !is_here {
        skipped(name, &format!("{name} is not installed"));
    }
    is_here
}

/// Every node has its share of the keys, and together they have each one time.
fn check_shares(nodes: &Nodes) {
    let counts: Vec<usize> =
        (0..3).map(|node| nodes.resp(node).ask("DBSIZE").trim_start_matches(':').parse().unwrap()).collect();
    assert_eq!(counts.iter().sum::<usize>(), KEYS, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 250), "{counts:?}");
}

fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.trim_end().ends_with("ok"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn run_script(runner: &Path, script: &str) {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(script);
    let output = Command::new(runner)
        .arg(script)
        // One node is enough: it knows the others.
        .args([nodes.ports[2].to_string(), KEYS.to_string()])
        .env("NODE_PATH", peers().join("node_modules"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    succeeded(&output);
    check_shares(&nodes);
}

#[test]
fn ioredis_routes_itself() {
    if is_here("ioredis", peers().join("node_modules/ioredis/package.json").is_file()) {
        run_script(Path::new("node"), "ioredis.cjs");
    }
}

#[test]
fn redis_py_routes_itself() {
    if is_here("redis-py", peers().join("bin/redis-py-is-here").is_file()) {
        run_script(&peers().join("bin/python3"), "redis_py.py");
    }
}

/// Counters of each client that is connected while slots move.
const COUNTERS: usize = 60;

/// A fourth node joins and the first two leave.
fn join_and_leave(nodes: &mut Nodes) {
    nodes.add_node();
    for arguments in [&["rebalance"][..], &["remove", "a"], &["remove", "b"]] {
        let (code, _, stderr) = nodes.cluster(arguments);
        assert_eq!(code, 0, "{stderr}");
    }
}

/// Lets a script increment counters while all slots of two nodes move. It fails at the first error.
fn run_while_slots_move(runner: &Path, script: &str) {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(script);
    let mut child = Command::new(runner)
        .arg(script)
        .args([nodes.ports[0].to_string(), COUNTERS.to_string()])
        .env("NODE_PATH", peers().join("node_modules"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let started = lines.next().map(Result::unwrap);
    if started.as_deref() == Some("started") {
        join_and_leave(&mut nodes);
    }
    drop(child.stdin.take());
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && lines.last().is_some_and(|line| line == "ok"), "{lines:?}\n{errors}");
    let increments: usize = lines[0].parse().unwrap();
    println!("{increments} increments of {COUNTERS} counters while slots moved");
    assert!(increments > 10 * COUNTERS, "it went on while slots moved");
    assert_eq!(nodes.dbsize(), COUNTERS);
}

#[test]
fn ioredis_sees_no_error_while_slots_move() {
    if is_here("ioredis", peers().join("node_modules/ioredis/package.json").is_file()) {
        run_while_slots_move(Path::new("node"), "ioredis_moving.cjs");
    }
}

#[test]
fn redis_py_sees_no_error_while_slots_move() {
    if is_here("redis-py", peers().join("bin/redis-py-is-here").is_file()) {
        run_while_slots_move(&peers().join("bin/python3"), "redis_py_moving.py");
    }
}

#[test]
fn redis_rs_sees_no_error_while_slots_move() {
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let client = ClusterClient::new(vec![format!("redis://127.0.0.1:{}", nodes.ports[0])]).unwrap();
    let stop = AtomicBool::new(false);
    let increments = std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let (mut connection, mut values) = (client.get_connection().unwrap(), vec![0u64; COUNTERS]);
            while !stop.load(Ordering::Relaxed) {
                for (n, value) in values.iter_mut().enumerate() {
                    *value += 1;
                    assert_eq!(connection.incr::<_, _, u64>(format!("redis-rs:{n}"), 1), Ok(*value));
                }
            }
            for (n, value) in values.iter().enumerate() {
                assert_eq!(connection.get::<_, u64>(format!("redis-rs:{n}")), Ok(*value));
            }
            values.iter().sum::<u64>()
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| join_and_leave(&mut nodes)));
        stop.store(true, Ordering::Relaxed);
        let increments = counting.join().unwrap();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        increments
    });
    println!("{increments} increments of {COUNTERS} counters while slots moved");
    assert!(increments > 10 * COUNTERS as u64);
    assert_eq!(nodes.dbsize(), COUNTERS);
}

#[test]
fn redis_rs_routes_itself() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    // One address: it finds the other nodes.
    let client = ClusterClient::new(vec![format!("redis://127.0.0.1:{}", nodes.ports[0])]).unwrap();
    let mut connection = client.get_connection().unwrap();
    for n in 0..KEYS {
        connection.set::<_, _, ()>(format!("key:{n}"), format!("value:{n}")).unwrap();
    }
    for n in 0..KEYS {
        assert_eq!(connection.get::<_, String>(format!("key:{n}")).unwrap(), format!("value:{n}"));
    }
    let mut pipeline = cluster_pipe();
    for n in 0..KEYS {
        pipeline.get(format!("key:{n}"));
    }
    let values: Vec<String> = pipeline.query(&mut connection).unwrap();
    assert_eq!(values, (0..KEYS).map(|n| format!("value:{n}")).collect::<Vec<_>>());
    check_shares(&nodes);
}

#[test]
fn redis_cli_follows_redirections() {
    if !is_here("redis-cli", Command::new("redis-cli").arg("--version").output().is_ok()) {
        return;
    }
    let Some(nodes) = Nodes::start(&[]) else { return };
    let mut child = Command::new("redis-cli")
        .args(["-c", "-p", &nodes.ports[0].to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = (0..KEYS)
        .map(|n| format!("SET key:{n} value:{n}\n"))
        .chain((0..KEYS).map(|n| format!("GET key:{n}\n")))
        .collect();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let replies: Vec<&str> =
        said.lines().filter(|line| !line.is_empty() && !line.starts_with("->")).collect();
    let expected: Vec<String> =
        (0..KEYS).map(|_| "OK".to_owned()).chain((0..KEYS).map(|n| format!("value:{n}"))).collect();
    assert_eq!(replies, expected);
    check_shares(&nodes);
}
