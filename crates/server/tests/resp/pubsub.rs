//! Messages from one connection to others.

use crate::client::{Client, request, until};
use crate::common::start;
use crate::memory;

#[test]
fn messages_reach_channels_and_patterns_in_both_protocols() {
    let server = memory(&[]);
    let (mut old, mut new) = (Client::connect(&server), Client::connect_3(&server));
    let mut publisher = Client::connect(&server);
    old.send("SUBSCRIBE a b");
    assert_eq!((old.receive(), old.receive()), ("[subscribe a :1]".into(), "[subscribe b :2]".into()));
    old.expect(&[("PSUBSCRIBE n?ws.*", "[psubscribe n?ws.* :3]")]);
    new.expect(&[("SUBSCRIBE a", ">[subscribe a :1]"), ("PSUBSCRIBE news.*", ">[psubscribe news.* :2]")]);
    publisher.expect(&[
        ("PUBLISH a one", ":2"),
        ("PUBLISH news.x two", ":2"),
        ("PUBLISH nobody three", ":0"),
        ("PUBLISH b ''", ":1"),
        ("PUBSUB NUMSUB a b c", "[a :2 b :1 c :0]"),
        ("PUBSUB NUMPAT", ":2"),
    ]);
    let heard: Vec<_> = (0..3).map(|_| old.receive()).collect();
    assert_eq!(heard, ["[message a one]", "[pmessage n?ws.* news.x two]", "[message b '']"]);
    assert_eq!(
        (new.receive(), new.receive()),
        (">[message a one]".into(), ">[pmessage news.* news.x two]".into())
    );
    old.send("UNSUBSCRIBE");
    assert_eq!(
        old.receive().matches("unsubscribe").count() + old.receive().matches("unsubscribe").count(),
        2
    );
    publisher.expect(&[("PUBLISH a four", ":1")]);
    assert_eq!(new.receive(), ">[message a four]");
}

#[test]
fn in_resp2_a_subscriber_only_listens_and_in_resp3_it_may_do_anything() {
    let server = memory(&[]);
    let (mut old, mut new) = (Client::connect(&server), Client::connect_3(&server));
    old.expect(&[
        ("SUBSCRIBE c", "[subscribe c :1]"),
        (
            "GET k",
            "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        ),
        ("PING", "[pong '']"),
        ("PING hi", "[pong hi]"),
        ("UNSUBSCRIBE c", "[unsubscribe c :0]"),
        ("GET k", "$-1"),
    ]);
    new.expect(&[("SUBSCRIBE c", ">[subscribe c :1]"), ("SET k v", "+OK"), ("PING", "+PONG")]);
    // It receives its own message, too.
    new.send("PUBLISH c own");
    let mut heard = [new.receive(), new.receive()];
    heard.sort();
    assert_eq!(heard, [":1", ">[message c own]"]);
    new.expect(&[("MULTI", "+OK"), ("PUBLISH other x", "+QUEUED"), ("GET k", "+QUEUED"), ("EXEC", "[:0 v]")]);
}

#[test]
fn messages_keep_their_order_and_follow_what_they_tell_of() {
    for level in ["memory", "commit", "fsync"] {
        let server = start(&["--durability", level]);
        let (mut listener, mut publisher) = (Client::connect(&server), Client::connect(&server));
        let mut reader = Client::connect(&server);
        assert_eq!(listener.ask("SUBSCRIBE c"), "[subscribe c :1]");
        let bytes: Vec<u8> = (0..500)
            .flat_map(|n| [request(&format!("SET k {n}")), request(&format!("PUBLISH c {n}"))].concat())
            .collect();
        publisher.send_raw(&bytes);
        for n in 0..500 {
            assert_eq!(listener.receive(), format!("[message c {n}]"), "{level}");
            if n % 50 == 0 {
                let seen: u32 = reader.ask("GET k").parse().unwrap();
                assert!(seen >= n, "{level}: a message says {n}, found {seen}");
            }
        }
        for _ in 0..500 {
            assert_eq!((publisher.receive(), publisher.receive()), ("+OK".into(), ":1".into()));
        }
    }
}

#[test]
fn a_message_of_a_transaction_leaves_with_it() {
    let server = memory(&[]);
    let (mut listener, mut client) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(listener.ask("SUBSCRIBE c"), "[subscribe c :1]");
    client.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED"), ("PUBLISH c said", "+QUEUED")]);
    assert!(listener.is_silent());
    client.expect(&[("EXEC", "[+OK :1]")]);
    assert_eq!(listener.receive(), "[message c said]");
    client.expect(&[
        ("WATCH k", "+OK"),
        ("SET k w", "+OK"),
        ("MULTI", "+OK"),
        ("PUBLISH c no", "+QUEUED"),
        ("EXEC", "*-1"),
    ]);
    assert!(listener.is_silent());
}

#[test]
fn a_closed_connection_is_no_longer_subscribed() {
    let server = memory(&[]);
    let mut publisher = Client::connect(&server);
    let mut listener = Client::connect(&server);
    assert_eq!(listener.ask("SUBSCRIBE c"), "[subscribe c :1]");
    assert_eq!(listener.ask("PSUBSCRIBE *"), "[psubscribe * :2]");
    assert_eq!(publisher.ask("PUBLISH c x"), ":2");
    drop(listener);
    until("it no longer listens", || publisher.ask("PUBLISH c x") == ":0");
    publisher.expect(&[("PUBSUB CHANNELS", "[]"), ("PUBSUB NUMPAT", ":0")]);
}

#[test]
fn shard_channels_are_apart() {
    let server = memory(&[]);
    let (mut listener, mut publisher) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(listener.ask("SSUBSCRIBE c"), "[ssubscribe c :1]");
    publisher.expect(&[("PUBLISH c x", ":0"), ("SPUBLISH c y", ":1")]);
    assert_eq!(listener.receive(), "[smessage c y]");
}
