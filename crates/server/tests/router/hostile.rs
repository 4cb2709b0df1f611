//! Redis clients of a router that mean harm, or do not read. Others are served beside them.

use std::io::Write;
use std::thread;
use std::time::Duration;

use crate::Cluster;
use crate::resp::{Client, request, until};

#[test]
fn half_a_request_and_what_is_none_disturb_nobody() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    let mut halves: Vec<Client> = (0..50).map(|_| cluster.resp()).collect();
    for half in &mut halves {
        half.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nhalf");
    }
    client.expect(&[("SET a 1", "+OK")]);
    drop(halves);
    client.expect(&[("GET a", "1")]);
    for (bytes, reply) in [
        (&b"*1\r\n$1073741824\r\n"[..], "-ERR Protocol error: invalid bulk length"),
        (b"*99999999\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n",
            "-ERR Protocol error: HTTP on a port of the Redis protocol",
        ),
    ] {
        let mut bad = cluster.resp();
        bad.send_raw(bytes);
        assert_eq!(bad.rest(), [reply]);
    }
    // The replies before an error are sent.
    let mut bad = cluster.resp();
    bad.send_raw(&[&request("GET a")[..], b"*1\r\n:1\r\n"].concat());
    assert_eq!(bad.rest(), ["1", "-ERR Protocol error: expected '$', got ':'"]);
    // Inline requests, as from a keyboard.
    let mut typed = cluster.resp();
    typed.send_raw(b"SET typed 'a b'\r\nGET typed\n\r\nPING\r\n");
    assert_eq!(
        (typed.receive(), typed.receive(), typed.receive()),
        ("+OK".into(), "a b".into(), "+PONG".into())
    );
    client.expect(&[("GET a", "1"), ("QUIT", "+OK")]);
    assert!(client.is_closed());
}

#[test]
fn a_client_that_does_not_read_is_not_read_and_others_are_served() {
    let cluster = Cluster::start();
    let mut client = cluster.resp();
    let value = "x".repeat(100_000);
    client.expect(&[(&format!("SET a {value}"), "+OK")]);
    let deaf = cluster.resp();
    let mut writer = deaf.writer();
    writer.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let gets = request("GET a").repeat(1_000);
    // It would ask for 300 GB; the router stops to read long before.
    let mut sent = 0;
    for _ in 0..3_000 {
        match writer.write(&gets) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    assert!(sent < 3_000 * gets.len(), "the router has read everything");
    client.expect(&[("STRLEN a", ":100000"), ("SET b 1", "+OK")]);
    let memory = resident_bytes(cluster.router.pid());
    assert!(memory < 400 << 20, "{memory} bytes");
    drop((deaf, writer));
    until("it is gone", || client.ask("CLIENT LIST").matches("id=").count() == 1);
}

#[test]
fn thousands_of_pipelined_requests_of_many_clients_have_their_replies() {
    let cluster = Cluster::start();
    thread::scope(|scope| {
        for n in 0..20 {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut client = cluster.resp();
                let lines: Vec<String> = (0..5_000).map(|i| format!("INCR {{{}}}n{n}", i % 50)).collect();
                let mut reader = Client::over(client.writer());
                let requests: Vec<u8> = lines.iter().flat_map(|line| request(line)).collect();
                let writing = scope.spawn(move || client.send_raw(&requests));
                for i in 0..5_000 {
                    assert_eq!(reader.receive(), format!(":{}", i / 50 + 1));
                }
                writing.join().unwrap();
            });
        }
    });
    assert_eq!(cluster.resp().ask("DBSIZE"), ":1000");
}

/// Resident memory of a process.
fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}
