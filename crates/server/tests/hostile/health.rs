//! Slow connections that take all slots: health is still served.

use std::net::TcpStream;

use crate::client::until;
use crate::common::{self, Client, get};
use crate::{ADDRESS_SPACE_BYTES, assert_unharmed};

/// Open files of the server: enough for 14 connections of each protocol.
const OPEN_FILES: u64 = 300;

/// More than there are slots, and more than are rejected at a time.
const SLOW_CONNECTIONS: usize = 200;

#[test]
fn health_is_served_while_slow_connections_take_all_slots() {
    let server = common::launch(&["--durability", "memory"])
        .address_space(ADDRESS_SPACE_BYTES)
        .open_files(OPEN_FILES)
        .start()
        .unwrap();
    let slow = || {
        let mut client = Client::connect(&server);
        client.send("GET /get/k HTTP/1.1\r\nHost: k\r\nX-Slow: ");
        client
    };
    let mut held: Vec<_> = (0..SLOW_CONNECTIONS).map(|_| slow()).collect();
    until("all slots are taken", || get(&server, "/get/k").status == 503);
    for _ in 0..3 {
        let health = get(&server, "/healthz");
        assert_eq!(health.status, 200, "{health:?}");
        assert!(health.body.starts_with(r#"{"status":"ok","#), "{health:?}");
        let ready = get(&server, "/readyz");
        assert_eq!((ready.status, ready.body.trim_end()), (503, r#"{"status":"busy"}"#));
        // Rejected connections end, and new ones follow.
        held.extend((0..SLOW_CONNECTIONS).map(|_| slow()));
    }
    drop(held);
    until("a slot is free again", || get(&server, "/get/k").status == 200);
    assert_unharmed(&server);
}

#[test]
fn health_is_served_while_slow_redis_connections_take_all_slots() {
    let server = common::launch(&["--durability", "memory"])
        .address_space(ADDRESS_SPACE_BYTES)
        .open_files(OPEN_FILES)
        .start()
        .unwrap();
    let address = server.resp().unwrap();
    let held: Vec<_> = (0..SLOW_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get(&server, "/healthz").status, 200);
    drop(held);
}
