//! The harness with a shell script that prints a ready block. The server's own tests use it with the binary.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keystead_testkit::server::{Launch, Server};
use tempfile::TempDir;

const READY: &str = "
echo 'stand-in 1 is ready'
echo '  http        http://127.0.0.1:8080'
echo '  resp        redis://127.0.0.1:6379'
echo '  try         curl -s http://127.0.0.1:8080/healthz'
";

/// A script, and its directory.
fn script(body: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("stand-in");
    fs::write(&path, body).unwrap();
    (dir, path)
}

/// Passed to the shell as an argument: a file that was just written cannot always be executed while other threads fork.
fn launch(script: &Path) -> Launch {
    Launch::new("/bin/sh").arg(script)
}

/// The shell handles signals between two short sleeps. In one long sleep it would miss a signal that arrives just before the sleep
/// begins.
fn waiting(before: &str) -> (TempDir, PathBuf) {
    script(&format!("{before}\n{READY}\nwhile :; do sleep 0.05 >/dev/null 2>&1; done"))
}

fn start(launch: Launch) -> Server {
    launch.start().unwrap()
}

#[test]
fn a_server_starts_reports_its_address_and_stops() {
    let (_dir, path) = waiting(
        "trap 'echo goodbye; exit 0' TERM; echo \"args: $*\" >&2; echo \"at: $KEYSTEAD_HTTP $KEYSTEAD_RESP\"",
    );
    let mut server = start(launch(&path).args(["--durability", "memory"]));
    assert!(server.is_running());
    assert_eq!(server.http().unwrap().to_string(), "127.0.0.1:8080");
    assert_eq!(server.resp().unwrap().to_string(), "127.0.0.1:6379");
    assert_eq!(server.url("/healthz"), "http://127.0.0.1:8080/healthz");
    assert_eq!(server.line("try").as_deref(), Some("curl -s http://127.0.0.1:8080/healthz"));
    server.wait_for_log("args: --durability memory").unwrap();
    server.wait_for_log("at: 127.0.0.1:0 127.0.0.1:0").unwrap();
    assert!(server.stop().unwrap().success());
    assert!(!server.is_running());
    assert!(server.logs().contains("goodbye"), "{}", server.logs());
    assert!(server.stop().unwrap_err().to_string().contains("not running"));
}

#[test]
fn a_killed_server_starts_again_in_the_same_directory() {
    let (_dir, path) = waiting("trap '' TERM; echo started >>starts");
    let mut server = start(launch(&path));
    let (first, dir) = (server.pid(), server.dir().to_owned());
    assert_eq!(server.kill().unwrap().signal(), Some(9));
    server.restart().unwrap();
    assert_ne!(server.pid(), first);
    assert_eq!(server.dir(), dir);
    assert_eq!(fs::read_to_string(dir.join("starts")).unwrap(), "started\nstarted\n");
    drop(server);
    assert!(!dir.exists(), "the directory is removed with the server");
}

#[test]
fn a_server_that_ends_or_hangs_before_it_is_ready_is_a_failure_with_its_logs() {
    for (body, reason) in
        [("echo 'port 8080 is in use' >&2; exit 2", "port 8080 is in use"), (":", "no ready block within 2s")]
    {
        let (_dir, path) = script(&format!("mkfifo pipe; {body}\nread line <>pipe"));
        let failure = launch(&path).within(Duration::from_secs(2)).start().err();
        let failure = failure.expect("it must not start").to_string();
        assert!(failure.contains(reason), "{failure}");
    }
}

#[test]
fn a_server_that_does_not_stop_is_killed_and_a_failure() {
    let (_dir, path) = waiting("trap '' TERM");
    let mut server = start(launch(&path).within(Duration::from_secs(1)));
    let failure = server.stop().unwrap_err().to_string();
    assert!(failure.contains("did not end within 1s"), "{failure}");
    assert!(!server.is_running());
}

#[test]
fn a_dropped_server_is_gone() {
    let (_dir, path) = waiting("");
    let server = start(launch(&path));
    let proc = PathBuf::from(format!("/proc/{}", server.pid()));
    assert!(proc.exists());
    drop(server);
    assert!(!proc.exists());
}

#[test]
fn settings_of_whoever_runs_the_tests_do_not_leak_in() {
    let (_dir, path) = waiting("env");
    let server = start(launch(&path).env("KEYSTEAD_TOKEN", "mine"));
    let settings: Vec<String> =
        server.logs().lines().filter(|line| line.starts_with("KEYSTEAD_")).map(str::to_owned).collect();
    assert!(settings.contains(&"KEYSTEAD_TOKEN=mine".to_owned()), "{settings:?}");
    assert_eq!(settings.len(), 3, "{settings:?}");
}
