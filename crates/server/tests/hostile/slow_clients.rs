//! Many clients at a time that send large requests slowly, or read large replies slowly or not at all: what all of them together
//! hold is bounded, and the others are served. With the read-only token where that is enough, because web pages may have it.

use std::io::{Read, Write};
use std::net::TcpStream;

use keystead_testkit::server::Server;

use crate::client::{Client, request_of};
use crate::{common, until, victim};

const ALL: &str = "full-token-0123456789";
const READ_ONLY: &str = "read-only-token-0123456789";
const MEBIBYTE: usize = 1 << 20;

fn locked() -> Server {
    victim(&["--token", ALL, "--read-only-token", READ_ONLY])
}

/// A Redis client with the token.
fn admin(server: &Server) -> Client {
    let mut client = Client::connect(server);
    client.expect(&[(&format!("AUTH {ALL}"), "+OK")]);
    client
}

/// Checks that others are served, through both listeners.
#[track_caller]
fn assert_serves(server: &Server) {
    assert!(server.is_running(), "the server has ended:\n{}", server.logs());
    admin(server).expect(&[("SET small 1", "+OK"), ("GET small", "1")]);
    for path in ["/get/small", "/kv/small"] {
        let response =
            common::request(server, "GET", path, &format!("Authorization: Bearer {READ_ONLY}\r\n"));
        assert_eq!(response.status, 200, "{path}: {response:?}");
    }
}

/// Sends a request with the read-only token and reads nothing.
fn send(server: &Server, line: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.http().unwrap()).unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer {READ_ONLY}\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// The status of the response to such a request, of which no more is read.
fn status(server: &Server, line: &str, headers: &str) -> String {
    let mut start = [0; 12];
    send(server, line, headers).read_exact(&mut start).unwrap();
    String::from_utf8_lossy(&start[9..]).into_owned()
}

/// Requests the large document until a response does not fit, and reads the start of each. One after the other: of two at the same
/// time both may be refused where one would fit. No more than the start: the kernel's buffers of a connection that is read grow to
/// 32 MiB and more, and a response whose rest fits in them is sent, so that it no longer counts.
fn hold(server: &Server, headers: &str) -> Vec<TcpStream> {
    let mut held = Vec::new();
    loop {
        let mut stream = send(server, "GET /kv/large", &format!("{headers}Connection: close\r\n"));
        if stream.read_exact(&mut vec![0; MEBIBYTE]).is_err() {
            return held;
        }
        held.push(stream);
        assert!(held.len() < 24, "more than the bound is sent");
    }
}

#[test]
fn large_documents_that_nobody_reads_are_no_longer_sent() {
    let server = locked();
    let mut client = admin(&server);
    let document = format!("\"{}\"", "x".repeat(60 * MEBIBYTE));
    assert_eq!(client.ask_words(&["JSON.SET", "large", "$", &document]), "+OK");
    let held = hold(&server, "");
    until(|| status(&server, "GET /kv/large", "") == "503");
    assert_serves(&server);
    drop(held);
    until(|| status(&server, "GET /kv/large", "") == "200");
}

#[test]
fn a_write_whose_response_does_not_fit_is_undone() {
    let server = locked();
    let mut client = admin(&server);
    let document = format!("{{\"x\":\"{}\"}}", "x".repeat(60 * MEBIBYTE));
    assert_eq!(client.ask_words(&["JSON.SET", "large", "$", &document]), "+OK");
    let patch = || {
        let mut writer = common::Client::connect(&server);
        let head = format!("PATCH /kv/large HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer {ALL}\r\n");
        writer.send(&format!("{head}Content-Length: 9\r\n\r\n{{\"y\":1.5}}"));
        writer.receive("PATCH")
    };
    let held = hold(&server, "");
    until(|| status(&server, "GET /kv/large", "") == "503");
    let response = patch();
    assert!(response.status == 503 && response.body.contains("queue_full"), "{}", response.status);
    client.expect(&[("JSON.TYPE large $.y", "[]")]);
    drop(held);
    until(|| patch().status == 200);
    client.expect(&[("JSON.GET large $.y", "[1.5]")]);
}

#[test]
fn watchers_of_a_large_document_that_do_not_read_are_closed() {
    let server = locked();
    let mut client = admin(&server);
    let document = format!("\"{}\"", "x".repeat(60 * MEBIBYTE));
    assert_eq!(client.ask_words(&["JSON.SET", "large", "$", &document]), "+OK");
    let watch = || send(&server, "GET /kv/large", "Accept: text/event-stream\r\n");
    // The last one was closed before it had its event.
    let held = hold(&server, "Accept: text/event-stream\r\n");
    let reads = || watch().read_exact(&mut vec![0; 30 * MEBIBYTE]).is_ok();
    assert_serves(&server);
    drop(held);
    // One that reads gets its event.
    until(reads);
}

#[test]
fn bodies_that_many_clients_send_at_once_are_bounded_together() {
    let server = locked();
    let body = vec![b'x'; 9_999_999];
    let slow = |_| {
        let mut stream = send(&server, "POST /pipeline", "Content-Length: 10000000\r\n");
        // It is closed when there are too many.
        let _ = stream.write_all(&body);
        stream
    };
    let mut held: Vec<_> = (0..100).map(slow).collect();
    let rejected = held.iter_mut().filter_map(|stream| {
        stream.set_nonblocking(true).unwrap();
        let mut start = [0; 12];
        // The response may be lost: what was not read of the body makes the close a reset.
        stream.read_exact(&mut start).is_ok().then(|| String::from_utf8_lossy(&start[9..]).into_owned())
    });
    assert!(rejected.into_iter().all(|status| status == "503"));
    assert_serves(&server);
    drop(held);
    let mut writer = common::Client::connect(&server);
    let value = "x".repeat(9_000_000);
    until(|| {
        writer = common::Client::connect(&server);
        let head = format!("POST /set/large HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer {ALL}\r\n");
        writer.send(&format!("{head}Content-Length: {}\r\n\r\n{value}", value.len()));
        writer.receive("POST").status == 200
    });
    admin(&server).expect(&[("STRLEN large", ":9000000")]);
}

#[test]
fn a_string_that_is_huge_as_json_is_not_read_as_a_document() {
    let server = locked();
    let mut client = admin(&server);
    // Each of its bytes needs six in JSON.
    client.expect(&[("SETRANGE k 134217727 x", ":134217728"), ("SET small text", "+OK")]);
    let token = format!("Authorization: Bearer {ALL}\r\n");
    let response = common::request(&server, "GET", "/kv/k", &token);
    assert!(response.status == 413 && response.body.contains("too_large"), "{response:?}");
    assert_eq!(status(&server, "GET /kv/k", "Accept: text/event-stream\r\n"), "413");
    let listed = common::request(&server, "GET", "/kv?values=true&limit=10", &token);
    assert_eq!(listed.body, "[{\"key\":\"small\",\"value\":\"text\",\"version\":1}]\n");
    assert_serves(&server);
    let deleted = common::request(&server, "DELETE", "/kv/k", &token);
    assert_eq!(deleted.status, 204, "{deleted:?}");
}

#[test]
fn a_list_of_large_documents_has_few_on_a_page() {
    let server = locked();
    let mut client = admin(&server);
    let document = format!("\"{}\"", "x".repeat(50 * MEBIBYTE));
    assert_eq!(client.ask_words(&["JSON.SET", "d0", "$", &document]), "+OK");
    for n in 1..16 {
        assert_eq!(client.ask(&format!("COPY d0 d{n}")), ":1");
    }
    let (mut cursor, mut names) = ("0".to_owned(), Vec::new());
    loop {
        let path = format!("/kv?values=true&limit=16&cursor={cursor}");
        let page = common::request(&server, "GET", &path, &format!("Authorization: Bearer {ALL}\r\n"));
        assert_eq!(page.status, 200, "{}", page.head);
        let listed =
            page.body.split("\"key\":\"").skip(1).map(|item| item[..item.find('"').unwrap()].to_owned());
        names.extend(listed);
        let next = page.head.lines().find_map(|line| line.strip_prefix("keystead-cursor: "));
        match next {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 16);
    assert_serves(&server);
}

/// Sends a megabyte to many clients, again and again: 2.8 GB in all, of which none reads anything.
fn flood(server: &Server, listen: &str, speak: &[&[u8]]) -> Vec<Client> {
    let mut listeners: Vec<_> = (0..100).map(|_| admin(server)).collect();
    for listener in &mut listeners {
        listener.send(listen);
        listener.receive();
    }
    let mut speaker = admin(server);
    let large = vec![b'x'; MEBIBYTE];
    for _ in 0..28 {
        speaker.send_raw(&request_of(speak.iter().copied().chain([&large[..]])));
        speaker.receive();
    }
    listeners
}

#[test]
fn many_subscribers_that_do_not_read_are_closed_when_they_hold_too_much() {
    let server = locked();
    let slow = flood(&server, "SUBSCRIBE c", &[b"PUBLISH", b"c"]);
    assert_serves(&server);
    server.wait_for_log("too many bytes wait for slow subscribers").unwrap();
    drop(slow);
    // A subscriber that reads gets every message.
    let mut listener = admin(&server);
    listener.send("SUBSCRIBE d");
    assert!(listener.receive().starts_with("[subscribe"));
    let mut speaker = admin(&server);
    for n in 0..200 {
        assert_eq!(speaker.ask(&format!("PUBLISH d {n}")), ":1");
        assert_eq!(listener.receive(), format!("[message d {n}]"));
    }
    assert_serves(&server);
}

#[test]
fn many_monitors_that_do_not_read_are_closed_when_they_hold_too_much() {
    let server = locked();
    let slow = flood(&server, "MONITOR", &[b"SET", b"k"]);
    assert_serves(&server);
    server.wait_for_log("too many bytes wait for slow subscribers").unwrap();
    drop(slow);
}
