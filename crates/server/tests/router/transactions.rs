//! Transactions, watched keys and requests that wait, through a router.

use crate::Cluster;
use crate::resp::{Client, request, until, until_blocked};

#[test]
fn a_transaction_runs_on_the_owner_of_its_keys() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    for key in cluster.keys("t") {
        client.expect(&[
            ("MULTI", "+OK"),
            (&format!("SET {key} 1"), "+QUEUED"),
            (&format!("INCR {key}"), "+QUEUED"),
            ("PING", "+QUEUED"),
            (&format!("GET {key}"), "+QUEUED"),
            ("EXEC", "[+OK :2 +PONG 2]"),
        ]);
    }
    let [a, b, _] = cluster.keys("t").try_into().unwrap();
    client.expect(&[
        ("MULTI", "+OK"),
        (&format!("INCR {a}"), "+QUEUED"),
        (&format!("INCR {b}"), "+QUEUED"),
        ("EXEC", "-CROSSSLOT Keys in request don't hash to the same slot"),
        (&format!("GET {a}"), "2"),
        ("MULTI", "+OK"),
        (&format!("GET {a} x"), "-ERR wrong number of arguments for 'get' command"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        (&format!("LPUSH {a} x"), "+QUEUED"),
        (&format!("INCR {a}"), "+QUEUED"),
        ("EXEC", "[-WRONGTYPE Operation against a key holding the wrong kind of value :3]"),
        ("MULTI", "+OK"),
        ("EXEC", "[]"),
        ("MULTI", "+OK"),
        (&format!("INCR {a}"), "+QUEUED"),
        ("DISCARD", "+OK"),
        (&format!("GET {a}"), "3"),
        ("EXEC", "-ERR EXEC without MULTI"),
    ]);
    // What would leave state on a connection that others share, or needs several nodes.
    for line in ["CLIENT REPLY OFF", "SUBSCRIBE x", "DBSIZE", "MGET a b", "CONFIG GET x"] {
        client.expect(&[("MULTI", "+OK")]);
        let reply = client.ask(line);
        assert!(reply.starts_with("-ERR Command is not available "), "{line}: {reply}");
        client.expect(&[("EXEC", "-EXECABORT Transaction discarded because of previous errors.")]);
    }
    // In a pipeline, between other requests.
    let replies = client.ask_all(["SET x 1", "MULTI", "INCR x", "INCR x", "EXEC", "GET x", "GET y"]);
    assert_eq!(replies, ["+OK", "+OK", "+QUEUED", "+QUEUED", "[:2 :3]", "3", "$-1"]);
}

#[test]
fn a_transaction_does_not_run_if_a_watched_key_has_changed() {
    let cluster = Cluster::start();
    let (mut client, mut other) = (cluster.resp(), cluster.resp());
    for (protocol, nil) in [("2", "*-1"), ("3", "_")] {
        client.ask(&format!("HELLO {protocol}"));
        for key in cluster.keys("w") {
            let (get, incr) = (format!("GET {key}"), format!("INCR {key}"));
            client.expect(&[
                (&format!("SET {key} 1"), "+OK"),
                (&format!("WATCH {key}"), "+OK"),
                (&get, "1"),
                ("MULTI", "+OK"),
                (&incr, "+QUEUED"),
                ("EXEC", "[:2]"),
                (&format!("WATCH {key}"), "+OK"),
            ]);
            other.expect(&[(&incr, ":3")]);
            client.expect(&[
                ("MULTI", "+OK"),
                (&incr, "+QUEUED"),
                ("EXEC", nil),
                (&format!("WATCH {key}"), "+OK"),
                ("UNWATCH", "+OK"),
            ]);
            other.expect(&[(&incr, ":4")]);
            client.expect(&[("MULTI", "+OK"), (&incr, "+QUEUED"), ("EXEC", "[:5]")]);
        }
    }
    let [a, b, _] = cluster.keys("w").try_into().unwrap();
    client.expect(&[
        (&format!("WATCH {a}"), "+OK"),
        (&format!("WATCH {b}"), "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("MULTI", "+OK"),
        (&format!("INCR {b}"), "+QUEUED"),
        ("EXEC", "-CROSSSLOT Keys in request don't hash to the same slot"),
        (&format!("GET {b}"), "5"),
    ]);
}

#[test]
fn a_request_waits_for_its_keys_and_others_do_not_wait_for_it() {
    let cluster = Cluster::start();
    let mut other = cluster.resp();
    for key in cluster.keys("q") {
        let mut waiting = cluster.resp();
        waiting.send_raw(&[request(&format!("BLPOP {key} 0")), request("PING")].concat());
        until_blocked(&mut Client::connect(owner(&cluster, &key)), 1);
        other.expect(&[(&format!("SET other{{{key}}} 1"), "+OK"), (&format!("RPUSH {key} v"), ":1")]);
        assert_eq!((waiting.receive(), waiting.receive()), (format!("[{key} v]"), "+PONG".to_owned()));
    }
    let mut waiting = cluster.resp();
    waiting.expect(&[("BLPOP none 0.05", "*-1"), ("XREAD BLOCK 20 STREAMS s $", "*-1")]);
    // CLIENT UNBLOCK of the router reaches the node.
    let id = waiting.id();
    for (how, reply) in [("TIMEOUT", "*-1"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")] {
        waiting.send("BLPOP none 0");
        until_blocked(&mut Client::connect(owner(&cluster, "none")), 1);
        assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id} {how}")), ":1");
        assert_eq!(waiting.receive(), reply);
    }
    waiting.expect(&[("PING", "+PONG")]);
    // One that is gone waits no more.
    waiting.send("BLPOP none 0");
    let mut admin = Client::connect(owner(&cluster, "none"));
    until_blocked(&mut admin, 1);
    drop(waiting);
    until_blocked(&mut admin, 0);
    other.expect(&[("RPUSH none v", ":1"), ("LLEN none", ":1")]);
}

/// The node that has the slot of a key.
fn owner<'a>(cluster: &'a Cluster, key: &str) -> &'a keystead_testkit::server::Server {
    let response = cluster.http().get(&format!("/kv/{key}"));
    let name = response.header("keystead-node").unwrap();
    let at = crate::NAMES.iter().position(|other| *other == name);
    &cluster.nodes[at.unwrap()]
}

#[test]
fn a_pause_holds_requests_and_ends() {
    let cluster = Cluster::start();
    let (mut client, mut other) = (cluster.resp(), cluster.resp());
    client.expect(&[("SET a 1", "+OK"), ("CLIENT PAUSE 60000 WRITE", "+OK"), ("GET a", "1")]);
    other.send("INCR a");
    assert!(other.is_silent());
    client.expect(&[("CLIENT UNPAUSE", "+OK")]);
    assert_eq!(other.receive(), ":2");
    until("nothing is left", || client.ask("GET a") == "2");
}
