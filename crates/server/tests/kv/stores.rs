//! Documents on the real servers of other projects (`--documents-store`): the same responses as on the database, one version per key
//! for all servers, errors for what a store cannot do, and outages.

use keystead_core::{Clock, SystemClock};
use keystead_testkit::server::Server;
use serde_json::json;

use crate::client::Http;
use crate::common::{dir, launch, only_line, run_in};
use crate::others::{ALL, OtherKind, POSTGRES, REDIS, TWO, assert_no_password};
use crate::resp::{Client, until};
use crate::{memory, open};

/// A server whose documents are in this store. The URL is not an argument, because `ps` shows those.
fn start(url: &str) -> (Server, Http) {
    let server = launch(&["--durability", "memory", "--shards", "2"]).env("KEYSTEAD_DOCUMENTS_STORE", url);
    let server = server.start().unwrap();
    let http = Http::connect(&server);
    (server, http)
}

/// Runs a case on a server with its documents in the database, in Redis, and in PostgreSQL.
pub(crate) fn on_two_stores(case: impl Fn(&mut Http)) {
    on(&TWO, case);
}

/// The same on every other store, too: for what depends on how a store keeps keys and expiries.
fn on_every_store(case: impl Fn(&mut Http)) {
    on(&ALL, case);
}

fn on(kinds: &[OtherKind], case: impl Fn(&mut Http)) {
    let (_server, mut http) = open();
    case(&mut http);
    for kind in kinds {
        let Some(other) = kind.start() else { continue };
        println!("{}", kind.kind.name);
        let (_server, mut http) = start(&other.url());
        case(&mut http);
    }
}

#[test]
fn an_expiry_is_set_kept_and_cleared() {
    on_every_store(|http| {
        let at = SystemClock.now().0 + 100_000;
        let response = http.put(&format!("/kv/a?expiresAt={at}"), "1");
        assert_eq!(response.json()["expiresAt"], at);
        http.patch("/kv/a", "application/json", "2");
        http.put("/kv/a?ttl=keep", "3");
        http.get("/kv/a").is(200, &format!(r#"{{"key":"a","value":3,"version":3,"expiresAt":{at}}}"#));
        http.put("/kv/a", "4").is(200, r#"{"key":"a","value":4,"version":4}"#);
        let soon = http.patch("/kv/a?ttl=10s", "application/json", "5").json();
        assert!(soon["expiresAt"].as_u64().unwrap() < at);
        http.patch("/kv/a?ttl=none", "application/json", "6").is(200, r#"{"key":"a","value":6,"version":6}"#);
        for bad in ["ttl=0s", "ttl=1s&expiresAt=9", "expiresAt=1"] {
            http.put(&format!("/kv/a?{bad}"), "9").expect_error(400, "bad_request");
        }
        assert_eq!(http.version("/kv/a"), 6);
        http.put("/kv/a?ttl=50ms", "7");
        until("the document expires", || http.get("/kv/a").status == 404);
        http.put("/kv/a?ifVersion=7", "1").expect_error(409, "conflict");
        http.put("/kv/a", "1").is(201, r#"{"key":"a","value":1,"version":1}"#);
    });
}

#[test]
fn keys_are_any_bytes_and_numbers_keep_all_digits() {
    on_every_store(|http| {
        http.put("/kv/%00%ff%25%0D%0A", "2");
        http.get("/kv/%00%FF%25%0d%0a").is(200, r#"{"key":{"base64":"AP8lDQo="},"value":2,"version":1}"#);
        http.put("/kv/a%2Fb", "1").is(201, r#"{"key":"a/b","value":1,"version":1}"#);
        let text =
            r#"{"n":[9007199254740993,1.10,-0.0,1e+400,123456789012345678901234567890],"s":"\u0000 ü \\"}"#;
        http.put("/kv/n", text);
        http.patch("/kv/n", "application/json", r#"{"x":0.1000000000000000055511151231257827}"#);
        let text = text.replace('}', r#","x":0.1000000000000000055511151231257827}"#);
        http.get("/kv/n").is(200, &format!(r#"{{"key":"n","value":{text},"version":2}}"#));
    });
}

/// Each adds 1 by reading, and writing if the version is still the same.
#[test]
fn two_hundred_increments_on_two_servers_are_two_hundred() {
    for kind in ALL {
        let Some(other) = kind.start() else { continue };
        let url = other.url();
        let servers = [start(&url), start(&url)];
        Http::connect(&servers[0].0).put("/kv/n", r#"{"count":0}"#);
        let clients: Vec<_> = (0..20)
            .map(|n| {
                let mut http = Http::connect(&servers[n % 2].0);
                std::thread::spawn(move || (0..10).map(|_| increment(&mut http)).collect::<Vec<u64>>())
            })
            .collect();
        let mut versions: Vec<u64> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        versions.sort_unstable();
        assert_eq!(versions, (2..=201).collect::<Vec<_>>(), "each version was returned to one client");
        for (server, _) in &servers {
            Http::connect(server).get("/kv/n").is(200, r#"{"key":"n","value":{"count":200},"version":201}"#);
        }
    }
}

/// Adds 1, and returns the version that this wrote.
fn increment(http: &mut Http) -> u64 {
    loop {
        let was = http.get("/kv/n").json();
        let patch = json!({ "count": was["value"]["count"].as_u64().unwrap() + 1 }).to_string();
        let if_match = format!("If-Match: \"{}\"", was["version"]);
        let response = http.ask("PATCH", "/kv/n", &[&if_match], patch.as_bytes());
        match response.status {
            200 => return response.json()["version"].as_u64().unwrap(),
            412 => {}
            other => panic!("{other}: {}", response.text()),
        }
    }
}

/// Without a condition: the steps themselves are atomic.
#[test]
fn merges_on_two_servers_lose_nothing() {
    let Some(other) = POSTGRES.start() else { return };
    let servers = [start(&other.url()), start(&other.url())];
    let clients: Vec<_> = (0..100)
        .map(|n| {
            let mut http = Http::connect(&servers[n % 2].0);
            std::thread::spawn(move || {
                let response = http.patch("/kv/a", "application/json", &format!(r#"{{"f{n}":{n}}}"#));
                assert!([200, 201].contains(&response.status), "{}", response.text());
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let found = Http::connect(&servers[0].0).get("/kv/a").json();
    assert_eq!((&found["version"], found["value"].as_object().unwrap().len()), (&json!(100), 100));
}

#[test]
fn what_a_store_cannot_do_is_501() {
    let Some(other) = REDIS.start() else { return };
    let (server, mut http) = start(&other.url());
    http.put("/kv/a", "1");
    let events = ["Accept: text/event-stream"];
    for (method, target, headers, body) in [
        ("GET", "/kv", &[][..], ""),
        ("GET", "/kv?prefix=a&values=true&limit=10", &[], ""),
        ("GET", "/kv", &events, ""),
        ("GET", "/kv/a", &events, ""),
        ("GET", "/kv/a?wait=10ms", &[], ""),
        ("POST", "/kv:batch", &[], r#"{"operations":[{"op":"put","key":"a","value":2}]}"#),
        ("PUT", "/kv/a", &["Idempotency-Key: 1"], "2"),
        ("PATCH", "/kv/a", &["Idempotency-Key: 1"], "2"),
        ("DELETE", "/kv/a", &["Idempotency-Key: 1"], ""),
    ] {
        let error = http.ask(method, target, headers, body.as_bytes()).expect_error(501, "unsupported");
        assert!(error["message"].as_str().unwrap().contains("in a store (redis)"), "{error}");
    }
    // Invalid requests are still found first.
    http.get("/kv?nosuch=1").expect_error(400, "bad_request");
    http.get("/kv/a").is(200, r#"{"key":"a","value":1,"version":1}"#);
    // Documents and Redis keys of this server have nothing in common.
    assert_eq!(Client::connect(&server).ask("EXISTS a"), ":0");
}

#[test]
fn operations_with_a_decision_need_the_database() {
    let home = dir();
    let policy =
        "documents-store = \"memory:\"\n[limit.a]\nlimit = 5\nperiodMs = \"1d\"\nfail = \"closed\"\n";
    std::fs::write(home.path().join("keystead.toml"), policy).unwrap();
    let server = memory(&["--config", home.path().join("keystead.toml").to_str().unwrap()]);
    let mut http = Http::connect(&server);
    let body =
        r#"{"checks":[{"policy":"a","key":"k"}],"then":{"operations":[{"op":"put","key":"k","value":1}]}}"#;
    http.post("/limit", body).expect_error(501, "unsupported");
    assert_eq!(http.get("/limit/a/k").json()["remaining"], 5);
}

#[test]
fn a_killed_store_is_503_and_works_again_when_it_is_back() {
    for kind in ALL {
        let Some(mut other) = kind.start() else { continue };
        let url = other.url_with("deadline=2s");
        let store = url.split_once(':').unwrap().0;
        let (server, mut http) = start(&url);
        http.put("/kv/a", "1").is(201, r#"{"key":"a","value":1,"version":1}"#);
        other.kill();
        // A process of the server may live a moment longer than the others.
        until("it is noticed", || http.get("/kv/a").status != 200);
        http.get("/kv/a").expect_error(503, "store_unavailable");
        http.put("/kv/a", "2").expect_error(503, "store_unavailable");
        http.ask("PATCH", "/kv/a", &[], b"2").expect_error(503, "store_unavailable");
        http.delete("/kv/a").expect_error(503, "store_unavailable");
        let health = http.get("/healthz").json();
        let why = format!("documents: their store ({store}) failed at the last request");
        assert_eq!((&health["status"], &health["reasons"]), (&json!("degraded"), &json!([why])));
        assert_eq!(http.get("/readyz").status, 200, "Redis commands and limits go on");
        let metrics = http.get("/metrics").text().to_owned();
        let line = format!("keystead_documents_store_broken{{store=\"{store}\"}} 1");
        assert!(metrics.lines().any(|there| there == line), "{metrics}");
        assert_no_password(&format!("{metrics}{health}"));
        other.restart();
        until("the store is used again", || http.get("/kv/a").status == 200);
        http.put("/kv/a?ifVersion=1", "2").is(200, r#"{"key":"a","value":2,"version":2}"#);
        assert_eq!(http.get("/healthz").json()["status"], "ok");
        assert_no_password(&server.logs());
    }
}

/// Its connections stay open and nothing replies: a request ends at the deadline.
#[test]
fn a_store_that_is_stuck_does_not_hang_a_request() {
    let Some(other) = REDIS.start() else { return };
    let (_server, mut http) = start(&other.url_with("deadline=4s"));
    http.put("/kv/a", "1").is(201, r#"{"key":"a","value":1,"version":1}"#);
    other.pause();
    // The first one is sent on a connection that is open, so nobody knows whether it will be applied.
    until("the store is stuck", || {
        let response = http.put("/kv/a", "2");
        response.status == 503 && response.expect_error(503, "store_unavailable")["outcome"] == "unknown"
    });
    http.get("/kv/a").expect_error(503, "store_unavailable");
}

#[test]
fn a_document_that_is_too_large_for_the_store_is_413() {
    let Some(other) = POSTGRES.start() else { return };
    let (_server, mut http) = start(&other.url());
    http.put("/kv/a", "1");
    http.put("/kv/a", &format!("\"{}\"", "x".repeat(2 << 20))).expect_error(413, "too_large");
    http.put(&format!("/kv/{}", "k".repeat(2046)), "1").expect_error(413, "too_large");
    http.get("/kv/a").is(200, r#"{"key":"a","value":1,"version":1}"#);
}

#[test]
fn a_bad_url_is_one_line_without_the_password() {
    for (url, words) in [
        ("redsi://u:secret-words@h", "KEYSTEAD_DOCUMENTS_STORE names no store that this build has"),
        ("secret-words", "names no store that this build has: write a URL that begins with memory:, "),
        ("postgres://u:secret-words@h/d?nosuch=1", "--documents-store: the parameter 'nosuch' is unknown"),
    ] {
        let arguments = ["serve", "--durability", "memory", "--http", "127.0.0.1:0"];
        let line = only_line(2, &run_in(dir().path(), &arguments, &[("KEYSTEAD_DOCUMENTS_STORE", url)]));
        assert!(line.contains(words) && !line.contains("secret-words"), "{line}");
    }
    let variables = [("KEYSTEAD_DOCUMENTS_STORE", "postgres://u:secret-words@h/d")];
    let (code, stdout, _) = run_in(dir().path(), &["config"], &variables);
    let line = stdout.lines().find(|line| line.starts_with("documents-store")).unwrap();
    assert!(code == 0 && line.contains("(set)") && !stdout.contains("secret-words"), "{stdout}");
}
