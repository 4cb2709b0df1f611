//! The HTTP listener, through the real binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::net::TcpStream;

use common::{Client, get, request, signal, start};
use keystead_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;

const READYZ: &str = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn memory(arguments: &[&str]) -> Server {
    start(&[&["--durability", "memory"], arguments].concat())
}

fn error_code(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    body["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn health_and_readiness_are_json() {
    let server = memory(&[]);
    let health = get(&server, "/healthz?verbose=1");
    assert_eq!(health.status, 200);
    assert!(health.head.contains("content-type: application/json"));
    assert!(health.body.starts_with(r#"{"status":"ok","version":"0.1.0","#), "{}", health.body);
    assert!(serde_json::from_str::<Value>(&health.body).unwrap()["uptime_seconds"].is_u64());
    let ready = get(&server, "/readyz");
    assert_eq!((ready.status, ready.body.trim_end()), (200, r#"{"status":"ready"}"#));
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.send("HEAD /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.receive("HEAD");
    assert_eq!(head.status, 200);
    assert!(head.head.contains("content-length: 19"), "{}", head.head);
    // With a body, the next response would not start with a status line.
    client.send(READYZ);
    assert_eq!(client.receive("GET").status, 200);
}

#[test]
fn responses_to_pipelined_requests_are_in_order() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.send(&format!("{READYZ}GET /no HTTP/1.1\r\nHost: localhost\r\n\r\n{READYZ}"));
    let statuses = [client.receive("GET").status, client.receive("GET").status, client.receive("GET").status];
    assert_eq!(statuses, [200, 400, 200]);
}

#[test]
fn a_path_that_is_no_command_is_400_and_a_wrong_method_405() {
    let server = memory(&[]);
    let missing = get(&server, "/nothing/here");
    let words = r#"{"error":"ERR unknown command 'nothing', with args beginning with: 'here' "}"#;
    assert_eq!((missing.status, missing.body.as_str()), (400, words));
    let wrong = request(&server, "DELETE", "/healthz", "");
    assert_eq!((wrong.status, error_code(&wrong.body).as_str()), (405, "method_not_allowed"));
    assert!(wrong.head.contains("allow: get, head"), "{}", wrong.head);
}

#[test]
fn headers_over_the_limit_are_431() {
    let server = memory(&[]);
    let long = format!("X-Long: {}\r\n", "x".repeat(70_000));
    assert_eq!(request(&server, "GET", "/healthz", &long).status, 431);
}

#[test]
fn a_body_that_says_it_is_over_the_limit_is_413_before_it_is_sent() {
    let server = memory(&[]);
    let reply = request(&server, "GET", "/healthz", "Content-Length: 99999999\r\n");
    assert_eq!((reply.status, error_code(&reply.body).as_str()), (413, "too_large"));
}

#[test]
fn nonsense_is_400_and_the_server_lives_on() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.send("\x16\x03\x01 this is not HTTP\r\n\r\n");
    assert_eq!(client.receive("GET").status, 400);
    assert_eq!(get(&server, "/healthz").status, 200);
}

#[test]
fn metrics_count_requests_with_bounded_labels() {
    let server = memory(&[]);
    get(&server, "/healthz");
    get(&server, "/healthz");
    get(&server, "/a");
    get(&server, "/b");
    request(&server, "BREW", "/healthz", "");
    let metrics = get(&server, "/metrics");
    assert_eq!(metrics.status, 200);
    assert!(
        metrics.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    for line in [
        r#"keystead_build_info{version="0.1.0"} 1"#,
        "keystead_uptime_seconds ",
        r#"keystead_http_requests_total{route="/healthz",method="GET",status="200"} 2"#,
        r#"keystead_http_requests_total{route="/*",method="GET",status="400"} 2"#,
        r#"keystead_http_requests_total{route="/healthz",method="other",status="405"} 1"#,
        "# TYPE keystead_http_request_duration_seconds histogram",
        r#"keystead_http_request_duration_seconds_bucket{le="+Inf",route="/healthz"} 3"#,
        r#"keystead_http_request_duration_seconds_count{route="/*"} 2"#,
        "keystead_http_connections ",
        "keystead_http_connections_refused_total 0",
        "keystead_resp_connections 0",
        "keystead_resp_connections_accepted_total 0",
        "keystead_resp_connections_refused_total 0",
        "keystead_resp_auth_failures_total 0",
        "keystead_http_auth_failures_total 0",
        "keystead_resp_foreign_protocol_total 0",
        "keystead_commands_total 2",
        "keystead_resp_read_bytes_total 0",
        "keystead_resp_written_bytes_total 0",
        r#"keystead_shard_durable_revision{shard="0"} 0"#,
        r#"keystead_shard_archived_revision{shard="0"} 0"#,
        r#"keystead_journal_bytes{shard="0"} 0"#,
        r#"keystead_shard_poisoned{shard="0"} 0"#,
        r#"keystead_archive_failing{shard="0"} 0"#,
        "# EOF",
    ] {
        assert!(metrics.body.lines().any(|l| l.starts_with(line)), "{line} is not in\n{}", metrics.body);
    }
}

#[test]
fn with_a_token_only_the_probes_are_open() {
    let mut server = memory(&["--token", "s3cret"]);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(&server, path).status, 200, "{path}");
    }
    for path in ["/metrics", "/admin/backup"] {
        for header in ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic s3cret\r\n"] {
            let reply = request(&server, "GET", path, header);
            assert_eq!(
                (reply.status, error_code(&reply.body).as_str()),
                (401, "unauthorized"),
                "{path} {header}"
            );
            assert!(reply.head.contains("www-authenticate: bearer"));
        }
    }
    assert_eq!(request(&server, "GET", "/metrics", "Authorization: Bearer s3cret\r\n").status, 200);
    assert_eq!(request(&server, "GET", "/nothing", "authorization: bearer s3cret\r\n").status, 400);
    let unauthorized = get(&server, "/nothing");
    let words = r#"{"error":"WRONGPASS invalid or missing auth token"}"#;
    assert_eq!((unauthorized.status, unauthorized.body.as_str()), (401, words));
    assert!(server.stop().unwrap().success() && !server.logs().contains("s3cret"));
}

/// A connection whose second request is in flight, because its body has not come yet, and an idle connection.
fn busy(server: &Server) -> (Client, Client) {
    let mut in_flight = Client::connect(server);
    // Sent at once, so that the response to the first request proves that the server has the second.
    let begun = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    in_flight.send(&format!("{READYZ}{begun}"));
    assert_eq!(in_flight.receive("GET").status, 200);
    let mut idle = Client::connect(server);
    idle.send(READYZ);
    assert_eq!(idle.receive("GET").status, 200);
    (in_flight, idle)
}

#[test]
fn a_stop_finishes_requests_in_flight_and_rejects_new_ones() {
    // Addresses that no other test listens on: elsewhere the port, once free, may be another server's at once.
    for (stop, address) in [(Signal::TERM, "127.1.0.1:0"), (Signal::INT, "127.1.0.2:0")] {
        let mut server = memory(&["--log-level", "info", "--http", address]);
        let (mut in_flight, mut idle) = busy(&server);
        signal(&server, stop);
        assert!(idle.is_closed(), "an idle connection does not hold up the stop");
        assert!(TcpStream::connect(server.http().unwrap()).is_err(), "the listener is closed");
        in_flight.send("0\r\n\r\n");
        let response = in_flight.receive("GET");
        assert_eq!((response.status, response.body.trim_end()), (503, r#"{"status":"stopping"}"#));
        assert!(response.head.contains("connection: close"), "{}", response.head);
        assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
        assert!(server.logs().contains("stopped"), "{}", server.logs());
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    for (stop, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut server = memory(&[]);
        let (_in_flight, mut idle) = busy(&server);
        signal(&server, stop);
        // Two signals in one go could arrive as one; a closed idle connection proves that the first was
        // heard.
        assert!(idle.is_closed());
        signal(&server, stop);
        assert_eq!(server.wait().unwrap().code(), Some(code));
    }
}
