//! Messages as events: their text, who receives them, and that nothing is left of a subscriber that disconnects.

use keystead_core::Stopwatch;
use serde_json::json;

use crate::client::Http;
use crate::resp::{Client, until};
use crate::{Server, differs, memory};

fn subscribers(http: &mut Http) -> u64 {
    http.get("/pubsub/numsub/c").json()["result"][1].as_u64().unwrap()
}

#[test]
fn channels_and_patterns_receive_what_is_published() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        let mut channels =
            Http::connect(&server).events("/subscribe/c/d%2Fe", &["Accept: text/event-stream"]);
        assert_eq!((channels.next(), channels.next()), ("subscribe,c,1".into(), "subscribe,d/e,2".into()));
        let mut patterns = Http::connect(&server).events("/psubscribe/c*/d?e", &["Upstash-Encoding: base64"]);
        // After a '?' follows a query.
        assert_eq!((patterns.next(), patterns.next()), ("psubscribe,c*,1".into(), "psubscribe,d,2".into()));
        assert!(channels.response.header("upstash-sync-token").is_some());
        assert_eq!(channels.response.header("cache-control"), Some("no-store"));
        assert_eq!(http.post("/publish/c", "a, b\u{fc}").text(), r#"{"result":2}"#);
        assert_eq!(channels.next(), "message,c,a, b\u{fc}");
        assert_eq!(patterns.next(), "pmessage,c*,c,a, b\u{fc}");
        assert_eq!(http.post("/", r#"["PUBLISH","d/e","{\"x\":1}"]"#).text(), r#"{"result":1}"#);
        assert_eq!(channels.next(), "message,d/e,{\"x\":1}");
        assert_eq!(http.post("/publish/c", "two\nlines").text(), r#"{"result":2}"#);
        assert_eq!(channels.next(), "message,c,two\nlines");
        // Redis clients and REST clients receive each other's messages.
        let mut redis = Client::connect(&server);
        assert_eq!(redis.ask("PUBLISH c redis"), ":2");
        assert_eq!(channels.next(), "message,c,redis");
        let response = http.post("/multi-exec", r#"[["PUBLISH","c","in one"],["PUBLISH","c","go"]]"#);
        assert_eq!(response.json(), json!([{ "result": 2 }, { "result": 2 }]), "{shards}");
        assert_eq!((channels.next(), channels.next()), ("message,c,in one".into(), "message,c,go".into()));
        assert_eq!(http.get("/pubsub/channels").json()["result"].as_array().unwrap().len(), 2);
        assert_eq!(http.get("/pubsub/numpat").text(), r#"{"result":2}"#);
    }
}

#[test]
fn a_monitor_receives_every_command_and_needs_all_rights() {
    let server = memory(&["--token", "s3cret", "--read-only-token", "look"]);
    let all = ["Authorization: Bearer s3cret"];
    let mut events = Http::connect(&server).events("/monitor", &all);
    assert_eq!(events.next(), "\"OK\"");
    let mut http = Http::connect(&server);
    http.ask("POST", "/pipeline", &all, br#"[["SET","k","a \"b\""],["GET","k"]]"#);
    let command = |line: String| line.split_once("] ").map(|(_, command)| command.to_owned()).unwrap();
    assert_eq!(command(events.next()), r#""SET" "k" "a \"b\"""#);
    assert_eq!(command(events.next()), r#""GET" "k""#);
    let response = http.ask("POST", "/monitor", &["Authorization: Bearer look"], b"");
    assert_eq!(response.status, 400);
    assert!(response.error().starts_with("NOPERM this user has no permissions to run the 'monitor' command"));
    assert_eq!(http.ask("POST", "/monitor", &[], b"").status, 401);
}

#[test]
fn a_subscriber_that_disconnects_is_removed_promptly() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        for _ in 0..5 {
            let mut streams: Vec<_> =
                (0..20).map(|_| Http::connect(&server).events("/subscribe/c", &[])).collect();
            streams.iter_mut().for_each(|stream| assert_eq!(stream.next(), "subscribe,c,1"));
            assert_eq!(subscribers(&mut http), 20);
            let watch = Stopwatch::start();
            streams.truncate(3);
            until("those who went are forgotten", || subscribers(&mut http) == 3);
            drop(streams);
            until("all went", || subscribers(&mut http) == 0);
            // Long before the first heartbeat, which would detect it too.
            assert!(
                differs("a subscriber that goes away") || watch.elapsed().as_secs() < 5,
                "{:?}",
                watch.elapsed()
            );
        }
        if differs("/metrics, /openapi.json, /admin/*") {
            continue;
        }
        let metrics = http.get("/metrics");
        assert!(metrics.text().contains("\nkeystead_http_connections 1\n"), "{}", metrics.text());
    }
}

/// Publishes until the channel has no subscriber any more.
fn publish_until_closed(server: &Server, message: &str) -> usize {
    let mut redis = Client::connect(server);
    let mut sent = 0;
    while redis.ask(&format!("PUBLISH c {message}")) == ":1" {
        sent += 1;
        assert!(sent < 600, "{sent} messages wait for a reader that does not read");
    }
    sent
}

#[test]
fn what_waits_for_a_client_that_does_not_read_is_bounded() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    let set = admin.ask_words(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]);
    if differs("what waits for a subscriber that reads slowly") {
        assert!(set.starts_with("-ERR Unknown option"), "{set}");
        return;
    }
    assert_eq!(set, "+OK");
    let mut slow = Http::connect(&server).events("/subscribe/c", &[]);
    assert_eq!(slow.next(), "subscribe,c,1");
    let message = "m".repeat(100_000);
    let sent = publish_until_closed(&server, &message);
    let mut heard = 0;
    while let Ok(Some(event)) = slow.try_next() {
        assert_eq!(event.len(), message.len() + "message,c,".len());
        heard += 1;
    }
    assert!(heard <= sent, "what was written before may still be read, {heard} of {sent}");
}
