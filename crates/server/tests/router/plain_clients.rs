//! redis-py and ioredis as for one server, unchanged: no client for clusters.
//!
//! A client that is not installed is skipped and counted, unless `REQUIRE=` names it.

use std::path::{Path, PathBuf};
use std::process::Command;

use keystead_testkit::skip::skipped;

use crate::Cluster;

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

fn run(name: &str, is_here: bool, runner: &Path, script: &str) {
    if !is_here {
        return skipped(name, &format!("{name} is not installed"));
    }
    let cluster = Cluster::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/router").join(script);
    let output = Command::new(runner)
        .arg(script)
        .arg(cluster.router.resp().unwrap().port().to_string())
        .env("NODE_PATH", peers().join("node_modules"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.trim_end().ends_with("ok"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn ioredis_works_unchanged() {
    let is_here = peers().join("node_modules/ioredis/package.json").is_file();
    run("ioredis", is_here, Path::new("node"), "ioredis.cjs");
}

#[test]
fn redis_py_works_unchanged() {
    let is_here = peers().join("bin/redis-py-is-here").is_file();
    run("redis-py", is_here, &peers().join("bin/python3"), "redis_py.py");
}
