//! More values than memory: replies are right, no request is lost while a shard is paused, and memory stays within its limit.

use keystead_testkit::server::Server;

use crate::client::{Client, request};
use crate::common::start;

const WRITERS: usize = 8;
const KEYS: usize = 60;
const VALUE_BYTES: usize = 64 * 1024;

fn value(writer: usize, n: usize) -> String {
    format!("{writer}:{n}:").repeat(VALUE_BYTES / 4)[..VALUE_BYTES].to_owned()
}

/// Sends all requests of a writer at once, as fast as the server takes them, then reads all replies.
fn pipeline(server: &Server, writer: usize, request_for: impl Fn(usize) -> Vec<u8>) -> Vec<String> {
    let mut client = Client::connect(server);
    let bytes: Vec<u8> = (0..KEYS).flat_map(request_for).collect();
    client.send_raw(&bytes);
    client.half_close();
    let replies = client.rest();
    assert_eq!(replies.len(), KEYS, "writer {writer}");
    replies
}

fn all_at_once(run: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let run = &run;
            scope.spawn(move || run(writer));
        }
    });
}

fn values_beyond_memory_come_and_go(level: &str, shards: &str) {
    let server = start(&["--durability", level, "--shards", shards, "--memory", "2mb"]);
    all_at_once(|writer| {
        let set = |n| request(&format!("SET k{writer}:{n} {}", value(writer, n)));
        assert!(pipeline(&server, writer, set).iter().all(|reply| reply == "+OK"));
    });
    all_at_once(|writer| {
        let get = |n| request(&format!("GET k{writer}:{n}"));
        let replies = pipeline(&server, writer, get);
        assert!(replies.iter().enumerate().all(|(n, reply)| *reply == value(writer, n)), "writer {writer}");
    });
    let mut client = Client::connect(&server);
    let used = crate::client::info(&mut client, "memory", "used_memory");
    // 30 MB of values were read; a moment later what does not fit has gone.
    assert!(used < 4 << 20, "{used} bytes");
    assert_eq!(client.ask("DBSIZE"), format!(":{}", WRITERS * KEYS));
}

#[test]
fn values_beyond_memory_come_and_go_at_fsync() {
    values_beyond_memory_come_and_go("fsync", "1");
}

#[test]
fn values_beyond_memory_come_and_go_at_commit_on_4_shards() {
    values_beyond_memory_come_and_go("commit", "4");
}
