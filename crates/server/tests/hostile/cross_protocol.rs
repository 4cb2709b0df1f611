//! A browser, or a server that fetches URLs (SSRF), that is made to send to the Redis port: nothing of what it sends is run.

use keystead_testkit::server::Server;

use crate::client::{Client, request};
use crate::{assert_unharmed, common, victim};

/// What the attacker wants to run, in the body, which a page can choose.
const COMMAND: &str = "SET pwned 1\r\n";

/// Requests whose bodies a page can choose, as they arrive.
fn requests() -> Vec<Vec<u8>> {
    let head = "Host: 127.0.0.1:6379\r\nUser-Agent: Mozilla/5.0\r\nContent-Length: 13\r\n\r\n";
    let mut all = Vec::new();
    for method in [
        "GET", "get", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "SET", "DEL",
        "PING",
    ] {
        for (target, version) in
            [("/", "HTTP/1.1"), ("/a?b=c", "HTTP/1.0"), ("http://127.0.0.1:6379/", "HTTP/1.1")]
        {
            all.push(format!("{method} {target} {version}\r\n{head}{COMMAND}"));
        }
    }
    all.push(format!("POST /{} HTTP/1.1\r\n{head}{COMMAND}", "x".repeat(70_000)));
    // A quote that is not closed is Redis's own reason to close.
    all.push(format!("POST /\"x HTTP/1.1\r\n{head}{COMMAND}"));
    all.push(format!("GET /it's HTTP/1.1\r\n{head}{COMMAND}"));
    all.push(format!("CONNECT 127.0.0.1:6379 HTTP/1.1\r\n{head}{COMMAND}"));
    all.push(format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{COMMAND}"));
    all.push(format!("OPTIONS * HTTP/1.1\r\n{head}{COMMAND}"));
    all.push(format!("Host: 127.0.0.1:6379\r\n{COMMAND}"));
    all.push(format!("host:\r\n{COMMAND}"));
    all.push(format!("POST\r\n{COMMAND}"));
    all.push(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n\
         --b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n{COMMAND}--b--\r\n"
    ));
    all.push(format!(
        "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n{COMMAND}"
    ));
    let mut all: Vec<Vec<u8>> = all.into_iter().map(String::into_bytes).collect();
    // The hello of TLS, with a session ticket that the attacker's server gave out before, and STUN with a name of its choice.
    all.push([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03random\n", COMMAND.as_bytes()].concat());
    all.push([b"\x00\x01\x00\x08\x21\x12\xa4\x42\n", COMMAND.as_bytes()].concat());
    all.push([b"\x00\x54\x00\x01\x00\x08\x21\x12\xa4\x42\n", COMMAND.as_bytes()].concat());
    all
}

#[track_caller]
fn assert_nothing_ran(server: &Server, request: &[u8]) {
    let shown = request[..request.len().min(60)].escape_ascii().to_string();
    assert_eq!(Client::connect(server).ask("EXISTS pwned"), ":0", "it ran: {shown}");
}

#[test]
fn no_command_in_a_request_of_a_browser_runs_and_the_connection_is_closed() {
    let server = victim(&[]);
    for request in requests() {
        let mut client = Client::connect(&server);
        client.send_raw(&request);
        let replies = client.rest();
        let shown = request[..request.len().min(60)].escape_ascii().to_string();
        assert!(client.is_closed(), "{shown}");
        assert!(
            replies.len() <= 1 && replies.iter().all(|one| one.starts_with("-ERR ")),
            "{shown}: {replies:?}"
        );
        assert_nothing_ran(&server, &request);
    }
    assert_unharmed(&server);
}

#[test]
fn no_command_runs_in_a_request_that_arrives_byte_by_byte() {
    let server = victim(&[]);
    for request in requests().into_iter().filter(|request| request.len() < 1000) {
        let mut client = Client::connect(&server);
        for byte in &request {
            client.send_raw(&[*byte]);
        }
        client.rest();
        assert!(client.is_closed());
        assert_nothing_ran(&server, &request);
    }
    assert_unharmed(&server);
}

#[test]
fn no_command_runs_behind_other_requests_or_in_a_transaction_or_before_auth() {
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\n\r\n{COMMAND}");
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    client.send_raw(format!("PING\r\nMULTI\r\n{COMMAND}{post}EXEC\r\n").as_bytes());
    let replies = client.rest();
    assert_eq!(replies[..3], ["+PONG", "+OK", "+QUEUED"], "requests before it get replies");
    assert_eq!(replies.len(), 4, "{replies:?}");
    assert_nothing_ran(&server, post.as_bytes());
    let locked = victim(&["--token", "correct-horse-battery-staple"]);
    let mut client = Client::connect(&locked);
    client.send_raw(format!("{post}AUTH correct-horse-battery-staple\r\n{COMMAND}").as_bytes());
    assert_eq!(client.rest().len(), 1);
    let mut admin = Client::connect(&locked);
    admin.expect(&[("AUTH correct-horse-battery-staple", "+OK"), ("EXISTS pwned", ":0")]);
}

#[test]
fn a_foreign_protocol_is_logged_once_and_counted() {
    let mut server = victim(&[]);
    for _ in 0..20 {
        let mut client = Client::connect(&server);
        client.send_raw(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.rest();
    }
    let metrics = common::get(&server, "/metrics").body;
    assert!(metrics.contains("keystead_resp_foreign_protocol_total 20\n"), "{metrics}");
    server.stop().unwrap();
    assert_eq!(server.logs().matches("HTTP request on the Redis port").count(), 1, "{}", server.logs());
}

#[test]
fn redis_commands_that_resemble_http_still_run() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    for (line, reply) in [
        ("SET / slash", "+OK"),
        ("GET /", "slash"),
        ("get /", "slash"),
        ("SET k HTTP/1.1", "+OK"),
        ("SET host: POST", "+OK"),
        ("GET host:", "POST"),
        ("GET a b", "-ERR wrong number of arguments for 'get' command"),
        ("PUT a b", "-ERR unknown command 'PUT', with args beginning with: 'a' 'b' "),
    ] {
        client.send_raw(format!("{line}\r\n").as_bytes());
        assert_eq!(client.receive(), reply, "{line}");
    }
    // An array is the proof that a Redis client speaks.
    client.send_raw(&request("GET /path HTTP/1.1"));
    assert_eq!(client.receive(), "-ERR wrong number of arguments for 'get' command");
    assert_eq!(client.ask("PING"), "+PONG");
}
