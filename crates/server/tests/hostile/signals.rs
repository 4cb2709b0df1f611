//! SIGHUP, which reloads files and must not end a server, and a backup from an address that does not speak HTTP.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::JoinHandle;

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;
use rustix::process::Signal;

use crate::client::{Client, PATIENCE, pause};
use crate::common::{dir, launch, only_line, request, run_in, signal};
use crate::{ADDRESS_SPACE_BYTES, assert_unharmed, victim};

/// Waits until a condition holds.
#[track_caller]
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let waited = Stopwatch::start();
    while !is() {
        assert!(waited.elapsed() < PATIENCE, "{what}");
        pause(20);
    }
}

/// Replaces a file atomically, as an editor does.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&new, path).unwrap();
}

#[test]
fn sighups_do_not_end_the_server() {
    let mut server = victim(&["--log-level", "info"]);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("SET k v"), "+OK");
    for _ in 0..100 {
        signal(&server, Signal::HUP);
    }
    server.wait_for_log("SIGHUP: ").unwrap();
    assert_eq!(client.ask("GET k"), "v", "existing connections stay");
    assert_unharmed(&server);
    assert_eq!(server.stop().unwrap().code(), Some(0));
}

#[test]
fn sighup_reopens_a_log_that_was_moved() {
    let home = dir();
    let [log, moved] = ["log", "log.1"].map(|name| home.path().join(name));
    let server = launch(&["--durability", "memory", "--log-level", "info", "--log-file"]).arg(&log);
    let server = server.address_space(ADDRESS_SPACE_BYTES).start().unwrap();
    until("the log has begun", || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready")));
    fs::rename(&log, &moved).unwrap();
    signal(&server, Signal::HUP);
    until("the log continues", || fs::read_to_string(&log).is_ok_and(|text| text.contains("SIGHUP: ")));
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&moved).unwrap().contains("SIGHUP: "));
    assert!(!server.logs().contains("INFO"), "none of it is on stderr:\n{}", server.logs());
    assert_unharmed(&server);
}

fn auth(server: &Server, token: &str) -> String {
    Client::connect(server).ask(&format!("AUTH {token}"))
}

fn status(server: &Server, token: &str) -> u16 {
    request(server, "GET", "/get/k", &format!("Authorization: Bearer {token}\r\n")).status
}

#[test]
fn sighup_reloads_the_tokens_and_keeps_the_old_if_the_new_are_invalid() {
    let home = dir();
    let [full, read_only] = ["full", "read-only"].map(|name| home.path().join(name));
    replace(&full, "the-first-full-token\n");
    replace(&read_only, "the-first-reading-token\n");
    let server = launch(&["--durability", "memory", "--token-file"]).arg(&full).arg("--read-only-token-file");
    let server = server.arg(&read_only).address_space(ADDRESS_SPACE_BYTES).start().unwrap();
    let mut before = Client::connect(&server);
    assert_eq!(before.ask("AUTH the-first-full-token"), "+OK");
    replace(&full, "the-second-full-token\n");
    replace(&read_only, "the-second-reading-token\n");
    signal(&server, Signal::HUP);
    until("the new token is in force", || auth(&server, "the-second-full-token") == "+OK");
    assert!(auth(&server, "the-first-full-token").starts_with("-WRONGPASS"));
    for (token, expected) in [
        ("the-first-full-token", 401),
        ("the-first-reading-token", 401),
        ("the-second-full-token", 200),
        ("the-second-reading-token", 200),
    ] {
        assert_eq!(status(&server, token), expected, "{token}");
    }
    assert_eq!(before.ask("SET k v"), "+OK", "authenticated connections stay");
    // Neither an empty token nor two equal ones are accepted, and then neither of the two tokens changes.
    for (of_full, of_reading, words) in [
        ("the-third-full-token", "", "holds a token that is empty"),
        (
            "one-and-the-same-token",
            "one-and-the-same-token",
            "the read-only token is the same as the full one",
        ),
    ] {
        replace(&full, of_full);
        replace(&read_only, of_reading);
        signal(&server, Signal::HUP);
        server.wait_for_log(words).unwrap();
        assert_eq!(auth(&server, "the-second-full-token"), "+OK", "{words}");
        assert!(auth(&server, of_full).starts_with("-WRONGPASS"), "{words}");
        assert_eq!(status(&server, "the-second-reading-token"), 200, "{words}");
    }
    assert!(!server.logs().contains("-token\n") && !server.logs().contains("the-third"), "{}", server.logs());
}

#[test]
fn sighup_reloads_the_policies_of_the_settings_file() {
    let home = dir();
    let file = home.path().join("k.toml");
    replace(&file, "");
    let server = launch(&["--durability", "memory", "--log-level", "info", "--config"]).arg(&file);
    let server = server.address_space(ADDRESS_SPACE_BYTES).start().unwrap();
    replace(&file, "[limit.login]\nlimit = 5\nperiodMs = \"60s\"\nfail = \"closed\"\n");
    signal(&server, Signal::HUP);
    server.wait_for_log("policies have changed").unwrap();
    let response = request(&server, "GET", "/limit/login", "Host: localhost\r\n");
    assert_eq!(response.status, 200, "{response:?}");
}

/// A server that accepts one connection and does not speak HTTP.
fn impostor(talk: impl Fn(&mut dyn ReadWrite) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        talk(&mut stream);
    });
    (address, thread)
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// The error line of a backup from this address.
fn backup_at(address: SocketAddr) -> String {
    let home = dir();
    let arguments = ["backup", "copy", "--http", &address.to_string(), "--token", "a-secret-of-many-letters"];
    let line = only_line(1, &run_in(home.path(), &arguments, &[]));
    assert!(line.contains(&address.to_string()) && line.contains("with --http"), "{line}");
    line
}

#[test]
fn a_backup_from_the_resp_port_fails_at_once() {
    let server = victim(&[]);
    let line = backup_at(server.resp().unwrap());
    // It may send an error or close the connection first.
    assert!(
        line.contains("does not speak HTTP") || line.contains("does not answer an HTTP request"),
        "{line}"
    );
    assert_unharmed(&server);
}

#[test]
fn a_backup_from_another_protocol_fails_at_once() {
    let (address, talked) = impostor(|stream| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n");
        // It reads to the end, and receives no token.
        let mut received = String::new();
        let _ = stream.read_to_string(&mut received);
        assert!(!received.contains("a-secret-of-many-letters"), "{received}");
    });
    assert!(backup_at(address).contains("does not speak HTTP"));
    talked.join().unwrap();
}

#[test]
fn a_backup_from_a_silent_server_fails_after_a_timeout() {
    let (address, talked) = impostor(|stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(backup_at(address).contains("does not answer an HTTP request within 5 s"));
    talked.join().unwrap();
}
