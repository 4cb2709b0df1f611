//! Cluster clients route themselves: ioredis, redis-py, redis-rs and `redis-cli -c` write 1,000 keys and read them.
//!
//! A client that is not installed is skipped with the reason, unless `REQUIRE=` names it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use redis::Commands;
use redis::cluster::{ClusterClient, cluster_pipe};

use crate::Nodes;

const KEYS: usize = 1000;

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

/// Whether a client is installed. One that is required must be.
pub(crate) fn is_here(name: &str, is_here: bool) -> bool {
    let required = std::env::var("REQUIRE").unwrap_or_default();
    assert!(
        is_here || !required.split(',').any(|wanted| wanted == "all" || wanted == name),
        "{name} is not installed"
    );
    if !is_here {
        println!("skipped: {name} is not installed");
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
