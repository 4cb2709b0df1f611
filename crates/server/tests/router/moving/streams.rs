//! Streams through a router while slots move: subscriptions lose nothing, waits follow their key, and events of a key end.

use std::sync::atomic::{AtomicBool, Ordering};

use keystead_testkit::server::Server;
use serde_json::json;

use super::Moving;
use crate::client::{Events, Http};
use crate::resp::{Client, until};

const STREAM: &str = "Accept: text/event-stream";

fn events(moving: &Moving, target: &str, headers: &[&str]) -> Events {
    let mut http = Http::connect(&moving.router);
    http.send("GET", target, &[&[STREAM], headers].concat(), b"");
    http.events_begin()
}

/// Names whose slots the first node has.
fn of_a(moving: &Moving, prefix: &str, count: usize) -> Vec<String> {
    let mut http = Http::connect(&moving.router);
    let is_on_a = |key: &String| http.get(&format!("/kv/{key}")).header("keystead-node") == Some("a");
    (0..).map(|n| format!("{prefix}{n}")).filter(is_on_a).take(count).collect()
}

/// All that the first node has gets other owners, and the first node stops when the routers know that.
fn leave(moving: &mut Moving, other: Option<&Server>) {
    moving.cluster(&["remove", "a"]);
    for router in std::iter::once(&moving.router).chain(other) {
        let mut http = Http::connect(router);
        until("the router knows that the node has left", || {
            let health = http.get("/healthz").json();
            health["nodes"].as_array().unwrap().iter().all(|node| node["id"] != "a")
        });
    }
    moving.nodes[0].stop().unwrap();
}

/// The id and name of the next event that has a name.
fn next(events: &mut Events) -> (String, String, String) {
    loop {
        let text = events.try_whole().unwrap().unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        if let (Some(id), Some(name)) = (field("id"), field("event")) {
            return (id.to_owned(), name.to_owned(), field("data").unwrap().to_owned());
        }
    }
}

#[test]
fn no_message_is_lost_while_the_slots_of_its_channel_move() {
    let Some(mut moving) = Moving::start(&[]) else { return };
    let channel = of_a(&moving, "channel", 1).remove(0);
    let mut by_name = Http::connect(&moving.router).events(&format!("/subscribe/{channel}"), &[]);
    let mut by_pattern = Http::connect(&moving.router).events("/psubscribe/chan*", &[]);
    assert_eq!(by_name.next(), format!("subscribe,{channel},1"));
    assert_eq!(by_pattern.next(), "psubscribe,chan*,1");
    let stop = AtomicBool::new(false);
    let router = super::router(&super::url(&moving.store)).start().unwrap();
    let sent = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let (mut http, mut resp) = (Http::connect(&router), Client::connect(&router));
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                // Two subscribers: the routers have one of each kind on every node.
                match sent % 2 {
                    0 => assert_eq!(
                        http.post("/", &json!(["PUBLISH", channel, sent.to_string()]).to_string()).json(),
                        json!({ "result": 2 })
                    ),
                    _ => assert_eq!(resp.ask(&format!("PUBLISH {channel} {sent}")), ":2"),
                }
                sent += 1;
            }
            sent
        });
        leave(&mut moving, Some(&router));
        stop.store(true, Ordering::Relaxed);
        publisher.join().unwrap()
    });
    assert!(sent > 10, "{sent}");
    // Those of two nodes have no common order.
    let mut received = [Vec::new(), Vec::new()];
    for _ in 0..sent {
        let text = by_name.next();
        received[0].push(text.strip_prefix(&format!("message,{channel},")).unwrap().parse::<u32>().unwrap());
        let text = by_pattern.next();
        let text = text.strip_prefix(&format!("pmessage,chan*,{channel},")).unwrap();
        received[1].push(text.parse::<u32>().unwrap());
    }
    for mut received in received {
        received.sort_unstable();
        assert_eq!(received, (0..sent).collect::<Vec<u32>>());
    }
}

#[test]
fn a_wait_follows_its_key_and_events_end_and_begin_again() {
    let Some(mut moving) = Moving::start(&[]) else { return };
    let keys = of_a(&moving, "doc", 2);
    let path = format!("/kv/{}", keys[0]);
    // Nothing is there, and nothing changes before the slot has moved.
    let mut stream = events(&moving, &path, &[]);
    let (id, ..) = next(&mut stream);
    let mut waits = Http::connect(&moving.router);
    waits.send("GET", &format!("/kv/{}?wait=300s", keys[1]), &[], b"");
    leave(&mut moving, None);
    while let Some(event) = stream.try_whole().unwrap() {
        assert!(event.starts_with(':'), "{event}");
    }
    let mut http = Http::connect(&moving.router);
    for key in &keys {
        assert_eq!(http.put(&format!("/kv/{key}"), "1").status, 201);
    }
    let found = waits.try_receive("GET").unwrap();
    assert_eq!((found.status, &found.json()["value"]), (200, &json!(1)), "{}", found.text());
    let mut again = events(&moving, &path, &[&format!("Last-Event-ID: {id}")]);
    let (_, name, data) = next(&mut again);
    assert_eq!((&*name, data.contains("\"value\":1")), ("put", true), "the current document: {data}");
}

#[test]
fn events_of_all_nodes_say_that_slots_have_moved_and_go_on() {
    let Some(mut moving) = Moving::start(&[]) else { return };
    let keys = of_a(&moving, "all:", 3);
    let mut stream = events(&moving, "/kv?prefix=all:", &[]);
    let mut http = Http::connect(&moving.router);
    assert_eq!(http.put(&format!("/kv/{}", keys[0]), "1").status, 201);
    let (first, name, _) = next(&mut stream);
    assert_eq!(name, "put");
    moving.join();
    // The new node is followed, too: it gets slots of the first one.
    moving.cluster(&["rebalance"]);
    leave(&mut moving, None);
    let mut is_moved = false;
    loop {
        let (_, name, data) = next(&mut stream);
        is_moved |= name == "moved";
        assert!(["moved", "put"].contains(&&*name), "{name} {data}");
        if is_moved {
            break;
        }
    }
    assert_eq!(http.put(&format!("/kv/{}", keys[1]), "2").status, 201);
    until("the event comes", || {
        let (_, _, data) = next(&mut stream);
        data.contains(&format!("\"key\":\"{}\",\"value\":2,\"version\":1", keys[1]))
    });
    // A client that was away gets to know it as well.
    let mut again = events(&moving, "/kv?prefix=all:", &[&format!("Last-Event-ID: {first}")]);
    assert_eq!(next(&mut again).1, "moved");
}
