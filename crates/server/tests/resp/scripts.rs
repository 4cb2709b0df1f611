//! Scripts over RESP: what is rolled back, what survives a restart, and what they may do with several shards.

use crate::client::{Client, until};
use crate::common::start;
use crate::memory;

const LIBRARY: &str = "#!lua name=lib\nredis.register_function('add', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)";

#[test]
fn a_script_that_is_stopped_is_undone_and_one_that_fails_is_not() {
    for level in ["memory", "commit"] {
        let server = start(&["--durability", level]);
        let mut client = Client::connect(&server);
        client.ask("CONFIG SET busy-reply-threshold 100");
        client.ask("SET kept 1");
        let endless = "redis.call('SET', KEYS[1], 'x') redis.call('DEL', 'kept') while true do end";
        let reply = client.ask_words(&["EVAL", endless, "1", "k"]);
        assert!(reply.contains("took longer than 100 ms; what it changed is undone"), "{reply}");
        client.expect(&[("GET k", "$-1"), ("GET kept", "1")]);
        // Memory, not time, is to end this one.
        client.ask("CONFIG SET busy-reply-threshold 10000");
        let greedy = "redis.call('SET', KEYS[1], 'x') local s = 'x' while true do s = s .. s end";
        let reply = client.ask_words(&["EVAL", greedy, "1", "k"]);
        assert!(reply.starts_with("-OOM "), "{reply}");
        client.expect(&[("GET k", "$-1")]);
        let failing = "redis.call('SET', KEYS[1], 'x') error('oh')";
        assert!(
            client.ask_words(&["EVAL", failing, "1", "k"]).starts_with("-ERR user_script:1: oh script: ")
        );
        client.expect(&[("GET k", "x")]);
        client.ask("CONFIG SET busy-reply-threshold 100");
        // In a transaction everything is undone.
        client.expect(&[("MULTI", "+OK"), ("SET other 1", "+QUEUED")]);
        assert_eq!(client.ask_words(&["EVAL", endless, "1", "k"]), "+QUEUED");
        let reply = client.ask("EXEC");
        assert!(reply.starts_with("-EXECABORT Transaction undone: "), "{reply}");
        client.expect(&[("EXISTS other kept", ":1"), ("GET k", "x")]);
    }
}

#[test]
fn what_a_script_wrote_survives_and_functions_too() {
    let mut server = start(&["--durability", "commit"]);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask_words(&["FUNCTION", "LOAD", LIBRARY]), "lib");
    client.expect(&[("FCALL add 1 k 5", ":5")]);
    let set = "for i = 1, 100 do redis.call('HSET', KEYS[1], i, i) end return 'done'";
    assert_eq!(client.ask_words(&["EVAL", set, "1", "h"]), "done");
    server.kill().unwrap();
    server.restart().unwrap();
    let mut client = Client::connect(&server);
    client.expect(&[("FCALL add 1 k 5", ":10"), ("HLEN h", ":100"), ("FUNCTION FLUSH", "+OK")]);
    server.kill().unwrap();
    server.restart().unwrap();
    Client::connect(&server).expect(&[("FCALL add 1 k 5", "-ERR Function not found"), ("GET k", "10")]);
}

#[test]
fn scripts_and_functions_are_known_on_every_shard() {
    let server = memory(&["--shards", "4"]);
    let mut clients: Vec<_> = (0..8).map(|_| Client::connect(&server)).collect();
    assert_eq!(clients[0].ask_words(&["FUNCTION", "LOAD", LIBRARY]), "lib");
    let digits = clients[0].ask_words(&["SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"]);
    for (n, client) in clients.iter_mut().enumerate() {
        for key in 0..10 {
            assert_eq!(client.ask(&format!("FCALL add 1 f{key} 2")), format!(":{}", 2 * n + 2));
            assert_eq!(client.ask(&format!("EVALSHA {digits} 1 s{key}")), format!(":{}", n + 1));
        }
    }
    let elsewhere = "-ERR Script attempted to access a non local key in a cluster node";
    let get = "return redis.pcall('GET', ARGV[1])";
    let replies: Vec<String> =
        (0..20).map(|n| clients[0].ask_words(&["EVAL", get, "1", "a", &format!("k{n}")])).collect();
    assert!(replies.iter().any(|reply| reply == elsewhere) && replies.iter().any(|reply| reply == "$-1"));
    clients[1].ask("SCRIPT FLUSH");
    for client in &mut clients {
        let reply = client.ask(&format!("EVALSHA {digits} 1 s1"));
        assert_eq!(reply, "-NOSCRIPT No matching script. Please use EVAL.");
    }
}

#[test]
fn a_script_can_be_killed_from_another_shard() {
    let server = memory(&["--shards", "2"]);
    // Connections are dealt out in turn, so one of two is elsewhere.
    let mut clients = [Client::connect(&server), Client::connect(&server)];
    let endless = crate::client::request_of(["EVAL", "while true do end", "0"].map(str::as_bytes));
    clients[0].send_raw(&endless);
    until("a script runs and is killed", || clients[1].ask("SCRIPT KILL") == "+OK");
    let reply = clients[0].receive();
    assert!(reply.contains("Script killed by user with SCRIPT KILL..."), "{reply}");
    clients[1].expect(&[("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.")]);
}
