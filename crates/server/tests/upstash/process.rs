//! What only the server has: no token at all, and a process with a log, a stop and a restart.

use keystead_core::Stopwatch;
use rustix::process::Signal;

use crate::client::{Http, Response};
use crate::common::{dir, signal, start_on};
use crate::idempotency::{NAME, Request, USED, ask, is_error, same};
use crate::memory;
use crate::resp::Client;

#[test]
fn no_token_is_ever_logged() {
    let mut server = memory(&["--token", "s3cret", "--log-level", "trace"]);
    let mut http = Http::connect(&server);
    http.get("/get/k?_token=s3cret");
    http.ask("GET", "/get/k", &["Authorization: Bearer s3cret"], b"");
    http.get("/get/k?_token=s3cret%");
    assert!(server.stop().unwrap().success());
    assert!(!server.logs().contains("s3cret"), "{}", server.logs());
}

#[test]
fn a_stop_ends_the_streams_at_once() {
    for shards in ["1", "4"] {
        let mut server = memory(&["--shards", shards]);
        let mut streams: Vec<_> = (0..8)
            .map(|n| Http::connect(&server).events(["/subscribe/c", "/psubscribe/*"][n % 2], &[]))
            .collect();
        streams.iter_mut().for_each(|stream| assert!(stream.next().contains("subscribe,")));
        let watch = Stopwatch::start();
        signal(&server, Signal::TERM);
        for stream in &mut streams {
            assert_eq!(stream.try_next().unwrap(), None, "it ends as it should");
        }
        assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
        assert!(watch.elapsed().as_secs() < 3, "{:?}", watch.elapsed());
    }
}

/// A client that does not read must not delay the stop, either.
#[test]
fn a_stop_does_not_wait_for_a_client_that_does_not_read() {
    let mut server = memory(&[]);
    let mut slow = Http::connect(&server).events("/subscribe/c", &[]);
    assert_eq!(slow.next(), "subscribe,c,1");
    let mut redis = Client::connect(&server);
    let message = "m".repeat(100_000);
    for _ in 0..100 {
        assert_eq!(redis.ask(&format!("PUBLISH c {message}")), ":1");
    }
    let watch = Stopwatch::start();
    signal(&server, Signal::TERM);
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
    assert!(watch.elapsed().as_secs() < 15, "{:?}", watch.elapsed());
}

#[test]
fn the_first_response_survives_a_restart_and_a_kill() {
    let home = dir();
    for shards in ["1", "4"] {
        let home = home.path().join(shards);
        let mut server = start_on(&home, &["--shards", shards]);
        let requests: [Request<'_>; 3] = [
            ("POST", "/", &[NAME], r#"["INCR","n"]"#),
            ("POST", "/pipeline", &["Idempotency-Key: p"], r#"[["INCR","n"],["INCR","n"]]"#),
            ("POST", "/multi-exec", &["Idempotency-Key: m"], r#"[["INCR","n"],["INCR","n"]]"#),
        ];
        let mut http = Http::connect(&server);
        let firsts: Vec<Response> = requests.iter().map(|request| ask(&mut http, *request)).collect();
        for kill in [true, false] {
            if kill {
                server.kill().unwrap();
            } else {
                assert!(server.stop().unwrap().success());
            }
            server.restart().unwrap();
            let mut http = Http::connect(&server);
            for (first, request) in firsts.iter().zip(requests) {
                same(first, &ask(&mut http, request));
            }
            for n in 0..10 {
                is_error(&http.ask("POST", &format!("/incr/k{n}"), &[NAME], b""), 422, USED);
            }
            assert_eq!(http.get("/get/n").text(), r#"{"result":"5"}"#);
        }
    }
}

#[test]
fn a_page_of_another_site_is_rejected_where_no_token_is_set() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for header in ["Origin: https://example.com", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        for (method, target, body) in [
            ("GET", "/set/k/v", ""),
            ("POST", "/", r#"["SET","k","v"]"#),
            ("POST", "/pipeline", r#"[["SET","k","v"]]"#),
            ("POST", "/multi-exec", r#"[["SET","k","v"]]"#),
            ("GET", "/subscribe/c", ""),
        ] {
            let response = http.ask(method, target, &[header], body.as_bytes());
            assert_eq!(response.status, 401, "{header} {target}");
            assert!(response.error().starts_with("WRONGPASS "), "{header} {target}");
        }
    }
    assert_eq!(http.get("/exists/k").text(), r#"{"result":0}"#);
    let response = http.ask("GET", "/set/k/v", &["Origin: http://localhost:3000"], b"");
    assert_eq!(response.text(), r#"{"result":"OK"}"#);
}
