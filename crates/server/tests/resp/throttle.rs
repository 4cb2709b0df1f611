//! Rate limits: no unit is admitted twice, from any connection, and what was admitted survives.

use std::sync::{Arc, Barrier};

use keystead_testkit::server::Server;

use crate::client::Client;
use crate::common::start;

const ASKERS: usize = 200;
const LIMIT: usize = 50;

/// Arguments of a limit of 50 that is not refilled while a test runs, and the reply to an admitted request.
const COMMANDS: [(&str, &str, &str); 2] =
    [("CL.THROTTLE", "49 50 360000", "[:0 :50 "), ("THROTTLE", "50 50 360000", "[:1 :50 ")];

/// How many of 200 requests at the same time are admitted, each from a connection of its own.
fn admitted(server: &Server, name: &str, numbers: &str, yes: &'static str) -> usize {
    let barrier = Arc::new(Barrier::new(ASKERS));
    let line = format!("{name} {name}:{{k}} {numbers}");
    let askers: Vec<_> = (0..ASKERS)
        .map(|_| {
            let (mut client, barrier, line) = (Client::connect(server), Arc::clone(&barrier), line.clone());
            std::thread::spawn(move || {
                barrier.wait();
                let reply = client.ask(&line);
                assert!(reply.starts_with("[:0 :50 ") || reply.starts_with("[:1 :50 "), "{reply}");
                reply.starts_with(yes)
            })
        })
        .collect();
    askers.into_iter().map(|asker| usize::from(asker.join().unwrap())).sum()
}

#[test]
fn two_hundred_at_once_get_exactly_the_limit_and_a_restart_gives_nothing_back() {
    for (level, shards) in [("memory", "1"), ("memory", "4"), ("commit", "1"), ("fsync", "4")] {
        let mut server = start(&["--durability", level, "--shards", shards]);
        for (name, numbers, yes) in COMMANDS {
            let count = admitted(&server, name, numbers, yes);
            assert_eq!(count, LIMIT, "{name} at {level} on {shards} shards");
        }
        if level == "memory" {
            continue;
        }
        server.kill().unwrap();
        server.restart().unwrap();
        for (name, numbers, yes) in COMMANDS {
            assert_eq!(admitted(&server, name, numbers, yes), 0, "{name} after a restart at {level}");
        }
    }
}

#[test]
fn transactions_and_scripts_ask_and_are_undone_as_one() {
    for shards in ["1", "4"] {
        let server = start(&["--durability", "commit", "--shards", shards]);
        let mut client = Client::connect(&server);
        client.expect(&[
            ("MULTI", "+OK"),
            ("CL.THROTTLE k 2 1 3600", "+QUEUED"),
            ("THROTTLE k 3 1 3600 2", "+QUEUED"),
            ("THROTTLE k 3 1 3600", "+QUEUED"),
            ("CL.THROTTLE k x 1 3600", "+QUEUED"),
            (
                "EXEC",
                "[[:0 :3 :2 :-1 :3600] [:1 :3 :0 :10800 :0] [:0 :3 :0 :10800 :3600] -ERR invalid max_burst: it must be a \
                 whole number from 0 to 9007199254740990]",
            ),
            ("CONFIG SET busy-reply-threshold 100", "+OK"),
        ]);
        let script = "return redis.call('THROTTLE', KEYS[1], 2, 1, 3600)";
        assert_eq!(client.ask_words(&["EVAL", script, "1", "s"]), "[:1 :2 :1 :3600 :0]");
        let endless = "redis.call('THROTTLE', KEYS[1], 2, 1, 3600) while true do end";
        let reply = client.ask_words(&["EVAL", endless, "1", "s"]);
        assert!(reply.contains("what it changed is undone"), "{reply}");
        let reply = client.ask("THROTTLE s 2 1 3600 0");
        assert!(reply.starts_with("[:1 :2 :1 "), "the stopped script took nothing: {reply}");
    }
}
