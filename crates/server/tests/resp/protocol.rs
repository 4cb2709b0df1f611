//! Both protocols, pipelines, typed lines, and requests that arrive in pieces.

use std::io::Write;

use crate::client::{Client, info, pause, request, request_of};
use crate::common::start;
use crate::memory;

/// Requests that a client sends before it reads anything.
const PIPELINE: usize = 10_000;

#[test]
fn resp2_and_resp3_side_by_side() {
    let server = memory(&[]);
    let (mut old, mut new) = (Client::connect(&server), Client::connect_3(&server));
    old.expect(&[("HSET h a 1", ":1"), ("ZADD z 1.5 m", ":1"), ("SADD s x", ":1")]);
    for (line, in_2, in_3) in [
        ("HGETALL h", "[a 1]", "{a 1}"),
        ("ZSCORE z m", "1.5", ",1.5"),
        ("SMEMBERS s", "[x]", "~[x]"),
        ("GET none", "$-1", "_"),
        ("BLPOP none 0.01", "*-1", "_"),
        ("LLEN h", "-WRONGTYPE Operation against a key holding the wrong kind of value", ""),
        ("PING", "+PONG", ""),
    ] {
        assert_eq!(old.ask(line), in_2);
        assert_eq!(new.ask(line), if in_3.is_empty() { in_2 } else { in_3 });
    }
    assert!(new.ask("HELLO 2").starts_with("[server redis version "));
    new.expect(&[
        ("HGETALL h", "[a 1]"),
        ("HELLO 9", "-NOPROTO unsupported protocol version"),
        ("PING", "+PONG"),
    ]);
    let hello = old.ask("HELLO 3 SETNAME me");
    assert!(hello.starts_with("{server redis ") && hello.contains(" proto :3 "), "{hello}");
    old.expect(&[("CLIENT GETNAME", "me"), ("GET none", "_"), ("RESET", "+RESET"), ("GET none", "$-1")]);
}

#[test]
fn replies_to_a_pipeline_are_in_order_at_every_durability() {
    for level in ["memory", "commit", "fsync"] {
        let server = start(&["--durability", level]);
        let mut client = Client::connect(&server);
        let requests: Vec<_> = (0..PIPELINE)
            .map(|n| match n % 4 {
                0 => format!("SET k{n} v{n}"),
                1 => format!("GET k{}", n - 1),
                2 => "INCR count".to_owned(),
                _ => format!("LPUSH count {n}"),
            })
            .collect();
        let replies = client.ask_all(requests.iter().map(String::as_str));
        for (n, reply) in replies.iter().enumerate() {
            let expected = match n % 4 {
                0 => "+OK".to_owned(),
                1 => format!("v{}", n - 1),
                2 => format!(":{}", n / 4 + 1),
                _ => "-WRONGTYPE Operation against a key holding the wrong kind of value".to_owned(),
            };
            assert_eq!(*reply, expected, "{}", requests[n]);
        }
    }
}

#[test]
fn a_client_may_send_everything_before_it_reads_anything() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    let payload = "x".repeat(2000);
    let all: Vec<u8> = (0..PIPELINE).flat_map(|n| request(&format!("ECHO {n}{payload}"))).collect();
    // Twenty megabytes go both ways: far more than the system keeps for two sockets.
    client.send_raw(&all);
    for n in 0..PIPELINE {
        assert_eq!(client.receive(), format!("{n}{payload}"));
    }
}

#[test]
fn replies_wait_for_a_slow_reader_and_other_clients_do_not() {
    let server = memory(&[]);
    let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
    let value = "y".repeat(100_000);
    assert_eq!(client.ask(&format!("SET k {value}")), "+OK");
    client.send_raw(&request("GET k").repeat(400));
    for n in 1..=200 {
        assert_eq!(other.ask("INCR n"), format!(":{n}"), "others are served meanwhile");
    }
    for _ in 0..400 {
        assert_eq!(client.receive(), value);
    }
    assert_eq!(client.ask("PING"), "+PONG");
    let kept = info(&mut other, "memory", "used_memory_rss");
    assert!(kept < 300 << 20, "{kept} bytes are kept");
}

/// Requests of every form, and their replies.
fn mixture() -> (Vec<u8>, Vec<&'static str>) {
    let bytes = [
        &request("SET k v")[..],
        b"*0\r\n",
        b"PING\r\n",
        &request_of([&b"SET"[..], b"bin", b"a\r\n$3\r\n\0"]),
        b"\r\n*-1\r\n",
        b"GET  \"k\"\n",
        &request("GET bin"),
        b"*1\r\n$4\r\nNOPE\r\n",
        &request("ECHO ''"),
    ];
    let replies = [
        "+OK",
        "+PONG",
        "+OK",
        "v",
        r"a\r\n$3\r\n\x00",
        "-ERR unknown command 'NOPE', with args beginning with: ",
        "''",
    ];
    (bytes.concat(), replies.to_vec())
}

#[test]
fn requests_may_be_split_at_every_byte() {
    let server = memory(&[]);
    let (bytes, expected) = mixture();
    for at in 1..bytes.len() {
        let mut client = Client::connect(&server);
        client.send_raw(&bytes[..at]);
        // Long enough for the server to have read the first part, most of the time.
        pause(1);
        client.send_raw(&bytes[at..]);
        let replies: Vec<_> = expected.iter().map(|_| client.receive()).collect();
        assert_eq!(replies, expected, "split at {at}");
    }
    let mut client = Client::connect(&server);
    for byte in &bytes {
        client.send_raw(&[*byte]);
    }
    let replies: Vec<_> = expected.iter().map(|_| client.receive()).collect();
    assert_eq!(replies, expected, "byte by byte");
}

#[test]
fn a_large_argument_arrives_in_pieces() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    let value: Vec<u8> = (0..20_000_000u32).map(|n| b'a' + (n % 26) as u8).collect();
    let bytes = request_of([&b"SET"[..], b"k", &value]);
    let mut writer = client.writer();
    let sent = std::thread::spawn(move || {
        for piece in bytes.chunks(77_777) {
            writer.write_all(piece).unwrap();
        }
    });
    assert_eq!(client.receive(), "+OK");
    sent.join().unwrap();
    assert_eq!(client.ask("STRLEN k"), ":20000000");
    assert_eq!(client.ask("GET k").as_bytes(), value);
}

#[test]
fn people_may_type_commands() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    for (typed, reply) in [
        ("PING\r\n", "+PONG"),
        ("ping\n", "+PONG"),
        ("  set  k   'a b'  \r\n", "+OK"),
        ("GET k\r\n", "a b"),
        (r#"SET k "\x41\n\"""#, ""),
        ("\r\n", "+OK"),
        ("\r\n\r\n   \r\nGET k\r\n", r#"A\n\""#),
        ("SET k ''\r\n", "+OK"),
        ("STRLEN k\r\n", ":0"),
        ("GET\r\n", "-ERR wrong number of arguments for 'get' command"),
    ] {
        client.send_raw(typed.as_bytes());
        if !reply.is_empty() {
            assert_eq!(client.receive(), reply, "{typed:?}");
        }
    }
}

#[test]
fn replies_can_be_switched_off() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    for line in ["CLIENT REPLY OFF", "INCR n", "PING"] {
        client.send(line);
    }
    assert_eq!(client.ask("CLIENT REPLY ON"), "+OK");
    for line in ["CLIENT REPLY SKIP", "INCR n"] {
        client.send(line);
    }
    assert_eq!(client.ask("GET n"), "2");
}
