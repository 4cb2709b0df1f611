//! Endless scripts and commands: health, SCRIPT KILL, FUNCTION KILL and SHUTDOWN are served, other commands get `BUSY`, and SIGTERM
//! ends the process.

use std::io::Write;

use keystead_testkit::server::Server;
use rustix::process::Signal;

use crate::client::{Client, pause, request, request_of, until};
use crate::common::{self, get, signal, start};
use crate::{ADDRESS_SPACE_BYTES, assert_unharmed, victim};

const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const ENDLESS: &str = "redis.call('SET', KEYS[1], 'undone') while true do end";
const LIBRARY: &str = "#!lua name=lib\nredis.register_function('endless', function() while true do end end)";

/// Sends an endless script on a key.
fn run_endless(client: &mut Client, key: &str) {
    client.expect(&[("CONFIG SET busy-reply-threshold 0", "+OK")]);
    client.send_raw(&endless(key));
    // By then it runs: an earlier connection would be served by the loop.
    pause(100);
}

fn endless(key: &str) -> Vec<u8> {
    request_of(["EVAL", ENDLESS, "1", key].map(str::as_bytes))
}

#[test]
fn an_endless_script_is_killed_by_a_new_connection_and_others_get_busy() {
    let server = victim(&[]);
    let mut script = Client::connect(&server);
    script.expect(&[("SET k v", "+OK")]);
    run_endless(&mut script, "k");
    let mut others = [Client::connect(&server), Client::connect_3(&server)];
    for other in &mut others {
        other.expect(&[("PING", BUSY), ("GET k", BUSY), ("MULTI", BUSY), ("CLIENT SETNAME me", "+OK")]);
    }
    others[0].expect(&[
        ("FUNCTION KILL", "-NOTBUSY No scripts in execution right now."),
        ("NOPE", BUSY),
        ("SCRIPT KILL", "+OK"),
    ]);
    assert!(script.receive().contains("Script killed by user with SCRIPT KILL"));
    // The connections move to the loop with their state.
    for other in &mut others {
        until("the loop is free", || other.ask("PING") == "+PONG");
        other.expect(&[
            ("GET k", "v"),
            ("CLIENT GETNAME", "me"),
            ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
        ]);
    }
    assert!(others[1].ask("HGETALL none").starts_with('{'), "RESP3 stays chosen");
    assert_unharmed(&server);
}

#[test]
fn requests_sent_while_a_script_runs_are_served_in_order_by_the_loop() {
    let server = victim(&[]);
    let mut script = Client::connect(&server);
    // BUSY is not due for a long time.
    script.expect(&[("SET k v", "+OK"), ("CONFIG SET busy-reply-threshold 60000", "+OK")]);
    script.send_raw(&endless("k"));
    pause(100);
    let mut patient = Client::connect(&server);
    let large = format!("SET large {}", "x".repeat(3_000_000));
    let lines = ["CLIENT SETNAME me", "GET k", &large, "CLIENT GETNAME", "STRLEN large"];
    let bytes: Vec<u8> = lines.iter().flat_map(|line| request(line)).collect();
    let mut writer = patient.writer();
    let sender = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    assert_eq!(patient.receive(), "+OK");
    assert!(patient.is_silent(), "what needs keys waits");
    Client::connect(&server).expect(&[("SCRIPT KILL", "+OK")]);
    for expected in ["v", "+OK", "me", ":3000000"] {
        assert_eq!(patient.receive(), expected);
    }
    sender.join().unwrap();
    assert_unharmed(&server);
}

#[test]
fn health_is_served_during_an_endless_script() {
    let server = victim(&[]);
    run_endless(&mut Client::connect(&server), "k");
    let health = get(&server, "/healthz?verbose=1");
    assert_eq!(health.status, 200, "{health:?}");
    until("the server says that it is busy", || get(&server, "/readyz").status == 503);
    assert_eq!(get(&server, "/readyz").body.trim_end(), r#"{"status":"busy"}"#);
    let health = get(&server, "/healthz");
    assert!(
        health.status == 200 && health.body.contains("shard 0: a command has kept it busy"),
        "{health:?}"
    );
    let rejected = get(&server, "/get/k");
    assert_eq!((rejected.status, rejected.head.contains("retry-after: 1")), (503, true), "{rejected:?}");
    assert!(rejected.body.contains("a long-running command blocks the shard"), "{rejected:?}");
    Client::connect(&server).expect(&[("SCRIPT KILL", "+OK")]);
    until("it is ready again", || get(&server, "/readyz").status == 200);
    assert_unharmed(&server);
}

#[test]
fn an_endless_function_is_killed_by_a_new_connection() {
    let server = victim(&[]);
    let mut function = Client::connect(&server);
    assert_eq!(function.ask_words(&["FUNCTION", "LOAD", LIBRARY]), "lib");
    function.expect(&[("CONFIG SET busy-reply-threshold 0", "+OK")]);
    function.send("FCALL endless 0");
    pause(100);
    let mut other = Client::connect(&server);
    other.expect(&[
        (
            "GET k",
            "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
        ),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
        ("FUNCTION KILL", "+OK"),
    ]);
    assert!(function.receive().contains("killed by user"));
    assert_unharmed(&server);
}

#[test]
fn without_the_token_neither_scripts_nor_the_server_can_be_ended() {
    let server = victim(&["--token", "a-token-that-is-long-enough"]);
    let mut script = Client::connect(&server);
    script.expect(&[("AUTH a-token-that-is-long-enough", "+OK")]);
    run_endless(&mut script, "k");
    const NO_AUTH: &str = "-NOAUTH Authentication required.";
    let mut unauthenticated = Client::connect(&server);
    unauthenticated.expect(&[
        ("PING", NO_AUTH),
        ("SCRIPT KILL", NO_AUTH),
        ("FUNCTION KILL", NO_AUTH),
        ("SHUTDOWN NOSAVE", NO_AUTH),
        ("CLIENT SETNAME x", NO_AUTH),
    ]);
    assert!(unauthenticated.ask("AUTH wrong").starts_with("-WRONGPASS "));
    assert!(unauthenticated.is_closed(), "one attempt per connection");
    // Over HTTP the response does not depend on the token.
    for headers in
        ["", "Authorization: Bearer wrong\r\n", "Authorization: Bearer a-token-that-is-long-enough\r\n"]
    {
        let rejected = common::request(&server, "GET", "/get/k", headers);
        assert_eq!(rejected.status, 503, "{rejected:?}");
    }
    let mut owner = Client::connect(&server);
    owner.expect(&[("AUTH a-token-that-is-long-enough", "+OK"), ("GET k", BUSY), ("SCRIPT KILL", "+OK")]);
    assert!(script.receive().contains("killed by user"));
}

/// Writes keys that are acknowledged, then starts an endless script.
fn with_endless_script(level: &str) -> (Server, Client) {
    let server = common::launch(&["--durability", level]).address_space(ADDRESS_SPACE_BYTES).start().unwrap();
    let mut client = Client::connect(&server);
    let acknowledged: Vec<String> = (0..100).map(|n| format!("SET k{n} {n}")).collect();
    let replies = client.ask_all(acknowledged.iter().map(String::as_str));
    assert!(replies.iter().all(|reply| reply == "+OK"));
    run_endless(&mut client, "k0");
    (server, client)
}

/// What was acknowledged is there after a restart, and nothing of the script is.
fn assert_kept(mut server: Server) {
    server.restart().unwrap();
    let mut client = Client::connect(&server);
    for n in 0..100 {
        assert_eq!(client.ask(&format!("GET k{n}")), n.to_string());
    }
}

fn shutdown_ends_a_server_during_an_endless_script(level: &str) {
    let (mut server, _script) = with_endless_script(level);
    let mut other = Client::connect(&server);
    other.expect(&[("SHUTDOWN ABORT", "-ERR No shutdown in progress."), ("SHUTDOWN x", "-ERR syntax error")]);
    other.send("SHUTDOWN NOSAVE");
    assert!(other.is_closed(), "it ends without a reply, as in Redis");
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
    assert_kept(server);
}

#[test]
fn shutdown_ends_a_server_during_an_endless_script_at_commit() {
    shutdown_ends_a_server_during_an_endless_script("commit");
}

#[test]
fn shutdown_ends_a_server_during_an_endless_script_at_fsync() {
    shutdown_ends_a_server_during_an_endless_script("fsync");
}

fn sigterm_ends_a_server_during_an_endless_script(level: &str) {
    let (mut server, mut script) = with_endless_script(level);
    // When one is killed, the next one starts.
    script.send_raw(&endless("k1").repeat(5));
    let _held = Client::connect(&server);
    signal(&server, Signal::TERM);
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
    assert!(server.logs().contains("killed a script"), "{}", server.logs());
    assert_kept(server);
}

#[test]
fn sigterm_ends_a_server_during_an_endless_script_at_commit() {
    sigterm_ends_a_server_during_an_endless_script("commit");
}

#[test]
fn sigterm_ends_a_server_during_an_endless_script_at_fsync() {
    sigterm_ends_a_server_during_an_endless_script("fsync");
}

#[test]
fn shutdown_ends_an_idle_server() {
    for line in ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOW FORCE"] {
        let mut server = start(&["--durability", "commit"]);
        let mut client = Client::connect(&server);
        client.expect(&[("SET k v", "+OK")]);
        client.send(line);
        assert!(client.is_closed());
        assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
        server.restart().unwrap();
        Client::connect(&server).expect(&[("GET k", "v")]);
    }
}

/// Sends a transaction that sorts for longer than any test waits.
fn run_long_command(client: &mut Client) {
    let items: Vec<String> = (0..20_000).map(|n| (n * 7919 % 20_000).to_string()).collect();
    assert_eq!(client.ask(&format!("RPUSH l {}", items.join(" "))), ":20000");
    client.expect(&[("SET k v", "+OK"), ("MULTI", "+OK")]);
    let sort = request("SORT l LIMIT 0 1");
    for _ in 0..20 {
        client.send_raw(&sort.repeat(1000));
        assert!((0..1000).all(|_| client.receive() == "+QUEUED"));
    }
    client.send("EXEC");
    pause(100);
}

#[test]
fn health_is_served_during_a_long_command_and_sigterm_ends_it() {
    let mut server = common::launch(&["--durability", "commit"]).start().unwrap();
    let mut client = Client::connect(&server);
    client.expect(&[("CONFIG SET busy-reply-threshold 500", "+OK")]);
    run_long_command(&mut client);
    assert_eq!(get(&server, "/healthz").status, 200);
    let mut other = Client::connect(&server);
    assert!(
        other.ask("GET k").starts_with("-BUSY A command takes long"),
        "it waits no longer than the threshold"
    );
    other.expect(&[("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.")]);
    assert_eq!(get(&server, "/readyz").status, 503);
    signal(&server, Signal::TERM);
    // The database was not closed, which is reported; the journal has what was acknowledged.
    assert_eq!(server.wait().unwrap().code(), Some(1), "{}", server.logs());
    assert!(server.logs().contains("the database was not closed"), "{}", server.logs());
    server.restart().unwrap();
    Client::connect(&server).expect(&[("GET k", "v"), ("LLEN l", ":20000")]);
}

#[test]
fn endless_scripts_on_all_shards_are_killed_by_a_new_connection() {
    let server = victim(&["--shards", "2"]);
    let mut scripts = [Client::connect(&server), Client::connect(&server)];
    let exists = "return redis.pcall('EXISTS', ARGV[1])";
    let mut is_elsewhere =
        |key: &String| scripts[0].ask_words(&["EVAL", exists, "1", "a", key]).contains("non local key");
    let elsewhere = (0..100).map(|n| format!("k{n}")).find(&mut is_elsewhere).unwrap();
    run_endless(&mut scripts[0], "a");
    for _ in 0..6 {
        // New connections go to a shard that is not busy.
        Client::connect(&server).expect(&[("PING", "+PONG")]);
        assert_eq!(get(&server, "/healthz").status, 200);
    }
    until("a shard is busy", || get(&server, "/readyz").status == 503);
    let mut second = Client::connect(&server);
    second.send_raw(&endless(&elsewhere));
    pause(100);
    let mut other = Client::connect(&server);
    other.expect(&[("PING", BUSY)]);
    assert_eq!(get(&server, "/healthz").status, 200);
    other.expect(&[("SCRIPT KILL", "+OK")]);
    for script in [&mut scripts[0], &mut second] {
        assert!(script.receive().contains("killed by user"));
    }
    assert_unharmed(&server);
}
