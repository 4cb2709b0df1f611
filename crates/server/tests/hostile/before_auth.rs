//! Clients without the token: they get little memory, little time and few attempts, and do not keep others out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;

use crate::client::{Client, info, pause, request_of};
use crate::{common, victim};

const TOKEN: &str = "correct-horse-battery-staple";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
/// The delay of the reply to a wrong token, and how many wrong tokens a connection may send.
const DELAY: Duration = Duration::from_millis(250);
const TRIES: usize = 8;

fn locked() -> Server {
    victim(&["--token", TOKEN])
}

/// Bytes of memory that the server has, as the system reports.
fn resident(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Checks that a client with the token is served.
#[track_caller]
fn assert_serves(server: &Server) {
    assert!(server.is_running(), "the server has ended:\n{}", server.logs());
    let mut client = Client::connect(server);
    client.expect(&[(&format!("AUTH {TOKEN}"), "+OK"), ("SET unharmed 1", "+OK"), ("GET unharmed", "1")]);
    let header = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(common::request(server, "GET", "/get/unharmed", &header).body, r#"{"result":"1"}"#);
}

/// Sends as much as is taken of `bytes`, and reads nothing.
fn push(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(700))).unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(count) if count > 0 => sent += count,
            _ => break,
        }
    }
    sent
}

#[test]
fn garbage_before_auth_takes_no_memory() {
    let server = locked();
    let before = resident(&server);
    let mut streams = Vec::new();
    for line in [&b"x\r\n"[..], b"PING\r\n", b"*1\r\n$1\r\nx\r\n", b"HELLO 3\r\n"] {
        let mut stream = TcpStream::connect(server.resp().unwrap()).unwrap();
        let garbage = line.repeat((20 << 20) / line.len());
        let sent = push(&mut stream, &garbage);
        assert!(sent < garbage.len(), "all of it was read although the replies are not");
        streams.push(stream);
    }
    let more = resident(&server).saturating_sub(before);
    assert!(more < 16 << 20, "clients before AUTH made the server keep {more} bytes");
    assert_serves(&server);
}

#[test]
fn a_slow_reader_before_auth_gets_all_its_replies() {
    let server = locked();
    let mut client = Client::connect(&server);
    let many = 20_000;
    let mut writer = client.writer();
    let sender = std::thread::spawn(move || {
        writer.write_all(&b"*1\r\n$4\r\nPING\r\n".repeat(many)).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    pause(300);
    let replies = client.rest();
    sender.join().unwrap();
    assert_eq!(replies.len(), many);
    assert!(replies.iter().all(|one| one == "-NOAUTH Authentication required."));
}

#[test]
fn unfinished_requests_before_auth_take_little_memory() {
    let server = locked();
    let before = resident(&server);
    let part = [b'x'; 16_384];
    let whole = request_of([&part[..]; 10]);
    let mut streams = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.resp().unwrap()).unwrap();
        push(&mut stream, &whole[..whole.len() - 10]);
        streams.push(stream);
    }
    let more = resident(&server).saturating_sub(before);
    assert!(more < 20 << 20, "200 clients before AUTH made the server keep {more} bytes");
    assert_serves(&server);
}

#[test]
fn a_long_request_before_auth_closes_the_connection() {
    let server = locked();
    for bytes in [request_of([&[b'x'; 16_384][..]; 10]), vec![b'x'; 64_000]] {
        let mut client = Client::connect(&server);
        client.send_raw(&bytes);
        client.rest();
        assert!(client.is_closed());
    }
    assert_serves(&server);
}

#[test]
fn a_client_that_does_not_authenticate_in_time_is_closed() {
    let server = locked();
    let mut friend = Client::connect(&server);
    assert_eq!(friend.ask(&format!("AUTH {TOKEN}")), "+OK");
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(&server)).collect();
    clients[1].send_raw(b"*2\r\n$4\r\nAUTH\r\n");
    assert!(clients[2].ask("PING").starts_with("-NOAUTH"));
    for client in &mut clients {
        assert!(client.is_closed());
    }
    assert_eq!(friend.ask("PING"), "+PONG");
}

#[test]
fn guesses_over_resp_are_slow_few_counted_and_logged_once() {
    let mut server = locked();
    let mut client = Client::connect(&server);
    let watch = Stopwatch::start();
    client.send_raw(&b"*2\r\n$4\r\nAUTH\r\n$5\r\nguess\r\n".repeat(10_000));
    // The last replies may be lost: unread input makes the close a reset.
    let replies = client.rest();
    assert!(replies.len() <= TRIES && replies.iter().all(|one| one == WRONG), "{replies:?}");
    assert!(watch.elapsed() >= DELAY * TRIES as u32, "{:?}", watch.elapsed());
    // Neither another form of AUTH nor RESET allows more.
    let mut client = Client::connect(&server);
    client.send_raw(&b"HELLO 3 AUTH default guess\r\nRESET\r\n".repeat(100));
    client.rest();
    let mut admin = Client::connect(&server);
    assert_eq!(admin.ask(&format!("AUTH {TOKEN}")), "+OK");
    assert_eq!(info(&mut admin, "stats", "acl_access_denied_auth"), 2 * TRIES as u64);
    let header = format!("Authorization: Bearer {TOKEN}\r\n");
    let metrics = common::request(&server, "GET", "/metrics", &header).body;
    assert!(metrics.contains(&format!("keystead_resp_auth_failures_total {}\n", 2 * TRIES)), "{metrics}");
    server.stop().unwrap();
    let logs = server.logs();
    assert_eq!(logs.matches("wrong token").count(), 1, "{logs}");
    assert!(!logs.contains("guess") && !logs.contains(TOKEN), "{logs}");
}

/// Guesses until the connection is closed.
fn guess_over_http(server: &Server, target: &str) {
    let mut client = common::Client::connect(server);
    let header = if target.contains('?') { "" } else { "Authorization: Bearer guess\r\n" };
    let watch = Stopwatch::start();
    for n in 1..=TRIES {
        // A request that needs no token does not reset the count.
        client.send(&format!(
            "GET /healthz HTTP/1.1\r\nHost: k\r\n\r\nGET {target} HTTP/1.1\r\nHost: k\r\n{header}\r\n"
        ));
        assert_eq!(client.receive("GET").status, 200);
        let response = client.receive("GET");
        assert_eq!(response.status, 401, "{target}");
        assert_eq!(response.head.contains("connection: close"), n == TRIES, "{target}: {n}");
    }
    assert!(watch.elapsed() >= DELAY * TRIES as u32, "{:?}", watch.elapsed());
    assert!(client.is_closed(), "{target}");
}

#[test]
fn guesses_over_http_are_slow_few_and_counted() {
    let server = locked();
    std::thread::scope(|scope| {
        for target in ["/get/k", "/get/k?_token=guess", "/metrics", "/kv/k"] {
            scope.spawn(|| guess_over_http(&server, target));
        }
    });
    let header = format!("Authorization: Bearer {TOKEN}\r\n");
    let metrics = common::request(&server, "GET", "/metrics", &header).body;
    assert!(metrics.contains(&format!("keystead_http_auth_failures_total {}\n", 4 * TRIES)), "{metrics}");
    // A request without a token is not an attempt.
    let mut client = common::Client::connect(&server);
    for _ in 0..3 * TRIES {
        client.send("GET /get/k HTTP/1.1\r\nHost: k\r\n\r\n");
        assert_eq!(client.receive("GET").status, 401);
    }
}

#[test]
fn a_client_with_the_token_is_served_while_others_guess() {
    let server = locked();
    let guess = b"*2\r\n$4\r\nAUTH\r\n$5\r\nguess\r\n".repeat(100);
    let mut guessing = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.resp().unwrap()).unwrap();
        push(&mut stream, &guess);
        let mut http = TcpStream::connect(server.http().unwrap()).unwrap();
        push(&mut http, b"GET /get/k HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer guess\r\n\r\n");
        guessing.push((stream, http));
    }
    for _ in 0..20 {
        assert_serves(&server);
    }
}

#[test]
fn bodies_that_no_route_needs_are_not_read() {
    let server = locked();
    let before = resident(&server);
    let mut held = Vec::new();
    for n in 0..100 {
        let (head, status) = match n % 4 {
            0 => ("GET /healthz HTTP/1.1\r\nHost: k\r\nContent-Length: 10000000\r\n\r\n", "413"),
            1 => ("GET /readyz HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n989680\r\n", "413"),
            2 => ("POST / HTTP/1.1\r\nHost: k\r\nContent-Length: 10000000\r\n\r\n", "401"),
            _ => ("PUT /kv/k HTTP/1.1\r\nHost: k\r\nContent-Length: 10000000\r\n\r\n", "401"),
        };
        let mut stream = TcpStream::connect(server.http().unwrap()).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        push(&mut stream, &vec![b'x'; 9_999_999]);
        held.push((stream, status));
    }
    let more = resident(&server).saturating_sub(before);
    assert!(more < 32 << 20, "100 bodies made the server keep {more} bytes");
    for (stream, status) in &mut held {
        let mut start = [0; 12];
        // A connection that was closed while it was sending may have lost its response.
        if stream.read_exact(&mut start).is_ok() {
            assert_eq!(std::str::from_utf8(&start[9..]).unwrap(), *status);
        }
    }
    assert_serves(&server);
}

#[test]
fn a_body_on_a_route_without_one_is_rejected() {
    let server = victim(&[]);
    for (method, path) in [
        ("GET", "/healthz"),
        ("HEAD", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/kv"),
        ("GET", "/kv/k"),
        ("GET", "/limit"),
        ("GET", "/limit/p"),
    ] {
        let response = common::request(&server, method, path, "Content-Length: 10\r\n");
        assert_eq!(response.status, 413, "{method} {path}");
        assert!(method == "HEAD" || response.body.contains("this path takes no body"), "{}", response.body);
        // An empty one is none, however it is announced.
        for header in ["Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n"] {
            assert_ne!(
                common::request(&server, method, path, header).status,
                413,
                "{method} {path} {header}"
            );
        }
    }
}

#[test]
fn a_token_that_might_be_guessed_draws_a_warning() {
    for (arguments, warnings) in [
        (&["--token", "s3cret"][..], 1),
        (&["--token", "s3cret", "--read-only-token", "look"], 2),
        (&["--token", TOKEN], 0),
        (&[], 0),
    ] {
        let mut server = victim(arguments);
        server.stop().unwrap();
        let logs = server.logs();
        assert_eq!(logs.matches("shorter than 16 characters").count(), warnings, "{logs}");
        assert!(!logs.contains("s3cret"), "{logs}");
    }
}
