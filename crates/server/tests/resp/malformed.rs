//! Malformed requests: Redis's own error, then the connection is closed, and the server keeps little of them.

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use crate::client::{Client, info, request, request_of, until};
use crate::memory;

/// Resident memory of the server in bytes.
fn resident(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn a_malformed_request_gets_an_error_and_closes_the_connection() {
    let server = memory(&[]);
    let long = "x".repeat(65_000);
    for (bytes, words) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*1073741824\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*1\r\n:5\r\n", "expected '$', got ':'"),
        // A line end within a reply would break the protocol.
        ("*1\r\n\r\n", "expected '$', got ' '"),
        ("*2\r\n$3\r\nGET\r\n+k\r\n", "expected '$', got '+'"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$1073741824\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n$abc\r\n", "invalid bulk length"),
        ("GET \"k\r\n", "unbalanced quotes in request"),
        ("GET 'k'x\r\n", "unbalanced quotes in request"),
        (&format!("{long}{}", &long[..600]), "too big inline request"),
        (&format!("*{long}{}", &long[..600]), "too big mbulk count string"),
        (&format!("*1\r\n${long}{}", &long[..600]), "too big bulk count string"),
    ] {
        let mut client = Client::connect(&server);
        client.send("SET k v");
        client.send_raw(bytes.as_bytes());
        let start = &bytes[..bytes.len().min(40)];
        assert_eq!(client.receive(), "+OK", "{start}");
        assert_eq!(client.receive(), format!("-ERR Protocol error: {words}"), "{start}");
        assert!(client.is_closed(), "{start}");
    }
    assert_eq!(Client::connect(&server).ask("GET k"), "v");
}

#[test]
fn nesting_is_rejected_at_its_second_level() {
    let server = memory(&[]);
    let mut client = Client::connect(&server);
    client.send_raw(&b"*1\r\n".repeat(3000));
    assert_eq!(client.receive(), "-ERR Protocol error: expected '$', got '*'");
    assert!(client.is_closed());
}

#[test]
fn announcements_reserve_nothing() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    admin.ask("PING");
    let before = resident(&server);
    let mut held = Vec::new();
    for n in 0..100 {
        let mut client = Client::connect(&server);
        client.send_raw(match n % 4 {
            0 => b"*1\r\n$536870912\r\n",
            1 => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nabc",
            2 => b"*1048576\r\n$1\r\na\r\n",
            _ => b"*1048576\r\n",
        });
        held.push(client);
    }
    until("all clients are connected", || info(&mut admin, "clients", "connected_clients") == 101);
    for _ in 0..50 {
        admin.ask("PING");
    }
    let more = resident(&server).saturating_sub(before);
    assert!(more < 48 << 20, "100 announcements made the server keep {more} bytes");
    drop(held);
    until("all clients are gone", || info(&mut admin, "clients", "connected_clients") == 1);
}

#[test]
fn a_request_over_the_bounds_is_rejected() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    admin.expect(&[
        ("CONFIG SET proto-max-bulk-len 1048576", "+OK"),
        ("CONFIG SET client-query-buffer-limit 1mb", "+OK"),
    ]);
    let mut client = Client::connect(&server);
    client.send_raw(b"*2\r\n$4\r\nECHO\r\n$1048577\r\n");
    assert_eq!(client.receive(), "-ERR Protocol error: invalid bulk length");
    assert!(client.is_closed());
    // Each argument is small enough, all of them are not.
    let mut client = Client::connect(&server);
    let part = [b'x'; 100_000];
    client.send_raw(&request_of([&b"DEL"[..]].into_iter().chain([&part[..]; 20])));
    assert!(client.is_closed());
    assert_eq!(admin.ask("PING"), "+PONG");
}

#[test]
fn garbage_does_not_harm_other_clients() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let mut rng = Rng::new(seed);
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    assert_eq!(admin.ask("SET k v"), "+OK");
    let before = resident(&server);
    let valid = [request("GET k"), request("SET a b"), request("PING"), b"PING\r\n".to_vec()].concat();
    for round in 0..400 {
        let mut client = Client::connect(&server);
        let bytes = if round % 2 == 0 {
            (0..rng.below(3000)).map(|_| rng.next_u64() as u8).collect()
        } else {
            // A request that is almost right reaches further.
            let mut bytes = valid.clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes
        };
        client.send_raw(&bytes);
        client.half_close();
        client.rest();
    }
    assert_eq!(admin.ask("PING"), "+PONG", "KEYSTEAD_SEED={seed}");
    let more = resident(&server).saturating_sub(before);
    assert!(more < 48 << 20, "garbage made the server keep {more} bytes, KEYSTEAD_SEED={seed}");
    until("all clients are gone", || info(&mut admin, "clients", "connected_clients") == 1);
}
