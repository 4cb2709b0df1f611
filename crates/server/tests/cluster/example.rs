//! `examples/cluster/`: the script runs, and what the compose file names exists.

use std::path::{Path, PathBuf};
use std::process::Command;

use keystead_testkit::servers::free_ports;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster")
}

#[test]
fn the_script_without_docker_runs() {
    if !crate::clients::is_here("redis-cli", Command::new("redis-cli").arg("--version").output().is_ok()) {
        return;
    }
    let ports: Vec<String> = free_ports(11).unwrap().iter().map(u16::to_string).collect();
    let output = Command::new(folder().join("run.sh"))
        .env("KEYSTEAD", env!("CARGO_BIN_EXE_keystead"))
        .env("PORTS", ports.join(" "))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for line in ["4096 slots were moved in ", "== done: 20 requests, 20 visits"] {
        assert!(stdout.contains(line), "'{line}' is missing in\n{stdout}");
    }
}

/// There may be no Docker engine, so this checks what can be checked without one: settings, flags and services that the file names exist.
#[test]
fn the_compose_file_names_what_there_is() {
    let text = std::fs::read_to_string(folder().join("compose.yaml")).unwrap();
    let help = Command::new(env!("CARGO_BIN_EXE_keystead")).args(["help"]).output().unwrap();
    let cluster = Command::new(env!("CARGO_BIN_EXE_keystead")).args(["cluster", "--help"]).output().unwrap();
    let router = Command::new(env!("CARGO_BIN_EXE_keystead")).args(["router", "--help"]).output().unwrap();
    let help: String = [help, cluster, router]
        .iter()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .collect();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    for line in &lines {
        let setting = line.trim().split(':').next().unwrap();
        if let Some(name) = setting.strip_prefix("KEYSTEAD_") {
            let flag = format!("--{}", name.to_lowercase().replace('_', "-"));
            assert!(help.contains(&flag), "there is no setting {setting}");
        }
        for flag in line.split([' ', '[', ',', ']']).filter_map(|word| word.strip_prefix("--")) {
            let flag = format!("--{}", flag.split('=').next().unwrap());
            assert!(help.contains(&flag), "there is no flag {flag}");
        }
    }
    for node in ["a", "b", "c"] {
        let addresses = format!("redis://node-{node}:6379,http://node-{node}:8080");
        assert_eq!(text.matches(&addresses).count(), 2, "in the table and in its service: {addresses}");
    }
    let init =
        |name: &str| text.contains(&format!("\n  {name}:\n")) || text.contains(&format!("\n  {name}: &"));
    for service in ["table", "init", "node-a", "node-b", "node-c", "router"] {
        assert!(init(service), "{service}");
    }
}
