//! Commands of Redis clients through a router.

use std::collections::BTreeSet;

use crate::Cluster;
use crate::client::Http;
use crate::resp::{Client, request};

#[test]
fn commands_run_on_the_owners_of_their_keys() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    for (n, key) in cluster.keys("c").into_iter().enumerate() {
        client.expect(&[(&format!("SET {key} {n}"), "+OK"), (&format!("GET {key}"), &n.to_string())]);
        assert_eq!(Client::connect(&cluster.nodes[n]).ask(&format!("GET {key}")), n.to_string());
        // One keyspace over both listeners.
        assert_eq!(
            Http::connect(&cluster.router).get(&format!("/get/{key}")).json()["result"],
            n.to_string()
        );
    }
    client.expect(&[
        ("PING", "+PONG"),
        ("PING hello", "hello"),
        ("ECHO hello", "hello"),
        ("SELECT 0", "+OK"),
        ("DBSIZE", ":3"),
        ("MSET {t}a 1 {t}b 2", "+OK"),
        ("MGET {t}a {t}b", "[1 2]"),
        ("HSET h f v g w", ":2"),
        ("HGETALL h", "[f v g w]"),
        ("EVAL return(redis.call('GET',KEYS[1])) 1 {t}b", "2"),
        ("MSET a 1 b 2", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("RENAME a b", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("CLUSTER INFO", "-ERR This instance has cluster support disabled"),
    ]);
    assert!(client.ask("NOSUCH a").starts_with("-ERR unknown command 'NOSUCH'"));
    for line in ["CONFIG GET maxmemory", "SAVE", "SHUTDOWN", "WAIT 0 0", "SLOWLOG GET", "DEBUG SLEEP 0"] {
        let reply = client.ask(line);
        assert!(reply.starts_with("-ERR Command is not available through a router: '"), "{line}: {reply}");
    }
    // No node of a list rejects what is not its own, so a script without keys would run anywhere.
    assert!(client.ask("EVAL return(1) 0").starts_with("-ERR Command is not available"));
}

#[test]
fn keys_of_several_nodes_are_split() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    for n in 0..100 {
        client.expect(&[(&format!("SET s{n} {n}"), "+OK")]);
    }
    let names: Vec<String> = (0..100).map(|n| format!("s{n}")).collect();
    let all = names.join(" ");
    let values: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(client.ask(&format!("MGET {all}")), format!("[{}]", values.join(" ")));
    assert_eq!(client.ask("MGET s1 missing s2 s1"), "[1 $-1 2 1]");
    client.expect(&[
        (&format!("EXISTS {all} s1 missing"), ":101"),
        (&format!("TOUCH {all}"), ":100"),
        ("DEL s0 s1 s2 s0", ":3"),
        (&format!("UNLINK {all}"), ":97"),
        ("DBSIZE", ":0"),
    ]);
    let mut third = Client::connect_3(&cluster.router);
    assert_eq!(third.ask("MGET x y z"), "[_ _ _]");
}

#[test]
fn commands_about_all_keys_are_about_all_nodes() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    assert_eq!(client.ask("RANDOMKEY"), "$-1");
    let names: BTreeSet<String> = (0..300).map(|n| format!("name{n}")).collect();
    for name in &names {
        client.expect(&[(&format!("SET {name} 1"), "+OK")]);
    }
    client.expect(&[("DBSIZE", ":300")]);
    let keys = client.ask("KEYS *");
    let keys: BTreeSet<String> = keys.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect();
    assert_eq!(keys, names);
    assert!(names.contains(&client.ask("RANDOMKEY")));
    // A scan visits every node.
    let (mut cursor, mut found, mut pages) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let reply = client.ask(&format!("SCAN {cursor} COUNT 20"));
        let (next, page) = reply.trim_start_matches('[').split_once(" [").unwrap();
        found
            .extend(page.trim_end_matches(']').split(' ').filter(|name| !name.is_empty()).map(str::to_owned));
        cursor = next.to_owned();
        pages += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, names);
    assert!(pages >= 3);
    client.expect(&[("SCAN x", "-ERR invalid cursor"), ("SCAN 65535", "[0 []]")]);
    let sha = client.ask("SCRIPT LOAD return(KEYS[1])");
    for key in ["name1", "name2", "name3", "name4"] {
        assert_eq!(client.ask(&format!("EVALSHA {sha} 1 {key}")), key);
    }
    client.expect(&[
        (&format!("SCRIPT EXISTS {sha} 0000000000000000000000000000000000000000"), "[:1 :0]"),
        ("SCRIPT FLUSH", "+OK"),
        (&format!("SCRIPT EXISTS {sha}"), "[:0]"),
        ("FLUSHALL", "+OK"),
        ("DBSIZE", ":0"),
    ]);
    let library = "#!lua name=mylib\nredis.register_function('first', function(keys) return keys[1] end)";
    assert_eq!(client.ask_words(&["FUNCTION", "LOAD", library]), "mylib");
    for key in ["name1", "name2", "name3", "name4"] {
        assert_eq!(client.ask(&format!("FCALL first 1 {key}")), key);
    }
    assert!(client.ask("FUNCTION LIST").contains("mylib"));
}

#[test]
fn the_replies_of_a_pipeline_are_in_the_order_of_its_commands() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    let lines: Vec<String> = (0..2000)
        .flat_map(|n| {
            [format!("SET p{n} v{n}"), format!("GET p{n}"), "INCR counter".to_owned(), format!("ECHO {n}")]
        })
        .collect();
    let replies = client.ask_all(lines.iter().map(String::as_str));
    for n in 0..2000 {
        let expected = ["+OK".to_owned(), format!("v{n}"), format!(":{}", n + 1), n.to_string()];
        assert_eq!(replies[4 * n..4 * n + 4], expected);
    }
    // What is answered by the router, by one node, by several, and what is an error.
    let replies = client.ask_all([
        "GET p0",
        "NOSUCH",
        "MGET p0 p1 p2",
        "RENAME a b",
        "DBSIZE",
        "PING",
        "LPOP p1",
        "DEL p0 p1",
        "GET p2",
    ]);
    assert_eq!(replies[0], "v0");
    assert!(replies[1].starts_with("-ERR unknown command"));
    assert_eq!(replies[2], "[v0 v1 v2]");
    assert!(replies[3].starts_with("-CROSSSLOT"));
    assert_eq!((&*replies[4], &*replies[5]), (":2001", "+PONG"));
    assert!(replies[6].starts_with("-WRONGTYPE"));
    assert_eq!((&*replies[7], &*replies[8]), (":2", "v2"));
}

#[test]
fn replies_are_of_the_version_that_the_client_asked_for() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    client.expect(&[
        ("HSET h f v", ":1"),
        ("ZADD z 1.5 m", ":1"),
        ("HGETALL h", "[f v]"),
        ("GET none", "$-1"),
    ]);
    // Requests before HELLO have replies of the old version.
    client.send_raw(&[request("HGETALL h"), request("HELLO 3"), request("HGETALL h")].concat());
    assert_eq!(client.receive(), "[f v]");
    assert!(client.receive().contains("mode standalone"));
    assert_eq!(client.receive(), "{f v}");
    client.expect(&[("ZSCORE z m", ",1.5"), ("GET none", "_"), ("RESET", "+RESET"), ("HGETALL h", "[f v]")]);
    client.expect(&[("HELLO 4", "-NOPROTO unsupported protocol version")]);
    assert!(client.ask("INFO").contains("role:master"));
    client.expect(&[("CLIENT SETNAME me", "+OK"), ("CLIENT GETNAME", "me")]);
    assert!(client.ask("CLIENT LIST").contains("name=me"));
    assert!(client.ask("COMMAND COUNT").starts_with(':'));
}

#[test]
fn unwanted_replies_are_not_sent() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    client.send_raw(&[request("CLIENT REPLY OFF"), request("SET a 1"), request("PING")].concat());
    client.expect(&[("CLIENT REPLY ON", "+OK"), ("GET a", "1")]);
    client.send_raw(&[request("CLIENT REPLY SKIP"), request("INCR a")].concat());
    client.expect(&[("GET a", "2"), ("MGET a b", "[2 $-1]")]);
}

#[test]
fn large_requests_and_replies_are_passed_on_whole_and_in_order() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    let [a, b, _] = cluster.keys("large").try_into().unwrap();
    for size in [70_000, 3_000_000, 20_000_000] {
        let value = "x".repeat(size);
        let mut requests = request(&format!("SET {b} small"));
        requests.extend(request(&format!("SET {a} {value}")));
        requests.extend(request(&format!("STRLEN {a}")));
        requests.extend(request(&format!("GET {a}")));
        requests.extend(request(&format!("GET {b}")));
        client.send_raw(&requests);
        assert_eq!(client.receive(), "+OK");
        assert_eq!(client.receive(), "+OK");
        assert_eq!(client.receive(), format!(":{size}"));
        assert!(client.receive() == value, "{size}");
        assert_eq!(client.receive(), "small");
    }
    // Several of them at once.
    let gets: Vec<u8> = (0..8).flat_map(|_| request(&format!("GET {a}"))).collect();
    client.send_raw(&gets);
    for _ in 0..8 {
        assert_eq!(client.receive().len(), 20_000_000);
    }
}

#[test]
fn the_token_is_that_of_the_router_and_of_the_nodes() {
    let tokens = ["--token", "full-token-of-this-test"];
    let cluster =
        Cluster::with(&[&["--durability", "memory"], &tokens[..]].concat(), |router| router.args(tokens));
    let mut client = cluster.resp();
    client.expect(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH full-token-of-this-test", "+OK"),
        ("SET a 1", "+OK"),
        ("GET a", "1"),
    ]);
    let mut client = cluster.resp();
    assert!(client.ask("HELLO 3 AUTH default full-token-of-this-test").starts_with('{'));
    assert_eq!(client.ask("GET a"), "1");
    // A router with another token reaches no node.
    let other = crate::router_of_both(&cluster.list).args(["--token", "another-token-of-this-test"]);
    let other = other.start().unwrap();
    let mut client = Client::connect(&other);
    assert_eq!(client.ask("AUTH another-token-of-this-test"), "+OK");
    let reply = client.ask("GET a");
    assert!(reply.starts_with("-ERR node ") && reply.contains("WRONGPASS"), "{reply}");
}
