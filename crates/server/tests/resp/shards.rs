//! Several shards: a connection is on one of them, its keys are on any.

use std::collections::BTreeSet;

use keystead_core::key::slot;
use keystead_core::{ShardId, Stopwatch};
use keystead_testkit::server::Server;

use crate::client::{Client, pause, request, until_blocked};
use crate::common::start;
use crate::memory;

pub(crate) const SHARDS: usize = 4;
/// Connections are dealt out in turn, so every shard has some, and every key is elsewhere for most.
const CLIENTS: usize = 20;
const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";

fn sharded() -> (Server, Vec<Client>) {
    let server = memory(&["--shards", "4"]);
    let clients = (0..CLIENTS).map(|_| Client::connect(&server)).collect();
    (server, clients)
}

/// A key of each shard.
pub(crate) fn key_of(shard: ShardId) -> String {
    let there = |key: &String| ShardId((usize::from(slot(key.as_bytes())) * SHARDS) >> 14) == shard;
    (0..).map(|n| format!("k{n}")).find(there).unwrap()
}

#[test]
fn every_connection_sees_every_key() {
    let (_server, mut clients) = sharded();
    for (n, client) in clients.iter_mut().enumerate() {
        for key in 0..20 {
            assert_eq!(client.ask(&format!("INCR k{key}")), format!(":{}", n + 1));
            assert_eq!(client.ask(&format!("APPEND text{key} x")), format!(":{}", n + 1));
        }
    }
    let lines: Vec<_> = (0..20).map(|key| format!("GET k{key}")).collect();
    for client in &mut clients {
        assert_eq!(client.ask_all(lines.iter().map(String::as_str)), ["20"; 20]);
        assert_eq!(
            client.ask("LPUSH k0 x"),
            "-WRONGTYPE Operation against a key holding the wrong kind of value"
        );
        assert_eq!(client.ask("GET"), "-ERR wrong number of arguments for 'get' command");
    }
}

#[test]
fn replies_to_a_pipeline_over_all_shards_are_in_order() {
    for level in ["memory", "commit", "fsync"] {
        let server = start(&["--shards", "4", "--durability", level]);
        let mut client = Client::connect(&server);
        let bytes: Vec<u8> = (0..2000)
            .flat_map(|n| {
                [request(&format!("SET k{} {n}", n % 50)), request(&format!("GET k{}", n % 50))].concat()
            })
            .collect();
        client.send_raw(&bytes);
        for n in 0..2000 {
            assert_eq!((client.receive(), client.receive()), ("+OK".into(), n.to_string()), "{level}");
        }
    }
}

#[test]
fn keys_with_a_hash_tag_share_a_shard_and_others_are_cross_slot() {
    let (_server, mut clients) = sharded();
    for (n, client) in clients.iter_mut().enumerate() {
        client.expect(&[
            (&format!("MSET a{{{n}}} 1 b{{{n}}} 2"), "+OK"),
            (&format!("MGET a{{{n}}} b{{{n}}} c{{{n}}}"), "[1 2 $-1]"),
            (&format!("RENAME a{{{n}}} c{{{n}}}"), "+OK"),
            (&format!("DEL a{{{n}}} b{{{n}}} c{{{n}}}"), ":2"),
            (&format!("SADD s{{{n}}} x y"), ":2"),
            (&format!("SUNIONSTORE t{{{n}}} s{{{n}}} none{{{n}}}"), ":2"),
            (&format!("RPUSH l{{{n}}} v"), ":1"),
            (&format!("LMOVE l{{{n}}} m{{{n}}} LEFT LEFT"), "v"),
        ]);
        let [first, second] = [key_of(ShardId(0)), key_of(ShardId(2))];
        client.expect(&[
            (&format!("MSET {first} 1 {second} 2"), CROSS_SLOT),
            (&format!("MSETNX {first} 1 {second} 2"), CROSS_SLOT),
            (&format!("RENAME {first} {second}"), CROSS_SLOT),
            (&format!("BLPOP {first} {second} 1"), CROSS_SLOT),
            (&format!("EXISTS {first}"), ":0"),
        ]);
    }
}

#[test]
fn commands_that_are_split_return_what_one_shard_would() {
    let (_server, mut clients) = sharded();
    let keys: Vec<String> = ShardId::all(SHARDS).map(key_of).collect();
    let [a, b, c, d] = &keys[..] else { panic!("{keys:?}") };
    for client in &mut clients {
        client.expect(&[
            (&format!("SET {a} 1"), "+OK"),
            (&format!("RPUSH {b} x"), ":1"),
            (&format!("SET {d} 4"), "+OK"),
            // A list is nil, a key that is given twice is returned twice, and the order is that of the request.
            (&format!("MGET {d} {b} {a} {c} {d} {a}"), "[4 $-1 1 $-1 4 1]"),
            (&format!("EXISTS {a} {b} {c} {d} {a}"), ":4"),
            (&format!("TOUCH {c} {d}"), ":1"),
            (&format!("DEL {a} {c} {b}"), ":2"),
            (&format!("UNLINK {a} {d}"), ":1"),
            ("DBSIZE", ":0"),
            // Not in one step, so not in a transaction.
            ("MULTI", "+OK"),
            (&format!("DEL {a} {b}"), "+QUEUED"),
            ("EXEC", CROSS_SLOT),
        ]);
        // Behind writes of the same pipeline it sees them.
        let sets = keys.iter().map(|key| format!("SET {key} {key}\r\n")).collect::<String>();
        client.send_raw(format!("{sets}MGET {}\r\nDEL {}\r\n", keys.join(" "), keys.join(" ")).as_bytes());
        let replies: Vec<String> = (0..keys.len() + 2).map(|_| client.receive()).collect();
        let expected =
            [vec!["+OK".to_owned(); keys.len()], vec![format!("[{}]", keys.join(" ")), ":4".to_owned()]];
        assert_eq!(replies, expected.concat());
    }
}

#[test]
fn a_split_deletion_that_was_acknowledged_survives_a_kill() {
    let mut server = start(&["--shards", "4", "--durability", "commit"]);
    let keys: Vec<String> = ShardId::all(SHARDS).map(key_of).collect();
    let mut client = Client::connect(&server);
    keys.iter().for_each(|key| client.expect(&[(&format!("SET {key} v"), "+OK")]));
    client.expect(&[(&format!("DEL {}", keys[1..].join(" ")), ":3")]);
    server.kill().unwrap();
    server.restart().unwrap();
    Client::connect(&server).expect(&[(&format!("MGET {}", keys.join(" ")), "[v $-1 $-1 $-1]")]);
}

#[test]
fn a_transaction_runs_where_its_keys_are() {
    let (_server, mut clients) = sharded();
    for (n, client) in clients.iter_mut().enumerate() {
        for shard in ShardId::all(SHARDS) {
            let key = key_of(shard);
            let count = n + 1;
            client.expect(&[
                ("MULTI", "+OK"),
                (&format!("INCR {key}"), "+QUEUED"),
                ("PING", "+QUEUED"),
                (&format!("LPUSH {key} x"), "+QUEUED"),
                (&format!("SET {{{key}}}b {n}"), "+QUEUED"),
                ("CLIENT SETNAME me", "+QUEUED"),
                (
                    "EXEC",
                    &format!(
                        "[:{count} +PONG -WRONGTYPE Operation against a key holding the wrong kind of value +OK +OK]"
                    ),
                ),
                ("CLIENT GETNAME", "me"),
                (&format!("MGET {key} {{{key}}}b"), &format!("[{count} {n}]")),
            ]);
        }
        let (first, second) = (key_of(ShardId(1)), key_of(ShardId(3)));
        client.expect(&[
            ("MULTI", "+OK"),
            (&format!("SET {first} bad"), "+QUEUED"),
            (&format!("SET {second} bad"), "+QUEUED"),
            ("EXEC", CROSS_SLOT),
            (&format!("GET {first}"), &(n + 1).to_string()),
            ("MULTI", "+OK"),
            ("PING", "+QUEUED"),
            ("EXEC", "[+PONG]"),
        ]);
    }
}

#[test]
fn watching_works_on_every_shard() {
    let (_server, mut clients) = sharded();
    let mut other = clients.pop().unwrap();
    for client in &mut clients {
        for key in ShardId::all(SHARDS).map(key_of) {
            let [watch, set, incr] = ["WATCH", "SET", "INCR"].map(|name| format!("{name} {key}"));
            client.expect(&[
                (&watch, "+OK"),
                ("MULTI", "+OK"),
                (&format!("{set} 1"), "+QUEUED"),
                ("EXEC", "[+OK]"),
            ]);
            client.expect(&[(&watch, "+OK")]);
            assert_eq!(other.ask(&incr), ":2");
            client.expect(&[("MULTI", "+OK"), (&incr, "+QUEUED"), ("EXEC", "*-1")]);
            client.expect(&[(&watch, "+OK"), ("UNWATCH", "+OK")]);
            assert_eq!(other.ask(&incr), ":3");
            client.expect(&[("MULTI", "+OK"), (&incr, "+QUEUED"), ("EXEC", "[:4]")]);
            client.expect(&[(&watch, "+OK")]);
            assert_eq!(other.ask("FLUSHALL"), "+OK");
            client.expect(&[("MULTI", "+OK"), (&incr, "+QUEUED"), ("EXEC", "*-1")]);
        }
        let [first, second] = [key_of(ShardId(0)), key_of(ShardId(3))];
        client.expect(&[(&format!("WATCH {first} {second}"), CROSS_SLOT)]);
        client.expect(&[
            (&format!("WATCH {first}"), "+OK"),
            (&format!("WATCH {second}"), CROSS_SLOT),
            ("UNWATCH", "+OK"),
        ]);
    }
}

#[test]
fn a_watched_key_on_another_shard_that_expires_aborts() {
    let (_server, mut clients) = sharded();
    for (n, client) in clients.iter_mut().enumerate() {
        client.expect(&[(&format!("SET k{n} v PX 1000"), "+OK"), (&format!("WATCH k{n}"), "+OK")]);
        assert_ne!(client.ask(&format!("PTTL k{n}")), ":-2", "it is watched before it expires");
    }
    pause(1100);
    for (n, client) in clients.iter_mut().enumerate() {
        client.expect(&[("MULTI", "+OK"), (&format!("SET k{n} w"), "+QUEUED"), ("EXEC", "*-1")]);
    }
}

#[test]
fn waiting_works_on_every_shard() {
    let (_server, mut clients) = sharded();
    let mut admin = clients.pop().unwrap();
    for (n, client) in clients.iter_mut().enumerate() {
        let watch = Stopwatch::start();
        assert_eq!(client.ask(&format!("BLPOP k{n} 0.05")), "*-1");
        assert!((45..5000).contains(&watch.elapsed().as_millis()), "{:?}", watch.elapsed());
        client.send(&format!("BLPOP k{n} 0"));
    }
    until_blocked(&mut admin, clients.len() as u64);
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(admin.ask(&format!("RPUSH k{n} v{n}")), ":1");
        assert_eq!(client.receive(), format!("[k{n} v{n}]"));
    }
    assert_eq!(admin.ask("DBSIZE"), ":0");
    // The line of one key, in which clients of all shards stand.
    for (n, client) in clients.iter_mut().enumerate() {
        client.send("BLPOP k 0");
        until_blocked(&mut admin, n as u64 + 1);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(admin.ask(&format!("RPUSH k {n}")), ":1");
        assert_eq!(client.receive(), format!("[k {n}]"));
    }
}

#[test]
fn commands_about_all_keys_ask_all_shards() {
    let (_server, mut clients) = sharded();
    let mut expected = BTreeSet::new();
    for n in 0..3000 {
        let client = &mut clients[n % CLIENTS];
        assert_eq!(client.ask(&format!("SET key:{n} v")), "+OK");
        expected.insert(format!("key:{n}"));
    }
    for client in &mut clients {
        assert_eq!(client.ask("DBSIZE"), ":3000");
        assert!(expected.contains(&client.ask("RANDOMKEY")));
    }
    let client = &mut clients[0];
    let keys = client.ask("KEYS key:*");
    let keys: Vec<_> = keys.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect();
    assert_eq!((keys.len(), keys.into_iter().collect::<BTreeSet<_>>()), (3000, expected.clone()));
    assert_eq!(client.ask("KEYS key:12"), "[key:12]");
    for count in [1, 10, 7, 1000, 100_000] {
        let seen = walk(client, &format!(" COUNT {count}"));
        assert_eq!(seen.len(), 3000, "COUNT {count}: every key once");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected, "COUNT {count}");
    }
    assert_eq!(walk(client, " MATCH key:1??0").len(), 100);
    assert_eq!(walk(client, " TYPE list").len(), 0);
    client.expect(&[("SCAN x", "-ERR invalid cursor"), ("SCAN 0 COUNT 0", "-ERR syntax error")]);
    assert_eq!(clients[1].ask("FLUSHALL"), "+OK");
    for client in &mut clients {
        client.expect(&[
            ("DBSIZE", ":0"),
            ("KEYS *", "[]"),
            ("SCAN 0 COUNT 1000", "[1 []]"),
            ("RANDOMKEY", "$-1"),
        ]);
    }
}

/// All keys that a walk finds, in the order in which it does.
fn walk(client: &mut Client, options: &str) -> Vec<String> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let reply = client.ask(&format!("SCAN {cursor}{options}"));
        let (next, keys) = reply.strip_prefix('[').and_then(|text| text.split_once(" [")).unwrap();
        found.extend(keys.trim_end_matches(']').split_terminator(' ').map(str::to_owned));
        next.clone_into(&mut cursor);
        if cursor == "0" {
            return found;
        }
    }
}

#[test]
fn a_walk_while_keys_come_and_go_finds_all_that_stay() {
    let (_server, mut clients) = sharded();
    let stay: BTreeSet<String> = (0..500).map(|n| format!("stay:{n}")).collect();
    let mut client = clients.pop().unwrap();
    for key in &stay {
        assert_eq!(client.ask(&format!("SET {key} v")), "+OK");
    }
    let busy: Vec<_> = clients
        .drain(..4)
        .enumerate()
        .map(|(name, mut client)| {
            std::thread::spawn(move || {
                for n in 0..1500 {
                    let line = if n % 3 == 2 {
                        format!("DEL go:{name}:{}", n - 2)
                    } else {
                        format!("SET go:{name}:{n} v")
                    };
                    client.ask(&line);
                }
            })
        })
        .collect();
    for _ in 0..5 {
        let seen: BTreeSet<String> = walk(&mut client, " MATCH stay:* COUNT 7").into_iter().collect();
        assert_eq!(seen, stay);
    }
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn messages_cross_shards() {
    let (_server, mut clients) = sharded();
    let mut publisher = clients.pop().unwrap();
    for client in &mut clients {
        assert_eq!(client.ask("SUBSCRIBE c"), "[subscribe c :1]");
    }
    for n in 0..20 {
        assert_eq!(publisher.ask(&format!("PUBLISH c {n}")), format!(":{}", clients.len()));
    }
    for client in &mut clients {
        for n in 0..20 {
            assert_eq!(client.receive(), format!("[message c {n}]"));
        }
    }
}
