//! What clients and operators see while a slot moves: staged keys are invisible, what waits is sent on, and a move that cannot be is refused.

use keystead_cluster::MigrationId;
use keystead_core::ShardId;
use keystead_core::key::shard_of_slot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::resp::until;
use crate::{Nodes, key_of};

/// Nodes of which the first has a slot that moves to the second, and is copied. Returns the slot.
fn moving() -> Option<(Nodes, u16)> {
    let nodes = Nodes::start(&[])?;
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let tag = key_of(slot);
    let mut first = nodes.resp(0);
    for n in 0..20 {
        first.expect(&[(&format!("SET {n}{{{tag}}} {n}"), "+OK")]);
    }
    nodes.begin_move(slot, "a", "b");
    until("the keys are copied", || {
        nodes.report(1)["migrations"][0]["progress"]["Tailing"]["lag"].is_number()
    });
    Some((nodes, slot))
}

#[test]
fn what_is_staged_is_invisible_and_its_source_serves() {
    let Some((nodes, slot)) = moving() else { return };
    let (tag, mut source, mut target) = (key_of(slot), nodes.resp(0), nodes.resp(1));
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", nodes.ports[0]);
    target.expect(&[
        ("DBSIZE", ":0"),
        ("KEYS *", "[]"),
        ("RANDOMKEY", "$-1"),
        (&format!("GET 1{{{tag}}}"), &moved),
        (&format!("SET new{{{tag}}} 1"), &moved),
        ("FLUSHALL", "-TRYAGAIN Slots are being moved to or from this node"),
    ]);
    assert_eq!(nodes.scan(1), [] as [&str; 0]);
    assert_eq!(nodes.http(1).get("/kv?prefix=").json(), json!([]));
    source.expect(&[
        ("DBSIZE", ":20"),
        (&format!("GET 1{{{tag}}}"), "1"),
        (&format!("DEL 1{{{tag}}}"), ":1"),
        (&format!("SET 2{{{tag}}} changed"), "+OK"),
        ("FLUSHALL", "-TRYAGAIN Slots are being moved to or from this node"),
    ]);
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{stderr}");
    let here = nodes.owner(slot);
    let mut owner = nodes.resp(here);
    owner.expect(&[
        (&format!("EXISTS 1{{{tag}}}"), ":0"),
        (&format!("GET 2{{{tag}}}"), "changed"),
        (&format!("GET 3{{{tag}}}"), "3"),
    ]);
    assert_eq!(nodes.dbsize(), 19);
}

#[test]
fn an_aborted_move_leaves_nothing_behind() {
    let Some((nodes, slot)) = moving() else { return };
    let id = nodes.report(1)["migrations"][0]["id"].as_u64().unwrap();
    nodes.edit(keystead_cluster::Edit::Abort(MigrationId(id)));
    until("the migration has ended", || {
        (0..2).all(|node| nodes.report(node)["migrations"].as_array().unwrap().is_empty())
    });
    assert_eq!((nodes.owner(slot), nodes.dbsize()), (0, 20));
    nodes.resp(1).expect(&[("FLUSHALL", "+OK"), ("DBSIZE", ":0")]);
    nodes.resp(0).expect(&[("FLUSHALL", "+OK"), ("DBSIZE", ":0")]);
}

#[test]
fn a_client_that_is_blocked_is_sent_on() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let tag = key_of(slot);
    let mut blocked = nodes.resp(0);
    blocked.send(&format!("BLPOP list{{{tag}}} 0"));
    let id = nodes.begin_move(slot, "a", "b");
    until("the slot is copied", || {
        nodes.report(1)["migrations"][0]["progress"]["Tailing"]["lag"].is_number()
    });
    // The target would make itself the owner.
    nodes.store.pause();
    nodes.hand_over(0, id);
    until("everything is there", || nodes.report(1)["migrations"][0]["progress"] == json!("Ready"));
    // Handed over, and the table does not say yet who has it: requests wait.
    let mut waits = nodes.resp(0);
    waits.send(&format!("GET k{{{tag}}}"));
    assert!(waits.is_silent());
    nodes.store.resume();
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", nodes.ports[2]);
    assert_eq!(waits.receive(), moved);
    assert_eq!(blocked.receive(), "-TRYAGAIN the slot of this key is being moved to another node: try again");
    blocked.expect(&[(&format!("BLPOP list{{{tag}}} 1"), &moved)]);
}

/// Three increments of one counter in a pipeline through a router, of which the first has waited for too long: the store is away while the
/// slot is handed over, and then either the target gets it, or the source takes it back, because the target is stopped.
fn pipeline_through_a_slow_hand_over(takes_back: bool) -> Option<Vec<String>> {
    let (nodes, slot) = moving()?;
    let router = nodes.start_router();
    let id = MigrationId(nodes.report(1)["migrations"][0]["id"].as_u64().unwrap());
    let signal =
        |signal| kill_process(Pid::from_raw(nodes.servers[1].pid() as i32).unwrap(), signal).unwrap();
    if takes_back {
        signal(Signal::STOP);
    }
    nodes.store.pause();
    nodes.hand_over(0, id);
    match takes_back {
        true => until("it is sealed", || nodes.row(0, id)["phase"] == "frozen"),
        false => until("everything is there", || nodes.row(1, id)["progress"] == json!("Ready")),
    }
    let mut client = crate::resp::Client::connect(&router);
    let request = crate::resp::request(&format!("INCR n{{{}}}", key_of(slot)));
    client.send_raw(&request.repeat(3));
    // The first one is rejected after five seconds. Then the second one waits.
    crate::resp::pause(5_500);
    nodes.store.resume();
    let replies = (0..3).map(|_| client.receive()).collect();
    if takes_back {
        signal(Signal::CONT);
    }
    Some(replies)
}

#[test]
fn a_pipeline_through_a_router_that_waits_too_long_is_sent_again_in_its_order() {
    let Some(replies) = pipeline_through_a_slow_hand_over(false) else { return };
    assert_eq!(replies, [":1", ":2", ":3"]);
}

/// It was not applied, and would follow later ones.
#[test]
fn a_request_that_waited_too_long_is_an_error_if_a_later_one_of_its_pipeline_ran() {
    let Some(replies) = pipeline_through_a_slow_hand_over(true) else { return };
    assert_eq!(replies, ["-TRYAGAIN The slot is being moved to another node", ":1", ":2"]);
}

/// A request behind one for another shard waits for its slot as any other.
#[test]
fn a_pipeline_over_shards_waits_for_its_slots() {
    let Some(nodes) = Nodes::start(&["--shards", "2"]) else { return };
    let table = nodes.table();
    // Of each shard one slot that moves, and one that stays.
    let [[first, kept_first], [second, kept_second]] = [ShardId(0), ShardId(1)].map(|shard| {
        let is_there = |slot: &u16| {
            shard_of_slot(*slot, 2) == shard && table.owner(*slot).is_some_and(|node| node.id.as_str() == "a")
        };
        let mut slots = (1_000..).filter(is_there);
        [slots.next().unwrap(), slots.next().unwrap()]
    });
    let id = nodes.begin_moves([first, second], "a", "b");
    until("the slots are copied", || nodes.row(1, id)["progress"]["Tailing"].is_object());
    // The target would make itself the owner.
    nodes.store.pause();
    nodes.hand_over(0, id);
    until("everything is there", || nodes.row(1, id)["progress"] == json!("Ready"));
    let mut client = nodes.resp(0);
    let requests = [
        format!("INCR {}", key_of(kept_first)),
        format!("INCR {}", key_of(kept_second)),
        format!("INCR {}", key_of(first)),
        format!("INCR {}", key_of(second)),
        format!("INCR {}", key_of(kept_first)),
        format!("INCR {}", key_of(kept_second)),
    ];
    client.send_raw(&requests.each_ref().map(|line| crate::resp::request(line)).concat());
    until("a request waits", || nodes.report(0)["parked"].as_u64() > Some(0));
    nodes.store.resume();
    let replies: Vec<String> = requests.iter().map(|_| client.receive()).collect();
    let moved = [first, second].map(|slot| format!("-MOVED {slot} 127.0.0.1:{}", nodes.ports[2]));
    assert_eq!(replies, [":1", ":1", moved[0].as_str(), moved[1].as_str(), ":2", ":2"]);
}

#[test]
fn versions_and_idempotent_responses_move_with_their_document() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let path = format!("/kv/doc{{{}}}", key_of(slot)).replace('{', "%7B").replace('}', "%7D");
    let idempotent = ["content-type: application/json", "idempotency-key: once"];
    for n in 1..=3 {
        let put = nodes.http(0).ask("PUT", &path, &["content-type: application/json"], b"{\"n\":1}");
        assert_eq!(put.json()["version"], n, "{}", put.text());
    }
    let put = nodes.http(0).ask("PUT", &path, &idempotent, b"{\"n\":2}");
    assert_eq!(put.json()["version"], 4, "{}", put.text());
    nodes.begin_move(slot, "a", "b");
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{stderr}");
    let here = nodes.owner(slot);
    let again = nodes.http(here).ask("PUT", &path, &idempotent, b"{\"n\":2}");
    assert_eq!((again.status, again.text()), (put.status, put.text()), "the stored response");
    let current = nodes.http(here).get(&path).json();
    assert_eq!((&current["version"], &current["value"]["n"]), (&json!(4), &json!(2)));
    let next =
        nodes.http(here).ask("PUT", &path, &["content-type: application/json", "if-match: \"4\""], b"1");
    assert_eq!(next.json()["version"], 5, "{}", next.text());
}

/// The stamps and ids of offline sync are in the slot of the document.
#[test]
fn offline_edits_have_their_effect_one_time_although_their_slot_moves() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let key = format!("doc{{{}}}", key_of(slot));
    // Far ahead, so each counts as made when it arrives: applied again, it would win again.
    let edit =
        |id: u64| json!({ "id": id, "key": key, "field": "n", "value": id, "ts": 9_000_000_000_000u64 });
    let body = json!({ "client": "c", "items": [edit(1), edit(2)] }).to_string();
    let sent = |node: usize, body: &str| nodes.http(node).ask("POST", "/sync", &[], body.as_bytes()).json();
    let first = sent(0, &body);
    assert_eq!(first["results"][1]["status"], "applied", "{first}");
    assert_eq!(sent(1, &body)["results"][0]["error"]["code"], "moved", "another node has the slot");
    nodes.begin_move(slot, "a", "b");
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{stderr}");
    let there = nodes.owner(slot);
    let again = sent(there, &body);
    for (again, first) in
        again["results"].as_array().unwrap().iter().zip(first["results"].as_array().unwrap())
    {
        assert_eq!((&again["again"], &again["ts"]), (&json!(true), &first["ts"]), "{again}");
    }
    let next = sent(there, &json!({ "client": "c", "items": [edit(3)] }).to_string());
    assert_eq!(next["results"][0]["version"], 3, "{next}");
}

#[test]
fn calls_of_others_are_refused_with_the_reason() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let refused = nodes.http(0).ask("GET", "/admin/cluster", &["keystead-cluster: other"], b"");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("this node is of cluster 'test'"), "{}", refused.text());
    for action in ["copy", "tail", "hand-over"] {
        let path = format!("/admin/cluster/migrations/7/{action}");
        let refused =
            nodes.http(0).ask("POST", &path, &["keystead-cluster: test"], b"{\"after\":1,\"page\":0}");
        assert_eq!(refused.status, 409, "{}", refused.text());
        assert!(refused.text().contains("not the source of migration 7"), "{}", refused.text());
    }
    let (code, _, stderr) = nodes.cluster(&["remove", "x"]);
    assert_ne!(code, 0);
    assert!(stderr.contains('x'), "{stderr}");
    let (code, stdout, _) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("nothing to move"), "{stdout}");
}
