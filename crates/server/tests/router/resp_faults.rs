//! Redis clients of a router, and nodes that are killed, do not reply, or close connections.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use keystead_core::Stopwatch;

use crate::resp::{Client, until};
use crate::{Cluster, router_of_both};

#[test]
fn a_killed_node_is_an_error_of_its_keys_at_once_and_works_again_after_its_restart() {
    let mut cluster = Cluster::start();
    let keys = cluster.keys("k");
    let mut client = cluster.resp();
    for key in &keys {
        client.expect(&[(&format!("SET {key} 1"), "+OK")]);
    }
    cluster.nodes[2].kill().unwrap();
    let watch = Stopwatch::start();
    let dead = format!("GET {}", keys[2]);
    until("the lost connection is noticed", || client.ask(&dead).contains("cannot be reached"));
    for line in [&dead, &format!("SET {} 2", keys[2])] {
        let reply = client.ask(line);
        assert!(
            reply.starts_with("-ERR node c (redis://127.0.0.1:") && !reply.contains("unknown"),
            "{reply}"
        );
    }
    // A pipeline has the replies of the others.
    let lines: Vec<String> = keys.iter().map(|key| format!("GET {key}")).collect();
    let replies = client.ask_all(lines.iter().map(String::as_str));
    assert_eq!((&*replies[0], &*replies[1]), ("1", "1"));
    assert!(replies[2].starts_with("-ERR node c ("));
    assert!(client.ask("DBSIZE").starts_with("-ERR node c ("));
    assert!(client.ask(&format!("MGET {}", keys.join(" "))).starts_with("-ERR node c ("));
    assert!(client.ask(&format!("BLPOP {} 0", keys[2])).starts_with("-ERR node c ("));
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
    cluster.nodes[2].restart().unwrap();
    until("the node is back", || client.ask(&dead) == "1");
    client.expect(&[("DBSIZE", ":3")]);
}

/// A node that says HELLO, and then does something with the connection.
fn false_node(then: impl Fn(&mut std::net::TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let then = std::sync::Arc::new(then);
        for stream in listener.incoming().take(50) {
            let (mut stream, then) = (stream.unwrap(), std::sync::Arc::clone(&then));
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).unwrap_or(0);
                if buffer[..read].windows(5).any(|bytes| bytes == b"HELLO") {
                    let _ = stream.write_all(b"*2\r\n$2\r\nid\r\n:7\r\n");
                    then(&mut stream);
                }
            });
        }
    });
    format!("x=http://127.0.0.1:1,x=redis://{address}")
}

#[test]
fn a_write_whose_connection_is_lost_is_of_unknown_outcome_and_is_not_sent_again() {
    let (sender, received) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let list = false_node(move |stream| {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).unwrap_or(0);
        let _ = sender.lock().unwrap().send(buffer[..read].to_vec());
    });
    let router = router_of_both(&list).start().unwrap();
    let mut client = Client::connect(&router);
    let reply = client.ask("SET a 1");
    assert!(
        reply.starts_with("-ERR the connection to node x (redis://")
            && reply.ends_with("it is unknown whether the command was applied"),
        "{reply}"
    );
    let reply = client.ask("GET a");
    assert!(reply.contains("was lost") && !reply.contains("unknown"), "a read changes nothing: {reply}");
    let reply = client.ask("BLPOP a 0");
    assert!(reply.contains("was lost") && reply.contains("unknown"), "{reply}");
    let sent: Vec<Vec<u8>> = received.try_iter().collect();
    assert_eq!(sent.len(), 3, "each request one time: {sent:?}");
}

#[test]
fn what_is_no_reply_ends_the_connection_and_a_reply_that_breaks_off_ends_the_client() {
    let list = false_node(|stream| {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"HTTP/1.1 200\r\n");
    });
    let router = router_of_both(&list).start().unwrap();
    let reply = Client::connect(&router).ask("SET a 1");
    assert!(reply.contains("it sent what is no reply") && reply.contains("unknown"), "{reply}");
    let list = false_node(|stream| {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"$1000000\r\n");
        let _ = stream.write_all(&[b'x'; 500_000]);
    });
    let router = router_of_both(&list).start().unwrap();
    let mut client = Client::connect(&router);
    client.send("GET a");
    assert!(client.try_receive().is_err(), "the client cannot take the rest for a reply");
}

#[test]
fn a_stop_answers_what_is_in_flight_and_ends_what_waits() {
    let mut cluster = Cluster::start();
    let mut waiting = cluster.resp();
    waiting.send("BLPOP none 0");
    let mut subscriber = cluster.resp();
    subscriber.ask("SUBSCRIBE a");
    let mut client = cluster.resp();
    client.expect(&[("SET a 1", "+OK")]);
    assert!(cluster.router.stop().unwrap().success());
    assert!(waiting.is_closed() && subscriber.is_closed() && client.is_closed());
    assert!(!cluster.router.logs().contains("did not finish in time"), "{}", cluster.router.logs());
}
