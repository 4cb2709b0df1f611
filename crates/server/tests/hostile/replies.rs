//! Short requests whose replies would take gigabytes: the reply is an error as soon as it is too large, and nothing is changed.

use std::io::{BufRead, BufReader, Read};

use keystead_testkit::server::Server;

use crate::client::{Client, request_of};
use crate::{assert_unharmed, common, until, victim};

const MEBIBYTE: usize = 1 << 20;
const TIMES: usize = 5_000;
const TOO_LARGE: &str = "-ERR max response size exceeded. Limit: 537919488 bytes. Request less data at a time. Nothing was changed";

/// A client of a server with a value of each type that holds a string of 1 MiB.
fn prepared(server: &Server) -> Client {
    let mut client = Client::connect(server);
    let long = "x".repeat(MEBIBYTE);
    let json = format!("\"{long}\"");
    for (words, reply) in [
        (&["MSET", "k", &long, "k1", &long][..], "+OK"),
        (&["SADD", "s", &long], ":1"),
        (&["HSET", "h", "f", &long], ":1"),
        (&["HSET", "h1", "f", &long], ":1"),
        (&["ZADD", "z", "1", &long], ":1"),
        (&["XADD", "x", "1-1", "f", &long], "1-1"),
        (&["JSON.SET", "j", "$", &json], "+OK"),
        (&["RPUSH", "l", "1", "2", "3"], ":3"),
    ] {
        assert_eq!(client.ask_words(words), reply, "{}", words[0]);
    }
    client
}

fn repeated(before: &str, word: &str, after: &str) -> String {
    format!("{before} {}{after}", format!("{word} ").repeat(TIMES)).trim_end().to_owned()
}

#[test]
fn a_value_that_one_request_reads_thousands_of_times_is_rejected() {
    let server = victim(&[]);
    let mut client = prepared(&server);
    for attack in [
        repeated("MGET", "k", ""),
        repeated("HMGET h", "f", ""),
        repeated("SORT l BY nosort", "GET k*", ""),
        repeated("SORT l BY nosort", "GET h*->f", ""),
        repeated("XREAD STREAMS", "x", &"0 ".repeat(TIMES)),
        format!("SRANDMEMBER s -{TIMES}"),
        format!("HRANDFIELD h -{TIMES} WITHVALUES"),
        format!("ZRANDMEMBER z -{TIMES}"),
    ] {
        let reply = client.ask(&attack);
        assert_eq!(reply, TOO_LARGE, "{}", &attack[..attack.len().min(40)]);
        assert_unharmed(&server);
    }
    let repeats = "-ERR the same large keys are repeated: pass each key once";
    assert_eq!(
        client.ask(&repeated("JSON.MGET", "j", "$")),
        repeats,
        "each time a document would be read anew"
    );
    client.expect(&[("STRLEN k", ":1048576"), ("HSTRLEN h f", ":1048576"), ("SCARD s", ":1")]);
}

#[test]
fn a_sort_that_stores_a_value_thousands_of_times_is_rejected() {
    let server = victim(&[]);
    let mut client = prepared(&server);
    assert_eq!(client.ask(&repeated("SORT l BY nosort", "GET k*", "STORE l")), TOO_LARGE);
    client.expect(&[("LRANGE l 0 -1", "[1 2 3]")]);
    assert_unharmed(&server);
}

#[test]
fn a_document_with_a_huge_indent_is_rejected() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let nested = format!("{}{}1{}", "[".repeat(100), "1,".repeat(100_000), "]".repeat(100));
    assert_eq!(client.ask_words(&["JSON.SET", "j", "$", &nested]), "+OK");
    let indent = " ".repeat(100_000);
    let reply = client.ask_words(&["JSON.GET", "j", "INDENT", &indent]);
    assert!(reply.starts_with("-ERR "), "{reply:.200}");
    assert_unharmed(&server);
}

#[test]
fn a_list_of_huge_elements_is_neither_read_nor_popped_in_one_reply() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let element = vec![b'x'; 60 << 20];
    for n in 1..=9 {
        client.send_raw(&request_of([&b"RPUSH"[..], b"l", &element]));
        assert_eq!(client.receive(), format!(":{n}"));
    }
    client.expect(&[
        ("LRANGE l 0 -1", TOO_LARGE),
        ("LPOP l 9", TOO_LARGE),
        ("LMPOP 1 l RIGHT COUNT 9", TOO_LARGE),
        ("LLEN l", ":9"),
    ]);
    assert_eq!(client.ask("LPOP l 1").len(), element.len() + 2, "a reply that fits is returned");
    client.expect(&[("LLEN l", ":8")]);
    assert_unharmed(&server);
}

#[test]
fn the_largest_string_is_still_returned() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    client.expect(&[("SETRANGE k 536870911 x", ":536870912")]);
    client.send("GET k");
    drain(&mut client, "$536870912\r\n".len() + (512 << 20) + 2);
    assert_unharmed(&server);
}

/// Reads so many bytes and ignores them.
fn drain(client: &mut Client, mut left: usize) {
    let (mut socket, mut buffer) = (client.writer(), vec![0; MEBIBYTE]);
    while left > 0 {
        let most = left.min(buffer.len());
        let count = socket.read(&mut buffer[..most]).unwrap();
        assert_ne!(count, 0, "closed with {left} bytes to come");
        left -= count;
    }
}

#[test]
fn requests_whose_replies_are_not_read_wait_until_they_are() {
    let server = victim(&[]);
    let mut client = prepared(&server);
    let count = 2_500;
    client.send_raw(&request_of([&b"GET"[..], b"k"]).repeat(count));
    client.half_close();
    assert_unharmed(&server);
    drain(&mut client, count * ("$1048576\r\n".len() + MEBIBYTE + 2));
    assert!(client.is_closed());
    assert_unharmed(&server);
}

#[test]
fn a_transaction_whose_replies_are_gigabytes_is_rolled_back() {
    let server = victim(&[]);
    let mut client = prepared(&server);
    client.expect(&[("MULTI", "+OK"), ("SET changed 1", "+QUEUED")]);
    let gets = vec!["GET k"; TIMES];
    assert!(client.ask_all(gets).iter().all(|reply| reply == "+QUEUED"));
    let expected = format!("-EXECABORT Transaction undone: {}", &TOO_LARGE[1..]);
    client.expect(&[("EXEC", &expected), ("EXISTS changed", ":0")]);
    client.expect(&[("MULTI", "+OK"), (&format!("SRANDMEMBER s -{TIMES}"), "+QUEUED"), ("EXEC", &expected)]);
    assert_unharmed(&server);
}

#[test]
fn a_script_that_reads_gigabytes_is_rolled_back() {
    let server = victim(&[]);
    let mut client = prepared(&server);
    let script = format!("redis.call('SET','changed',1) return #redis.call('SRANDMEMBER','s',-{TIMES})");
    let reply = client.ask_words(&["EVAL", &script, "0"]);
    assert!(reply.starts_with(TOO_LARGE), "{reply}");
    client.expect(&[("EXISTS changed", ":0")]);
    assert_unharmed(&server);
}

#[test]
fn the_rest_api_rejects_a_reply_of_gigabytes() {
    let server = victim(&[]);
    let mut redis = prepared(&server);
    let words = "max response size exceeded. Limit: 134217728 bytes. Request less data at a time. Nothing was changed";
    let attack = format!(r#"["SRANDMEMBER","s",-{TIMES}]"#);
    for (path, body, status) in [
        ("/", attack.clone(), 413),
        ("/pipeline", format!(r#"[["SET","a",1],{attack},["SET","b",1]]"#), 200),
        ("/multi-exec", format!(r#"[["SET","c",1],{attack}]"#), 413),
    ] {
        let mut client = common::Client::connect(&server);
        let length = body.len();
        client.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let response = client.receive("POST");
        assert!(
            response.status == status && response.body.contains(words),
            "{path}: {} {:.300}",
            response.status,
            response.body
        );
        assert_unharmed(&server);
    }
    redis.expect(&[("EXISTS a", ":1"), ("EXISTS b", ":0"), ("EXISTS c", ":0")]);
}

#[test]
fn many_clients_that_read_no_replies_take_at_most_a_gigabyte() {
    let server = victim(&[]);
    let mut client = prepared(&server);
    // On a slow machine the others would get BUSY while a reply is copied.
    client.expect(&[("CONFIG SET busy-reply-threshold 0", "+OK")]);
    let mut silent = Vec::new();
    let full = "-ERR more than 1075838976 bytes of responses wait for clients that do not read them. Request less data, or try again later. Nothing was changed";
    until(|| {
        silent.push(Client::connect(&server));
        silent.iter_mut().for_each(|silent| silent.send("SRANDMEMBER s -200"));
        silent.len() > 6 && first_line(&server, "SRANDMEMBER s -300") == full
    });
    assert_eq!(first_line(&server, "EVAL return(redis.call('SRANDMEMBER','s',-300)) 0"), full);
    client.expect(&[("STRLEN k", ":1048576")]);
    assert_unharmed(&server);
    drop(silent);
    until(|| first_line(&server, "SRANDMEMBER s -300") == "*300");
    assert_unharmed(&server);
}

/// The first line of a reply, on a connection that reads no more of it.
fn first_line(server: &Server, request: &str) -> String {
    let mut client = Client::connect(server);
    client.send(request);
    let mut line = String::new();
    BufReader::new(client.writer()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
