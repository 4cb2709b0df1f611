//! Readers that are too slow: what waits for them is bounded, and then they are closed.

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;

use crate::client::{Client, info, pause, request, until};
use crate::memory;

/// Larger than what the system keeps for two sockets, in messages of [`MESSAGE_BYTES`].
const MESSAGES_MAX: usize = 600;
const MESSAGE_BYTES: usize = 100_000;

fn limit(admin: &mut Client, limits: &str) {
    assert_eq!(admin.ask_words(&["CONFIG", "SET", "client-output-buffer-limit", limits]), "+OK");
}

/// A subscriber that never reads what is published.
fn subscriber(server: &Server) -> Client {
    let mut client = Client::connect(server);
    assert_eq!(client.ask("SUBSCRIBE c"), "[subscribe c :1]");
    client
}

#[test]
fn a_subscriber_over_the_hard_limit_is_closed() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    limit(&mut admin, "pubsub 1mb 0 0");
    let mut slow = subscriber(&server);
    let mut reader = subscriber(&server);
    let message = "m".repeat(MESSAGE_BYTES);
    let mut sent = 0;
    while admin.ask(&format!("PUBLISH c {message}")) == ":2" {
        sent += 1;
        assert!(sent < MESSAGES_MAX, "{sent} messages wait for a reader that does not read");
        assert_eq!(reader.receive(), format!("[message c {message}]"));
    }
    assert_eq!(info(&mut admin, "clients", "connected_clients"), 2);
    let received = slow.rest().len();
    assert!(received <= sent, "what was written before may still be read, {received} of {sent}");
    assert_eq!(reader.receive(), format!("[message c {message}]"), "others go on");
}

#[test]
fn a_subscriber_over_the_soft_limit_for_too_long_is_closed() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    limit(&mut admin, "pubsub 0 1mb 1");
    let _slow = subscriber(&server);
    let message = "m".repeat(MESSAGE_BYTES);
    let watch = Stopwatch::start();
    for _ in 0..MESSAGES_MAX / 2 {
        let reply = admin.ask(&format!("PUBLISH c {message}"));
        assert!(reply == ":1" || watch.elapsed().as_millis() > 900, "there is no hard limit");
    }
    until("the slow subscriber was closed", || info(&mut admin, "clients", "connected_clients") == 1);
}

#[test]
fn a_reader_who_catches_up_in_time_stays() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    limit(&mut admin, "pubsub 0 1mb 2");
    let mut slow = subscriber(&server);
    let message = "m".repeat(MESSAGE_BYTES);
    for _ in 0..3 {
        for _ in 0..MESSAGES_MAX / 4 {
            assert_eq!(admin.ask(&format!("PUBLISH c {message}")), ":1");
        }
        for _ in 0..MESSAGES_MAX / 4 {
            assert_eq!(slow.receive().len(), message.len() + "[message c ]".len());
        }
        pause(800);
    }
    assert_eq!(admin.ask("PUBLISH c last"), ":1");
    assert_eq!(slow.receive(), "[message c last]");
}

#[test]
fn a_client_that_does_not_read_its_replies_is_closed_at_the_output_limit() {
    let server = memory(&[]);
    let mut admin = Client::connect(&server);
    assert_eq!(admin.ask(&format!("SET k {}", "v".repeat(MESSAGE_BYTES))), "+OK");
    limit(&mut admin, "normal 1mb 0 0");
    let mut slow = Client::connect(&server);
    slow.send_raw(&request("GET k").repeat(MESSAGES_MAX));
    until("the slow reader was closed", || info(&mut admin, "clients", "connected_clients") == 1);
    assert!(slow.rest().len() < MESSAGES_MAX);
}
