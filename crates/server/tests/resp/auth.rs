//! The token, as Redis's password.

use keystead_testkit::server::Server;

use crate::client::{Client, request, request_of};
use crate::memory;

const TOKEN: &str = "s3cret";
const NO_AUTH: &str = "-NOAUTH Authentication required.";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

fn locked() -> Server {
    memory(&["--token", TOKEN])
}

#[test]
fn nothing_runs_before_the_token_is_brought() {
    let mut server = locked();
    let mut client = Client::connect(&server);
    client.expect(&[
        ("PING", NO_AUTH),
        ("SET k v", NO_AUTH),
        ("CONFIG GET *", NO_AUTH),
        ("CLIENT LIST", NO_AUTH),
        ("SUBSCRIBE c", NO_AUTH),
        ("MULTI", NO_AUTH),
        ("AUTH wrong", WRONG),
        ("AUTH someone s3cret", WRONG),
        ("AUTH default wrong", WRONG),
        ("GET k", NO_AUTH),
        ("AUTH s3cret", "+OK"),
        ("GET k", "$-1"),
        ("SET k v", "+OK"),
        ("AUTH wrong", WRONG),
        ("GET k", "v"),
        ("RESET", "+RESET"),
        ("GET k", NO_AUTH),
        ("AUTH default s3cret", "+OK"),
        ("GET k", "v"),
    ]);
    assert!(server.stop().unwrap().success());
    assert!(!server.logs().contains(TOKEN), "{}", server.logs());
}

#[test]
fn hello_brings_the_token_too() {
    let server = locked();
    let mut client = Client::connect(&server);
    assert!(
        client
            .ask("HELLO 3")
            .starts_with("-NOAUTH HELLO must be called with the client already authenticated")
    );
    assert_eq!(client.ask("HELLO 3 AUTH default wrong"), WRONG);
    assert_eq!(client.ask("PING"), NO_AUTH);
    assert!(client.ask("HELLO 3 AUTH default s3cret SETNAME me").starts_with("{server redis "));
    client.expect(&[("CLIENT GETNAME", "me"), ("GET k", "_")]);
}

#[test]
fn a_pipeline_is_let_in_from_its_auth_on() {
    let server = locked();
    let replies = Client::connect(&server).ask_all(["GET k", "AUTH s3cret", "SET k v", "GET k"]);
    assert_eq!(replies, [NO_AUTH, "+OK", "+OK", "v"]);
}

#[test]
fn requests_before_auth_are_bounded() {
    let server = locked();
    let many = request(&["PING"; 11].join(" "));
    let large = request_of([&b"AUTH"[..], &[b'x'; 16_385]]);
    for (bytes, words) in [(many, "unauthenticated multibulk length"), (large, "unauthenticated bulk length")]
    {
        let mut client = Client::connect(&server);
        client.send_raw(&bytes);
        assert_eq!(client.receive(), format!("-ERR Protocol error: {words}"));
        assert!(client.is_closed());
        let mut client = Client::connect(&server);
        assert_eq!(client.ask("AUTH s3cret"), "+OK");
        client.send_raw(&bytes);
        assert!(!client.receive().contains("Protocol error"), "allowed after AUTH");
    }
}

#[test]
fn quit_and_reset_need_no_token() {
    let server = locked();
    let mut client = Client::connect(&server);
    client.expect(&[("RESET", "+RESET"), ("QUIT", "+OK")]);
    assert!(client.is_closed());
}
