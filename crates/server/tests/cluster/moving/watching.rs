//! Clients that watch a document while its slot moves: events end when another node has it, and a wait for the next change is sent on or goes
//! on.

use rustix::process::Signal;
use serde_json::json;

use crate::client::{Events, Http};
use crate::common::signal;
use crate::resp::{Client, pause, until};
use crate::{Nodes, key_of};

/// Nodes, a slot of the first one, and the path of a document in it that does not exist.
fn nodes() -> Option<(Nodes, u16, String)> {
    let nodes = Nodes::start(&[])?;
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let path = format!("/kv/absent%7B{}%7D", key_of(slot));
    Some((nodes, slot, path))
}

fn events(mut http: Http, path: &str) -> Events {
    http.send("GET", path, &["Accept: text/event-stream"], b"");
    http.events_begin()
}

fn put(nodes: &Nodes, node: usize, path: &str, value: &str) {
    let put = nodes.http(node).ask("PUT", path, &["content-type: application/json"], value.as_bytes());
    assert_eq!(put.status, 201, "{}", put.text());
}

/// Moves a slot from the first node to the second.
fn move_slot(nodes: &Nodes, slot: u16) {
    let id = nodes.begin_move(slot, "a", "b");
    until("the slot is copied", || nodes.row(1, id)["progress"]["Tailing"]["lag"].is_number());
    nodes.hand_over(0, id);
    until("the target owns the slot", || nodes.owner(slot) == 1);
}

/// Nothing changes on the shard of the key, neither before the move nor by it.
#[test]
fn the_events_of_an_absent_document_end_when_its_slot_has_moved() {
    let Some((nodes, slot, path)) = nodes() else { return };
    let other = (slot + 1..).find(|other| nodes.owner(*other) == 0).unwrap();
    let stays = format!("/kv/stays%7B{}%7D", key_of(other));
    let (mut moved, mut stayed) = (events(nodes.http(0), &path), events(nodes.http(0), &stays));
    moved.next();
    stayed.next();
    move_slot(&nodes, slot);
    assert_eq!(moved.try_next().unwrap(), None, "the stream ends properly");
    let refused = nodes.http(0).ask("GET", &path, &["Accept: text/event-stream"], b"");
    assert_eq!((refused.status, &refused.json()["error"]["node"]), (421, &json!("b")));
    let mut there = events(nodes.http(1), &path);
    there.next();
    put(&nodes, 1, &path, "1");
    assert!(there.next().contains("\"value\":1"));
    put(&nodes, 0, &stays, "2");
    assert!(stayed.next().contains("\"value\":2"), "others go on");
}

#[test]
fn a_wait_for_a_change_is_sent_on_when_its_slot_has_moved() {
    let Some((nodes, slot, path)) = nodes() else { return };
    let mut waits = nodes.http(0);
    waits.send("GET", &format!("{path}?wait=300s"), &[], b"");
    pause(100);
    move_slot(&nodes, slot);
    let moved = waits.try_receive("GET").unwrap();
    assert_eq!((moved.status, &moved.json()["error"]["node"]), (421, &json!("b")), "{}", moved.text());
}

/// A wait is longer than the time that a request may wait for a slot, and outlives a hand over that is given up.
#[test]
fn a_wait_and_events_go_on_when_the_source_takes_its_slot_back() {
    let Some((nodes, slot, path)) = nodes() else { return };
    let mut stream = events(nodes.http(0), &path);
    stream.next();
    let id = nodes.begin_move(slot, "a", "b");
    until("the slot is copied", || nodes.row(1, id)["progress"]["Tailing"]["lag"].is_number());
    let mut waits = nodes.http(0);
    waits.send("GET", &format!("{path}?wait=300s"), &[], b"");
    pause(100);
    signal(&nodes.servers[1], Signal::STOP);
    nodes.hand_over(0, id);
    let phase = || nodes.row(0, id)["phase"].as_str().unwrap_or_default().to_owned();
    until("the source has sealed the slot", || phase() == "frozen");
    until("the source serves the slot again", || phase() != "frozen");
    // Longer than a request that is parked may wait.
    pause(5_500);
    put(&nodes, 0, &path, "1");
    let found = waits.try_receive("GET").unwrap();
    assert_eq!((found.status, &found.json()["value"]), (200, &json!(1)), "{}", found.text());
    assert!(stream.next().contains("\"value\":1"));
    signal(&nodes.servers[1], Signal::CONT);
}

/// As in Redis Cluster: the server unsubscribes the clients of a channel whose slot has moved, and they subscribe at the owner.
#[test]
fn subscribers_of_a_shard_channel_are_unsubscribed_when_its_slot_has_moved() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let slot = (1_000..).find(|slot| nodes.owner(*slot) == 0).unwrap();
    let other = (slot + 1..).find(|other| nodes.owner(*other) == 0).unwrap();
    let (moves, stays) = (format!("ch{{{}}}", key_of(slot)), format!("ch{{{}}}", key_of(other)));
    let (mut resp2, mut resp3) = (nodes.resp(0), Client::connect_3(&nodes.servers[0]));
    for (client, start) in [(&mut resp2, ""), (&mut resp3, ">")] {
        assert_eq!(client.ask(&format!("SSUBSCRIBE {moves}")), format!("{start}[ssubscribe {moves} :1]"));
        assert_eq!(client.ask(&format!("SSUBSCRIBE {stays}")), format!("{start}[ssubscribe {stays} :2]"));
        assert_eq!(client.ask("SUBSCRIBE any"), format!("{start}[subscribe any :1]"));
    }
    nodes.resp(0).expect(&[(&format!("SPUBLISH {moves} before"), ":2")]);
    move_slot(&nodes, slot);
    for (client, start) in [(&mut resp2, ""), (&mut resp3, ">")] {
        assert_eq!(client.receive(), format!("{start}[smessage {moves} before]"));
        assert_eq!(client.receive(), format!("{start}[sunsubscribe {moves} :1]"));
    }
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", nodes.ports[2]);
    nodes.resp(0).expect(&[
        (&format!("SPUBLISH {moves} m"), &moved),
        (&format!("SPUBLISH {stays} m"), ":2"),
        ("PUBLISH any m", ":2"),
    ]);
    for (client, start) in [(&mut resp2, ""), (&mut resp3, ">")] {
        assert_eq!(client.receive(), format!("{start}[smessage {stays} m]"));
        assert_eq!(client.receive(), format!("{start}[message any m]"));
    }
    resp2.send(&format!("SSUBSCRIBE {moves}"));
    assert_eq!(resp2.receive(), moved);
    let mut owner = nodes.resp(1);
    assert_eq!(owner.ask(&format!("SSUBSCRIBE {moves}")), format!("[ssubscribe {moves} :1]"));
    nodes.resp(1).expect(&[(&format!("SPUBLISH {moves} after"), ":1")]);
    assert_eq!(owner.receive(), format!("[smessage {moves} after]"));
}
