//! What is rejected at the limit, what still works, and what makes room.

use crate::common::launch;
use crate::resp::{Client, info, pause, until};
use crate::{KEYS, LIMIT_BYTES, OOM, fill, full};

/// The memory of the process is at most this many times the limit, beside what an idle process has.
const RESIDENT_FACTOR: f64 = 1.5;
/// Memory that does not depend on the limit: the binary, the archive's caches, buffers of connections and of the journal.
const RESIDENT_FIXED_BYTES: u64 = 96 << 20;

#[test]
fn a_million_small_keys_stay_within_a_limit_of_64_mb() {
    const LIMIT_BYTES: u64 = 64 << 20;
    // With less than half of what these keys would take without a limit.
    let server =
        launch(&["--durability", "commit", "--memory", "64mb"]).address_space(2 << 30).start().unwrap();
    let mut client = Client::connect(&server);
    let rejected = fill(&mut client, 1_000_000);
    let (used, resident) =
        (info(&mut client, "memory", "used_memory"), info(&mut client, "memory", "used_memory_rss"));
    println!("{rejected} of 1000000 keys rejected, {used} bytes used, {resident} resident");
    assert!((LIMIT_BYTES..LIMIT_BYTES + (1 << 20)).contains(&used), "{used}");
    let most = (LIMIT_BYTES as f64 * RESIDENT_FACTOR) as u64 + RESIDENT_FIXED_BYTES;
    assert!(resident < most, "{resident} bytes are resident");
    assert_eq!(client.ask("DBSIZE"), format!(":{}", 1_000_000 - rejected));
    for n in [0, 1000, 1_000_000 - rejected - 1] {
        assert_eq!(client.ask(&format!("GET key:{n:010}")), "v");
    }
}

#[test]
fn reads_and_deletions_work_and_make_room() {
    let (server, mut client) = full(&[]);
    client.expect(&[
        ("SET new v", OOM),
        ("SET key:0000000000 w", OOM),
        ("INCR n", OOM),
        ("HSET h f v", OOM),
        ("MSET a 1 b 2", OOM),
        ("LPUSH l v", OOM),
        ("GET key:0000000000", "v"),
        ("EXPIRE key:0000000000 100", ":1"),
        ("PERSIST key:0000000000", ":1"),
        ("RENAME key:0000000000 key:renamed", "+OK"),
        ("EXISTS new n h a l", ":0"),
    ]);
    let limit = info(&mut client, "memory", "maxmemory");
    let used = info(&mut client, "memory", "used_memory");
    assert!(limit == LIMIT_BYTES && used > limit, "{used} of {limit}");
    for n in 1..100 {
        assert_eq!(client.ask(&format!("DEL key:{n:010}")), ":1");
    }
    client.expect(&[("SET new v", "+OK"), ("GET new", "v")]);
    assert!(fill(&mut client, KEYS) > 0, "there was room for a hundred");
    client.expect(&[("SET other v", OOM), ("FLUSHALL", "+OK"), ("SET other v", "+OK")]);
    drop(server);
}

#[test]
fn expired_keys_make_room() {
    let (_server, mut client) = full(&[]);
    for n in 0..200 {
        assert_eq!(client.ask(&format!("PEXPIRE key:{n:010} 50")), ":1");
    }
    assert_eq!(client.ask("SET new v"), OOM);
    until("room", || client.ask("SET new v") == "+OK");
}

/// What redis-server 7.0 replies with `maxmemory 1`.
#[test]
fn transactions_and_scripts_are_rejected_as_in_redis() {
    let (server, mut client) = full(&[]);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET a 3", OOM),
        ("EXEC", aborted),
        ("MULTI", "+OK"),
        ("GET a", OOM),
        ("EXEC", aborted),
    ]);
    for (script, reply) in [
        ("return 1", ":1"),
        ("return redis.call('get','key:0000000001')", "v"),
        ("return redis.pcall('set','x','1')", OOM),
        ("redis.call('del','key:0000000001'); return redis.call('set','x','1')", "+OK"),
        ("#!lua\nreturn redis.call('get','key:0000000002')", OOM),
        ("#!lua flags=allow-oom\nreturn redis.call('set','y','1')", "+OK"),
        ("#!lua flags=no-writes\nreturn redis.call('get','key:0000000002')", "v"),
    ] {
        // Each of these may make room or use it.
        fill(&mut client, KEYS);
        assert_eq!(client.ask_words(&["EVAL", script, "0"]), reply, "{script}");
    }
    fill(&mut client, KEYS);
    let raised = client.ask_words(&["EVAL", "return redis.call('set','z','1')", "0"]);
    assert!(raised.starts_with(OOM) && raised.ends_with("on @user_script:1."), "{raised}");
    let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)\n\
        redis.register_function{function_name='g', callback=function() return redis.call('set','z','1') end, flags={'allow-oom'}}";
    client.ask_words(&["FUNCTION", "LOAD", library]);
    client.expect(&[("FCALL f 0", OOM), ("FCALL g 0", "+OK")]);
    drop(server);
}

/// Queued while there was room.
#[test]
fn a_transaction_does_not_begin_without_room() {
    let (server, mut client) = full(&[]);
    let mut other = Client::connect(&server);
    client.expect(&[("DEL key:0000000000", ":1"), ("DEL key:0000000001", ":1")]);
    // Queueing depends on the figures of the last batch.
    pause(300);
    other.expect(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("DEL key:0000000002", "+QUEUED")]);
    fill(&mut client, KEYS);
    let aborted = format!("-EXECABORT Transaction discarded because of: {}", &OOM[1..]);
    other.expect(&[("EXEC", &aborted), ("EXISTS a key:0000000002", ":1")]);
}

#[test]
fn each_shard_has_its_part_of_the_limit() {
    let (_server, mut client) = full(&["--shards", "4"]);
    let used = info(&mut client, "memory", "used_memory");
    // Keys are spread evenly enough that all shards are full, and none exceeds its part by more than a key.
    assert!(used < LIMIT_BYTES + 1000, "{used}");
    fill(&mut client, KEYS);
    let used = info(&mut client, "memory", "used_memory");
    assert!(used > LIMIT_BYTES, "{used}");
}
