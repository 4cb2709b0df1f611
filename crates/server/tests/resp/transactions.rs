//! MULTI, EXEC, DISCARD, WATCH.

use crate::client::{Client, pause};
use crate::common::start;
use crate::memory;

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn a_transaction_runs_whole_and_its_errors_are_its_own() {
    for level in ["memory", "commit", "fsync"] {
        let server = start(&["--durability", level]);
        let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
        client.expect(&[
            ("EXEC", "-ERR EXEC without MULTI"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("SET k 1", "+QUEUED"),
            ("LPUSH k x", "+QUEUED"),
            ("INCR k", "+QUEUED"),
        ]);
        other.expect(&[("EXISTS k", ":0")]);
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(client.ask("EXEC"), format!("[+OK {wrong} :2]"));
        other.expect(&[("GET k", "2")]);
    }
}

#[test]
fn what_cannot_be_queued_spoils_the_transaction() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    for spoils in ["NOPE", "SET k", "GET", "CONFIG NOPE"] {
        client.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED")]);
        assert!(client.ask(spoils).starts_with("-ERR"), "{spoils}");
        client.expect(&[("SET k v", "+QUEUED"), ("EXEC", ABORTED), ("EXISTS k", ":0"), ("PING", "+PONG")]);
    }
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET k v", "+QUEUED"),
        ("WATCH k", "-ERR WATCH inside MULTI is not allowed"),
        ("DISCARD", "+OK"),
        ("EXISTS k", ":0"),
        ("MULTI", "+OK"),
        ("EXEC", "[]"),
    ]);
}

#[test]
fn a_transaction_in_one_write_is_one_change_among_others() {
    let server = memory(&[]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Client::connect(&server);
            std::thread::spawn(move || {
                for _ in 0..300 {
                    let lines = ["MULTI", "INCR a", "INCR b", "GET a", "GET b", "EXEC"];
                    let exec = client.ask_all(lines).pop().unwrap();
                    let words: Vec<&str> = exec.trim_matches(['[', ']']).split(' ').collect();
                    assert!(words[0] == words[1] && words[2] == words[3], "{exec}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    Client::connect(&server).expect(&[("GET a", "1200"), ("GET b", "1200")]);
}

/// A connection that watches keys and queues commands, and what another client does in between.
fn aborts(level: &str, prepare: &[&str], watch: &str, between: &[&str]) -> bool {
    let server = start(&["--durability", level]);
    let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
    prepare.iter().for_each(|line| assert!(!other.ask(line).starts_with('-'), "{line}"));
    assert_eq!(client.ask(watch), "+OK");
    between.iter().for_each(|line| assert!(!other.ask(line).starts_with('-'), "{line}"));
    client.expect(&[("MULTI", "+OK"), ("SET done yes", "+QUEUED")]);
    match client.ask("EXEC").as_str() {
        "*-1" => {
            client.expect(&[
                ("EXISTS done", ":0"),
                ("MULTI", "+OK"),
                ("GET done", "+QUEUED"),
                ("EXEC", "[$-1]"),
            ]);
            true
        }
        "[+OK]" => false,
        other => panic!("{other}"),
    }
}

#[test]
fn a_change_of_a_watched_key_by_another_client_aborts() {
    let there = &["SET k v", "RPUSH l a", "HSET h f v", "SET other v"][..];
    for (watch, between, expected) in [
        ("WATCH k", &[][..], false),
        ("WATCH k", &["SET k w"], true),
        ("WATCH k", &["SET k v"], true),
        ("WATCH k l", &["RPUSH l b"], true),
        ("WATCH h", &["HSET h g v"], true),
        ("WATCH k", &["EXPIRE k 100"], true),
        ("WATCH k", &["DEL k", "SET k v"], true),
        ("WATCH k", &["RENAME other k"], true),
        ("WATCH k", &["GET k", "TTL k", "SET other x", "OBJECT ENCODING k"], false),
        ("WATCH none", &["SET none v"], true),
        ("WATCH none", &["DEL none", "EXPIRE none 10", "GET none"], false),
        ("WATCH k", &["FLUSHALL"], true),
        ("WATCH k", &["FLUSHDB"], true),
        ("WATCH none", &["FLUSHALL"], false),
        ("WATCH l", &["LPOP l"], true),
        ("WATCH l", &["LREM l 0 none"], false),
    ] {
        assert_eq!(aborts("memory", there, watch, between), expected, "{watch}, then {between:?}");
    }
    assert!(aborts("fsync", there, "WATCH k", &["SET k w"]) && !aborts("fsync", there, "WATCH k", &[]));
}

#[test]
fn a_watched_key_that_expires_aborts_unless_it_had_expired_before() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.expect(&[("SET k v PX 500", "+OK"), ("WATCH k", "+OK"), ("GET k", "v")]);
    pause(550);
    client.expect(&[("MULTI", "+OK"), ("SET done yes", "+QUEUED"), ("EXEC", "*-1"), ("EXISTS done", ":0")]);
    client.expect(&[("SET k v PX 10", "+OK")]);
    pause(50);
    client.expect(&[("WATCH k", "+OK"), ("MULTI", "+OK"), ("SET done yes", "+QUEUED"), ("EXEC", "[+OK]")]);
}

#[test]
fn own_changes_abort_too_and_unwatch_forgets() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.expect(&[
        ("WATCH k", "+OK"),
        ("SET k v", "+OK"),
        ("MULTI", "+OK"),
        ("GET k", "+QUEUED"),
        ("EXEC", "*-1"),
        ("WATCH k", "+OK"),
        ("SET k v", "+OK"),
        ("UNWATCH", "+OK"),
        ("MULTI", "+OK"),
        ("GET k", "+QUEUED"),
        ("EXEC", "[v]"),
        ("WATCH k", "+OK"),
        ("SET k v", "+OK"),
        ("MULTI", "+OK"),
        ("DISCARD", "+OK"),
        ("MULTI", "+OK"),
        ("GET k", "+QUEUED"),
        ("EXEC", "[v]"),
    ]);
    let list = client.ask("CLIENT LIST");
    assert!(!list.contains(" watch=") || list.contains(" watch=0 "), "{list}");
}

#[test]
fn watching_makes_a_counter_of_many_hands_exact() {
    let server = memory(&[]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Client::connect(&server);
            std::thread::spawn(move || {
                let mut done = 0;
                while done < 100 {
                    assert_eq!(client.ask("WATCH n"), "+OK");
                    let now = client.ask("GET n").parse::<u64>().unwrap_or(0);
                    let set = format!("SET n {}", now + 1);
                    let exec = client.ask_all(["MULTI", &set, "EXEC"]).pop().unwrap();
                    done += u32::from(exec == "[+OK]");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(Client::connect(&server).ask("GET n"), "400");
}

/// Copies share their bytes in memory, and all are written to the journal.
#[test]
fn a_change_that_is_too_large_is_undone_whole_and_the_next_is_not() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.ask_words(&["SET", "large", &"x".repeat(1 << 20)]);
    let size = client.ask("DBSIZE");
    let too_large = "max change size exceeded. Limit: 537919488 bytes, Actual: 53";

    client.expect(&[("MULTI", "+OK"), ("SET k 1", "+QUEUED")]);
    for n in 0..600 {
        assert_eq!(client.ask(&format!("COPY large copy{n}")), "+QUEUED");
    }
    let reply = client.ask("EXEC");
    assert!(reply.contains(too_large), "{}", &reply[..reply.len().min(300)]);
    client.expect(&[("DBSIZE", &size), ("EXISTS k copy0", ":0")]);

    // The script ignores the error.
    let ignores = "redis.call('SET', KEYS[1], 1) local taken = 0 for n = 1, 5000 do \
                   if redis.pcall('COPY', 'large', 'copy' .. n) == 1 then taken = taken + 1 end end return taken";
    let reply = client.ask_words(&["EVAL", ignores, "1", "k"]);
    assert!(reply.starts_with('-') && reply.contains(too_large), "{reply}");
    client.expect(&[("DBSIZE", &size), ("EXISTS k copy1", ":0"), ("SET k 2", "+OK"), ("GET k", "2")]);
}
