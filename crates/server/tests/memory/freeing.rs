//! Large keys are freed while others are served, and memory that is free is returned to the system.

use std::time::Duration;

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;

use crate::common::start;
use crate::resp::{Client, info, pause, until};

const MEMBERS: usize = 1_000_000;
/// Members that are not stored inline, so that each is freed by itself.
const MEMBER_FILLER: &str = "a-member-that-needs-an-allocation";

fn add_members(client: &mut Client, key: &str) {
    for first in (0..MEMBERS).step_by(1000) {
        let members: Vec<String> = (first..first + 1000).map(|n| format!("{MEMBER_FILLER}:{n}")).collect();
        assert_eq!(client.ask(&format!("SADD {key} {}", members.join(" "))), ":1000");
    }
}

fn resident(client: &mut Client) -> u64 {
    info(client, "memory", "used_memory_rss")
}

fn in_memory() -> (Server, Client) {
    let server = start(&["--durability", "memory"]);
    let client = Client::connect(&server);
    (server, client)
}

/// Freeing a million members takes about a hundred milliseconds, of which no request may see more than a part.
#[test]
fn a_large_key_is_deleted_at_once() {
    let (_server, mut client) = in_memory();
    let before = info(&mut client, "memory", "used_memory");
    for (key, delete) in
        [("a", "DEL a"), ("b", "UNLINK b"), ("c", "SET c v"), ("d", "FLUSHALL"), ("e", "EXPIRE e -1")]
    {
        // A machine that is busy delays a reply, too, but not each time; freeing would.
        let quick = (0..3).any(|_| {
            client.ask(&format!("DEL {key}"));
            add_members(&mut client, key);
            let began = Stopwatch::start();
            client.ask(delete);
            let took = began.elapsed();
            println!("{delete}: {took:?}");
            took < Duration::from_millis(30)
        });
        assert!(quick, "{delete} waits until the members are freed");
    }
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    until("the figures of the last batch", || info(&mut client, "memory", "used_memory") == before);
}

#[test]
fn memory_is_returned_after_a_flush_and_after_deletions() {
    let (_server, mut client) = in_memory();
    let empty = resident(&mut client);
    for way in ["flush", "delete"] {
        for first in (0..1_000_000).step_by(1000) {
            let pairs: Vec<String> =
                (first..first + 1000).map(|n| format!("key:{n:010} {MEMBER_FILLER}")).collect();
            assert_eq!(client.ask(&format!("MSET {}", pairs.join(" "))), "+OK");
        }
        let full = resident(&mut client);
        if way == "flush" {
            assert_eq!(client.ask("FLUSHALL"), "+OK");
        } else {
            for first in (0..1_000_000).step_by(1000) {
                let keys: Vec<String> = (first..first + 1000).map(|n| format!("key:{n:010}")).collect();
                assert_eq!(client.ask(&format!("DEL {}", keys.join(" "))), ":1000");
            }
        }
        until("freed", || {
            pause(50);
            assert_eq!(client.ask("MEMORY PURGE"), "+OK");
            resident(&mut client) < empty + (full - empty) / 10
        });
        println!("{way}: {empty} bytes empty, {full} full, {} after it", resident(&mut client));
    }
}
