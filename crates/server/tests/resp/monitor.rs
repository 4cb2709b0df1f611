//! MONITOR: one connection sees what the others run.

use crate::client::{Client, info, request_of, until};
use crate::memory;

/// A line without its time and address.
fn command(line: &str) -> String {
    let (head, command) = line.split_once("] ").unwrap_or_else(|| panic!("{line}"));
    let (time, address) = head.split_once(" [0 ").unwrap();
    let (seconds, micros) = time.trim_start_matches('+').split_once('.').unwrap();
    assert!(line.starts_with('+') && seconds.len() == 10 && micros.len() == 6, "{line}");
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    command.to_owned()
}

#[test]
fn commands_of_all_connections_and_shards_are_seen() {
    for arguments in [&[][..], &["--shards", "4"]] {
        let server = memory(arguments);
        let (mut old, mut new) = (Client::connect(&server), Client::connect_3(&server));
        let mut worker = Client::connect(&server);
        old.expect(&[("MONITOR", "+OK")]);
        new.expect(&[("MONITOR", "+OK")]);
        worker.send_raw(&request_of([&b"SET"[..], b"k", b"a\"b\n\0\xff"]));
        assert_eq!(worker.receive(), "+OK");
        worker.expect(&[
            ("CONFIG GET maxmemory", "[maxmemory 0]"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("MULTI", "+OK"),
            ("incr n", "+QUEUED"),
            ("PING", "+QUEUED"),
            ("EXEC", "[:1 +PONG]"),
            ("BLPOP none 0.01", "*-1"),
        ]);
        let expected = [
            r#""SET" "k" "a\"b\n\x00\xff""#,
            r#""MULTI""#,
            r#""incr" "n""#,
            r#""PING""#,
            r#""EXEC""#,
            r#""BLPOP" "none" "0.01""#,
        ];
        for client in [&mut old, &mut new] {
            let seen: Vec<_> = expected.iter().map(|_| command(&client.receive())).collect();
            assert_eq!(seen, expected, "{arguments:?}");
        }
    }
}

#[test]
fn secrets_are_not_seen() {
    let server = memory(&["--token", "s3cret-s3cret-s3cret"]);
    let mut watcher = Client::connect(&server);
    watcher.expect(&[("MONITOR", "-NOAUTH Authentication required.")]);
    watcher.expect(&[("AUTH s3cret-s3cret-s3cret", "+OK"), ("MONITOR", "+OK")]);
    let mut other = Client::connect(&server);
    other.expect(&[("AUTH s3cret-s3cret-s3cret", "+OK"), ("GET k", "$-1")]);
    other.ask("HELLO 2 AUTH default s3cret-s3cret-s3cret");
    assert_eq!(command(&watcher.receive()), r#""AUTH" "(redacted)""#);
    assert_eq!(command(&watcher.receive()), r#""GET" "k""#);
    assert_eq!(command(&watcher.receive()), r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)""#);
}

#[test]
fn who_watches_may_be_reset_and_then_sees_nothing() {
    let server = memory(&[]);
    let (mut watcher, mut worker) = (Client::connect(&server), Client::connect(&server));
    watcher.expect(&[("MONITOR", "+OK"), ("GET k", "-ERR Replica can't interact with the keyspace")]);
    watcher.expect(&[("RESET", "+RESET")]);
    worker.expect(&[("SET k v", "+OK")]);
    watcher.expect(&[("GET k", "v")]);
}

#[test]
fn who_reads_too_slowly_is_closed() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"];
    assert_eq!(admin.ask_words(&limit), "+OK");
    let mut slow = Client::connect(&server);
    slow.expect(&[("MONITOR", "+OK")]);
    let value = "m".repeat(100_000);
    for _ in 0..600 {
        assert_eq!(admin.ask(&format!("SET k {value}")), "+OK");
        if info(&mut admin, "clients", "connected_clients") == 1 {
            break;
        }
    }
    until("the slow one was closed", || info(&mut admin, "clients", "connected_clients") == 1);
    slow.rest();
}
