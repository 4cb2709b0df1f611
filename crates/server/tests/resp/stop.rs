//! SIGTERM: what was acknowledged is there after the next start, and no client delays the end.

use std::thread::JoinHandle;

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;
use rustix::process::Signal;

use crate::client::{Client, pause, request, until, until_blocked};
use crate::common::{signal, start};
use crate::memory;

const WRITERS: usize = 8;
const PIPELINE: usize = 40;

/// Writes pipelines until the server closes, and returns how many of its writes were acknowledged.
fn writer(server: &Server, name: usize) -> JoinHandle<usize> {
    let mut client = Client::connect(server);
    std::thread::spawn(move || {
        let mut acknowledged = 0;
        loop {
            let lines =
                (0..PIPELINE).map(|n| format!("SET w{name}:{} {}", acknowledged + n, acknowledged + n));
            let bytes: Vec<u8> = lines.flat_map(|line| request(&line)).collect();
            client.send_raw(&bytes);
            for _ in 0..PIPELINE {
                match client.try_receive() {
                    Ok(reply) => assert_eq!(reply, "+OK"),
                    Err(_) => return acknowledged,
                }
                acknowledged += 1;
            }
        }
    })
}

#[test]
fn a_stop_keeps_every_acknowledged_write() {
    for level in ["fsync", "commit"] {
        for shards in ["1", "4"] {
            let mut server = start(&["--durability", level, "--shards", shards]);
            let writers: Vec<_> = (0..WRITERS).map(|name| writer(&server, name)).collect();
            pause(300);
            let watch = Stopwatch::start();
            signal(&server, Signal::TERM);
            assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
            let took = watch.elapsed();
            let acknowledged: Vec<usize> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            assert!(acknowledged.iter().all(|count| *count > 0), "{acknowledged:?}");
            assert!(took.as_secs() < 15, "{took:?}");
            server.restart().unwrap();
            let mut client = Client::connect(&server);
            for (name, count) in acknowledged.into_iter().enumerate() {
                for from in (0..count).step_by(1000) {
                    let numbers = from..count.min(from + 1000);
                    let lines: Vec<_> = numbers.clone().map(|n| format!("GET w{name}:{n}")).collect();
                    let replies = client.ask_all(lines.iter().map(String::as_str));
                    let expected: Vec<_> = numbers.map(|n| n.to_string()).collect();
                    assert_eq!(replies, expected, "{level} on {shards} shards");
                }
            }
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_blocked_clients() {
    for shards in ["1", "4"] {
        let mut server = memory(&["--shards", shards]);
        let mut admin = Client::connect(&server);
        let mut clients: Vec<_> = (0..12).map(|_| Client::connect(&server)).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            match n % 4 {
                0 => client.send(&format!("BLPOP k{n} 0")),
                1 => client.send(&format!("XREAD BLOCK 0 STREAMS s{n} $")),
                2 => assert_eq!(client.ask("SUBSCRIBE c"), "[subscribe c :1]"),
                _ => assert_eq!(client.ask_all(["WATCH k", "MULTI", "INCR n"]), ["+OK", "+OK", "+QUEUED"]),
            }
        }
        until_blocked(&mut admin, 6);
        // Half of a request, and a pause that would last for ever.
        clients[3].send_raw(b"*2\r\n$3\r\nGE");
        assert_eq!(admin.ask("CLIENT PAUSE 1000000000 WRITE"), "+OK");
        let mut paused = Client::connect(&server);
        paused.send("SET k v");
        assert!(paused.is_silent());
        let watch = Stopwatch::start();
        signal(&server, Signal::TERM);
        assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
        assert!(watch.elapsed().as_secs() < 4, "{:?}", watch.elapsed());
        assert!(clients.iter_mut().all(Client::is_closed) && paused.is_closed());
    }
}

#[test]
fn a_stop_waits_a_while_for_a_reader_and_then_no_longer() {
    let mut server = memory(&[]);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(&format!("SET k {}", "v".repeat(1_000_000))), "+OK");
    client.send_raw(&request("GET k").repeat(60));
    let mut admin = Client::connect(&server);
    until("replies wait", || admin.ask("CLIENT LIST").matches("cmd=get").count() == 1);
    let watch = Stopwatch::start();
    signal(&server, Signal::TERM);
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
    assert!(watch.elapsed().as_secs() < 15, "{:?}", watch.elapsed());
    assert!(server.logs().contains("closed connections that did not finish in time"), "{}", server.logs());
}

#[test]
fn a_client_that_reads_gets_all_replies_during_a_stop() {
    let mut server = memory(&[]);
    let mut client = Client::connect(&server);
    let value = "v".repeat(1_000_000);
    assert_eq!(client.ask(&format!("SET k {value}")), "+OK");
    client.send_raw(&request("GET k").repeat(60));
    let mut admin = Client::connect(&server);
    until("replies wait", || admin.ask("CLIENT LIST").matches("cmd=get").count() == 1);
    signal(&server, Signal::TERM);
    for _ in 0..60 {
        assert_eq!(client.receive().len(), value.len());
    }
    assert!(client.is_closed());
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
}
