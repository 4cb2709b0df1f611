//! Connections: the bound on clients, CLIENT KILL, CLIENT PAUSE, QUIT and timeouts.

use crate::client::{Client, info, request, until, until_blocked};
use crate::memory;

const FULL: &str = "-ERR max number of clients reached";

/// Waits until a client is no longer listed.
fn until_gone(admin: &mut Client, id: u64) {
    until("the client has gone", || admin.ask(&format!("CLIENT LIST ID {id}")) == "''");
}

#[test]
fn one_client_too_many_gets_an_error() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    assert_eq!(admin.ask("CONFIG SET maxclients 3"), "+OK");
    let mut others = [Client::connect(&server), Client::connect(&server)];
    others.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "+PONG"));
    let mut rejected = Client::connect(&server);
    assert_eq!(rejected.receive(), FULL);
    assert!(rejected.is_closed());
    assert_eq!(info(&mut admin, "stats", "rejected_connections"), 1);
    let [first, mut second] = others;
    drop(first);
    until("a place is free", || info(&mut admin, "clients", "connected_clients") == 2);
    assert_eq!(Client::connect(&server).ask("PING"), "+PONG");
    assert_eq!(second.ask("PING"), "+PONG");
}

#[test]
fn idle_clients_are_closed_but_not_those_who_wait_or_listen() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let [mut idle, mut waits, mut listens, mut sleeper] = std::array::from_fn(|_| Client::connect(&server));
    assert_eq!(idle.ask("PING"), "+PONG");
    assert_eq!(listens.ask("SUBSCRIBE c"), "[subscribe c :1]");
    assert_eq!(sleeper.ask("CLIENT ID").as_bytes()[0], b':');
    waits.send("BLPOP k 0");
    until_blocked(&mut admin, 1);
    assert_eq!(admin.ask("CONFIG SET timeout 1"), "+OK");
    // A client that sends requests is not idle.
    until("idle clients were closed", || info(&mut admin, "clients", "connected_clients") == 3);
    assert!(idle.is_closed() && sleeper.is_closed());
    admin.expect(&[("PUBLISH c hello", ":1"), ("RPUSH k v", ":1")]);
    assert_eq!((listens.receive(), waits.receive()), ("[message c hello]".into(), "[k v]".into()));
}

#[test]
fn a_killed_client_is_closed() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let [mut idle, mut waits, mut listens] = std::array::from_fn(|_| Client::connect(&server));
    let ids = [idle.id(), waits.id(), listens.id()];
    listens.ask("SUBSCRIBE c");
    waits.send("BLPOP k 0");
    until_blocked(&mut admin, 1);
    for id in ids {
        assert_eq!(admin.ask(&format!("CLIENT KILL ID {id}")), ":1");
    }
    assert!(idle.is_closed() && waits.is_closed() && listens.is_closed());
    ids.iter().for_each(|id| until_gone(&mut admin, *id));
    admin.expect(&[
        ("PUBLISH c x", ":0"),
        ("RPUSH k v", ":1"),
        ("LLEN k", ":1"),
        ("CLIENT KILL ID 999", ":0"),
    ]);
    let own = admin.id();
    assert_eq!(admin.ask(&format!("CLIENT KILL ID {own} SKIPME no")), ":1", "the reply comes first");
    assert!(admin.is_closed());
}

#[test]
fn a_pause_delays_all_clients_until_it_ends() {
    let server = memory(&[]);
    let (mut admin, mut other) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(admin.ask("CLIENT PAUSE 100000"), "+OK");
    other.send("GET k");
    assert!(other.is_silent());
    assert_eq!(admin.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!(other.receive(), "$-1");

    assert_eq!(admin.ask("CLIENT PAUSE 100000 WRITE"), "+OK");
    assert_eq!(other.ask("GET k"), "$-1", "reading goes on");
    other.send_raw(&[request("SET k v"), request("GET k")].concat());
    assert!(other.is_silent());
    assert_eq!(admin.ask("GET k"), "$-1");
    assert_eq!(admin.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!((other.receive(), other.receive()), ("+OK".into(), "v".into()));

    assert_eq!(admin.ask("CLIENT PAUSE 1000 ALL"), "+OK");
    other.send("INCR n");
    assert!(other.is_silent());
    assert_eq!(other.receive(), ":1", "a pause ends by itself");
}

#[test]
fn a_paused_transaction_runs_whole_afterwards() {
    let server = memory(&[]);
    let (mut admin, mut other) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(other.ask_all(["MULTI", "INCR n", "INCR n"]), ["+OK", "+QUEUED", "+QUEUED"]);
    assert_eq!(admin.ask("CLIENT PAUSE 100000 WRITE"), "+OK");
    other.send("EXEC");
    assert!(other.is_silent());
    assert_eq!(admin.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!(other.receive(), "[:1 :2]");
}

#[test]
fn requests_before_quit_get_replies_and_those_after_do_not() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    let requests = ["SET k v", "GET k", "QUIT", "SET k other"];
    client.send_raw(&requests.map(request).concat());
    assert_eq!(client.rest(), ["+OK", "v", "+OK"]);
    assert_eq!(Client::connect(&server).ask("GET k"), "v");
}

#[test]
fn reset_forgets_what_a_connection_was_about() {
    let server = memory(&[]);
    let (mut client, mut other) = (Client::connect_3(&server), Client::connect(&server));
    client.expect(&[
        ("CLIENT SETNAME me", "+OK"),
        ("WATCH k", "+OK"),
        ("SUBSCRIBE c", ">[subscribe c :1]"),
        ("MULTI", "+OK"),
        ("SET k v", "+QUEUED"),
        ("RESET", "+RESET"),
        ("GET k", "$-1"),
        ("CLIENT GETNAME", "$-1"),
        ("EXEC", "-ERR EXEC without MULTI"),
    ]);
    other.expect(&[("PUBLISH c x", ":0"), ("SET k other", "+OK")]);
    client.expect(&[("MULTI", "+OK"), ("GET k", "+QUEUED"), ("EXEC", "[other]")]);
    let list = client.ask("CLIENT LIST");
    assert!(list.contains(" watch=0 ") || !list.contains(" watch="), "{list}");
}

#[test]
fn a_client_that_goes_while_it_waits_takes_nothing_with_it() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut admin = Client::connect(&server);
        for n in 0..20 {
            let (mut gone, mut stays) = (Client::connect(&server), Client::connect(&server));
            let id = gone.id();
            gone.send(&format!("BLPOP k{n} 0"));
            until_blocked(&mut admin, 1);
            stays.send(&format!("BLPOP k{n} 0"));
            until_blocked(&mut admin, 2);
            drop(gone);
            until_gone(&mut admin, id);
            assert_eq!(admin.ask(&format!("RPUSH k{n} v")), ":1");
            assert_eq!(stays.receive(), format!("[k{n} v]"), "on {shards} shards");
        }
    }
}

#[test]
fn a_client_that_is_killed_while_it_waits_takes_nothing_with_it() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut admin = Client::connect(&server);
        for n in 0..20 {
            let mut waits = Client::connect(&server);
            let id = waits.id();
            waits.send(&format!("BLMOVE from{{{n}}} to{{{n}}} LEFT LEFT 0"));
            until_blocked(&mut admin, 1);
            // Nothing may come between the end of the client and the push.
            let replies = admin
                .ask_all([format!("CLIENT KILL ID {id}").as_str(), format!("RPUSH from{{{n}}} v").as_str()]);
            assert_eq!(replies[0], ":1");
            assert!(waits.is_closed());
            until_gone(&mut admin, id);
            let lengths =
                [format!("LLEN from{{{n}}}"), format!("LLEN to{{{n}}}")].map(|line| admin.ask(&line));
            assert!(
                matches!(&lengths.each_ref().map(String::as_str), [":1", ":0"] | [":0", ":1"]),
                "{lengths:?}"
            );
        }
    }
}

#[test]
fn a_half_closed_socket_still_gets_all_replies() {
    for shards in ["1", "4"] {
        for level in ["memory", "fsync"] {
            let server = crate::common::start(&["--shards", shards, "--durability", level]);
            let mut client = Client::connect(&server);
            let requests: Vec<u8> = (0..500).flat_map(|n| request(&format!("INCR k{}", n % 10))).collect();
            client.send_raw(&requests);
            client.half_close();
            let expected: Vec<_> = (0..500).map(|n| format!(":{}", n / 10 + 1)).collect();
            assert_eq!(client.rest(), expected, "{level} on {shards} shards");
        }
    }
}

#[test]
fn a_half_closed_socket_gets_the_replies_of_its_transaction_and_scan() {
    let server = memory(&["--shards", "4"]);
    for n in 0..20 {
        let mut client = Client::connect(&server);
        let key = format!("k{n}");
        let lines = ["MULTI", &format!("SET {key} v"), &format!("GET {key}"), "EXEC", "DBSIZE"];
        client.send_raw(&lines.map(request).concat());
        client.half_close();
        assert_eq!(client.rest(), ["+OK", "+QUEUED", "+QUEUED", "[+OK v]", &format!(":{}", n + 1)]);
    }
}

#[test]
fn a_half_closed_socket_hears_what_did_not_have_to_wait() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut admin = Client::connect(&server);
        for n in 0..40 {
            assert_eq!(admin.ask(&format!("RPUSH k{n} v")), ":1");
            let mut client = Client::connect(&server);
            let lines =
                [format!("BLPOP k{n} 0"), format!("XREAD STREAMS none{n} 0"), format!("BLPOP none{n} 0")];
            client.send_raw(&lines.map(|line| request(&line)).concat());
            client.half_close();
            assert_eq!(client.rest(), [format!("[k{n} v]"), "*-1".to_owned()], "on {shards} shards");
        }
        until("no client waits", || info(&mut admin, "clients", "connected_clients") == 1);
    }
}

#[test]
fn what_a_client_sent_before_it_went_is_done() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut admin = Client::connect(&server);
        for n in 0..50 {
            let mut client = Client::connect(&server);
            client.send_raw(&request(&format!("SET k{n} v")));
        }
        until("everything was done", || admin.ask("DBSIZE") == ":50");
    }
}
