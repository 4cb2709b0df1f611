//! Blocking commands: which client is served, in what order, and for how long they wait.

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;

use crate::client::{Client, request, until_blocked};
use crate::common::start;
use crate::memory;

/// Clients that wait in this order, each with its own request.
fn waiting(server: &Server, admin: &mut Client, lines: &[&str]) -> Vec<Client> {
    let mut clients = Vec::new();
    for line in lines {
        let mut client = Client::connect(server);
        client.send(line);
        clients.push(client);
        until_blocked(admin, clients.len() as u64);
    }
    clients
}

#[test]
fn those_who_came_first_are_served_first() {
    for level in ["memory", "commit", "fsync"] {
        let server = start(&["--durability", level]);
        let mut admin = Client::connect(&server);
        let mut clients = waiting(&server, &mut admin, &["BLPOP k 0"; 5]);
        assert_eq!(admin.ask("RPUSH k a b c"), ":3");
        for (client, expected) in clients.iter_mut().zip(["a", "b", "c"]) {
            assert_eq!(client.receive(), format!("[k {expected}]"), "{level}");
        }
        assert!(clients[3].is_silent(), "nothing is left for the others");
        assert_eq!(admin.ask_all(["RPUSH k d", "RPUSH k e"]), [":1", ":1"]);
        assert_eq!((clients[3].receive(), clients[4].receive()), ("[k d]".into(), "[k e]".into()));
        admin.expect(&[("EXISTS k", ":0")]);
    }
}

#[test]
fn a_blocked_client_is_served_at_once() {
    for level in ["memory", "commit", "fsync"] {
        let server = start(&["--durability", level]);
        let (mut admin, mut client) = (Client::connect(&server), Client::connect(&server));
        let mut times: Vec<_> = (0..40)
            .map(|n| {
                client.send("BLPOP k 0");
                until_blocked(&mut admin, 1);
                let watch = Stopwatch::start();
                assert_eq!(admin.ask(&format!("RPUSH k {n}")), ":1");
                assert_eq!(client.receive(), format!("[k {n}]"));
                watch.elapsed()
            })
            .collect();
        // A shard's timer runs ten times a second anyway; that would be too late.
        times.sort();
        assert!(times[20].as_millis() < 30, "{level}: {:?} half of the time", times[20]);
    }
}

#[test]
fn a_pipeline_goes_on_after_its_wait() {
    let server = memory(&[]);
    let (mut admin, mut client) = (Client::connect(&server), Client::connect(&server));
    let lines = ["SET n 5", "BLPOP k 0", "INCR n", "BRPOP k 0", "INCR n"];
    client.send_raw(&lines.map(request).concat());
    assert_eq!(client.receive(), "+OK");
    until_blocked(&mut admin, 1);
    admin.expect(&[("GET n", "5"), ("RPUSH k a b", ":2")]);
    let replies: Vec<_> = (0..4).map(|_| client.receive()).collect();
    assert_eq!(replies, ["[k a]", ":6", "[k b]", ":7"]);
}

#[test]
fn a_chain_of_moves_wakes_all_of_it() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let lines = [
        "BLMOVE c d RIGHT LEFT 0",
        "BLMOVE a b LEFT RIGHT 0",
        "BRPOPLPUSH b c 0",
        "BLMPOP 0 2 none d LEFT COUNT 10",
        "BLPOP a 0",
    ];
    let mut clients = waiting(&server, &mut admin, &lines);
    assert_eq!(admin.ask("RPUSH a x"), ":1");
    let replies: Vec<_> = clients[..4].iter_mut().map(Client::receive).collect();
    assert_eq!(replies, ["x", "x", "x", "[d [x]]"]);
    assert!(clients[4].is_silent(), "it went past");
    admin.expect(&[("EXISTS a b c d", ":0"), ("RPUSH a y", ":1")]);
    assert_eq!(clients[4].receive(), "[a y]");
}

#[test]
fn the_first_of_several_keys_counts() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let mut clients = waiting(&server, &mut admin, &["BLPOP a b c 0", "BRPOP c b 0"]);
    admin.expect(&[
        ("MULTI", "+OK"),
        ("RPUSH c 1 2", "+QUEUED"),
        ("RPUSH b 3 4", "+QUEUED"),
        ("EXEC", "[:2 :2]"),
    ]);
    assert_eq!((clients[0].receive(), clients[1].receive()), ("[b 3]".into(), "[c 2]".into()));
    admin.expect(&[("LRANGE b 0 -1", "[4]"), ("LRANGE c 0 -1", "[1]")]);
}

#[test]
fn a_value_that_comes_and_goes_within_a_transaction_wakes_no_client() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let mut clients = waiting(&server, &mut admin, &["BLPOP k 0"]);
    admin.expect(&[("MULTI", "+OK"), ("RPUSH k a", "+QUEUED"), ("DEL k", "+QUEUED"), ("EXEC", "[:1 :1]")]);
    admin.expect(&[("SET k v", "+OK")]);
    assert!(clients[0].is_silent(), "a string is not for it");
    admin.expect(&[("DEL k", ":1"), ("LPUSH k b", ":1")]);
    assert_eq!(clients[0].receive(), "[k b]");
}

#[test]
fn a_key_of_another_kind_is_passed_over_by_who_waits() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let lines = ["BLPOP a b 0", "BZPOPMIN a z 0", "XREAD BLOCK 0 STREAMS a s $ $"];
    let mut clients = waiting(&server, &mut admin, &lines);
    admin.expect(&[("SET a v", "+OK"), ("RPUSH b x", ":1"), ("ZADD z 1 m", ":1"), ("XADD s 1-1 f v", "1-1")]);
    let replies: Vec<_> = clients.iter_mut().map(Client::receive).collect();
    assert_eq!(replies, ["[b x]", "[z m 1]", "[[s [[1-1 [f v]]]]]"]);
}

#[test]
fn a_destination_of_another_type_is_an_error_and_nothing_is_lost() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let mut clients = waiting(&server, &mut admin, &["BLMOVE a b LEFT LEFT 0", "BLPOP a 0"]);
    admin.expect(&[("SET b v", "+OK"), ("RPUSH a x", ":1")]);
    assert_eq!(clients[0].receive(), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(clients[1].receive(), "[a x]", "it goes to the next");
}

#[test]
fn every_way_to_bring_a_list_wakes() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    for (prepare, bring) in [
        ("RPUSH other v", "RENAME other k"),
        ("RPUSH other v", "COPY other k"),
        ("RPUSH other v", "LMOVE other k LEFT LEFT"),
        ("SADD other v", "SORT other BY nosort STORE k"),
        ("PING", "LPUSH k v"),
    ] {
        let mut clients = waiting(&server, &mut admin, &["BLPOP k 0"]);
        admin.ask(prepare);
        assert!(!admin.ask(bring).starts_with('-'), "{bring}");
        assert_eq!(clients[0].receive(), "[k v]", "{bring}");
        assert_eq!(admin.ask("FLUSHALL"), "+OK");
    }
}

#[test]
fn sorted_sets_are_waited_for() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let mut clients =
        waiting(&server, &mut admin, &["BZPOPMIN z 0", "BZPOPMAX z 0", "BZMPOP 0 1 z MIN COUNT 2"]);
    assert_eq!(admin.ask("ZADD z 1 a 2 b 3 c 4 d"), ":4");
    let replies: Vec<_> = clients.iter_mut().map(Client::receive).collect();
    assert_eq!(replies, ["[z a 1]", "[z d 4]", "[z [[b 2] [c 3]]]"]);
}

#[test]
fn streams_are_read_from_where_one_stands() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    admin.expect(&[
        ("XADD s 1-1 f old", "1-1"),
        ("XGROUP CREATE s g $", "+OK"),
        ("XGROUP CREATE s gone $", "+OK"),
    ]);
    let lines = [
        "XREAD BLOCK 0 STREAMS s $",
        "XREAD BLOCK 0 STREAMS other s 0 1-1",
        "XREADGROUP GROUP g me BLOCK 0 STREAMS s >",
        "XREADGROUP GROUP g other BLOCK 0 STREAMS s >",
        "XREADGROUP GROUP gone me BLOCK 0 STREAMS s >",
    ];
    let mut clients = waiting(&server, &mut admin, &lines);
    assert_eq!(admin.ask("XGROUP DESTROY s gone"), ":1");
    let reply = clients[4].receive();
    assert!(reply.starts_with("-NOGROUP "), "{reply}");
    assert_eq!(admin.ask("XADD s 2-1 f new"), "2-1");
    for client in &mut clients[..3] {
        assert_eq!(client.receive(), "[[s [[2-1 [f new]]]]]");
    }
    assert!(clients[3].is_silent(), "one of the group has it");
    assert_eq!(admin.ask("DEL s"), ":1");
    let reply = clients[3].receive();
    assert!(reply.starts_with("-NOGROUP ") || reply.starts_with("-UNBLOCKED "), "{reply}");
}

#[test]
fn many_readers_of_one_group_share_what_comes() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    assert_eq!(admin.ask("XGROUP CREATE s g $ MKSTREAM"), "+OK");
    let lines: Vec<_> =
        (0..10).map(|n| format!("XREADGROUP GROUP g c{n} COUNT 1 BLOCK 0 STREAMS s >")).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let mut clients = waiting(&server, &mut admin, &lines);
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(admin.ask(&format!("XADD s {}-1 f v", n + 1)), format!("{}-1", n + 1));
        assert_eq!(client.receive(), format!("[[s [[{}-1 [f v]]]]]", n + 1));
    }
    assert!(admin.ask("XPENDING s g").starts_with("[:10 1-1 10-1 "));
}

#[test]
fn a_wait_ends_when_its_time_is_up() {
    let server = memory(&[]);
    let (mut admin, mut other) = (Client::connect(&server), Client::connect(&server));
    for (line, reply) in [
        ("BLPOP k 0.2", "*-1"),
        ("BLMOVE k l LEFT LEFT 0.2", "*-1"),
        ("BZPOPMIN k 0.2", "*-1"),
        ("XREAD BLOCK 200 STREAMS k $", "*-1"),
    ] {
        let watch = Stopwatch::start();
        assert_eq!(other.ask(line), reply, "{line}");
        let took = watch.elapsed().as_millis();
        assert!((195..5000).contains(&took), "{line} took {took} ms");
    }
    // A later wait that ends earlier is not held up by the first one.
    let mut clients = waiting(&server, &mut admin, &["BLPOP k 1000", "BLPOP k 0.3", "BLPOP k 0.1"]);
    let watch = Stopwatch::start();
    assert_eq!(clients[2].receive(), "*-1");
    assert_eq!(clients[1].receive(), "*-1");
    assert!(watch.elapsed().as_millis() < 5000, "{:?}", watch.elapsed());
    assert_eq!(admin.ask("RPUSH k v"), ":1");
    assert_eq!(clients[0].receive(), "[k v]");
    other.expect(&[
        ("BLPOP k -1", "-ERR timeout is negative"),
        ("BLPOP k x", "-ERR timeout is not a float or out of range"),
    ]);
}

#[test]
fn commands_do_not_block_within_a_transaction() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.expect(&[
        ("RPUSH there v", ":1"),
        ("MULTI", "+OK"),
        ("BLPOP k 0", "+QUEUED"),
        ("BLPOP there 0", "+QUEUED"),
        ("BLMOVE k l LEFT LEFT 0", "+QUEUED"),
        ("BZPOPMIN k 0", "+QUEUED"),
        ("XREAD BLOCK 0 STREAMS k $", "+QUEUED"),
        ("EXEC", "[*-1 [there v] $-1 *-1 *-1]"),
    ]);
}

#[test]
fn another_client_may_end_a_wait() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut admin = Client::connect(&server);
        for n in 0..8 {
            let mut client = Client::connect(&server);
            let id = client.id();
            assert_eq!(admin.ask(&format!("CLIENT UNBLOCK {id}")), ":0", "it does not wait");
            for (how, reply) in [
                ("", "*-1"),
                (" TIMEOUT", "*-1"),
                (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            ] {
                client.send(&format!("BLPOP k{n} 0"));
                until_blocked(&mut admin, 1);
                assert_eq!(admin.ask(&format!("CLIENT UNBLOCK {id}{how}")), ":1");
                assert_eq!(client.receive(), reply, "on {shards} shards");
            }
            // What was meant for an earlier wait does not end the next one, and nothing is lost.
            client.send(&format!("BLPOP k{n} 0"));
            until_blocked(&mut admin, 1);
            assert!(client.is_silent());
            assert_eq!(admin.ask(&format!("RPUSH k{n} v")), ":1");
            assert_eq!(client.receive(), format!("[k{n} v]"));
        }
    }
}

#[test]
fn an_end_that_comes_too_late_is_forgotten() {
    let server = memory(&["--shards", "4"]);
    let mut admin = Client::connect(&server);
    let mut client = Client::connect(&server);
    let id = client.id();
    for n in 0..100 {
        client.send(&format!("BLPOP k{n} 0"));
        until_blocked(&mut admin, 1);
        // Both are on their way to the client at the same time.
        let lines = [format!("RPUSH k{n} v"), format!("CLIENT UNBLOCK {id} ERROR")];
        admin.ask_all(lines.iter().map(String::as_str));
        let reply = client.receive();
        assert!(reply == format!("[k{n} v]") || reply.starts_with("-UNBLOCKED"), "{reply}");
        if reply.starts_with('-') {
            assert_eq!(admin.ask(&format!("LPOP k{n}")), "v");
        }
        assert_eq!(client.ask("BLPOP none 0.01"), "*-1", "round {n}: the next wait ends by itself");
    }
}
