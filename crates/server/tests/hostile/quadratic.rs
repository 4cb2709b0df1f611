//! Requests whose work grows with the square of their size: each is in proportion now, or has a bound.
//!
//! A reply that takes longer than the client's timeout (30 seconds) fails the test.

use crate::client::{Client, request_of};
use crate::{assert_unharmed, victim};

const TOO_SLOW: &str = "-ERR the pattern takes too many steps.";

#[test]
fn a_hundred_thousand_watched_keys_and_then_as_many_others_are_watched_at_once() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    for part in 0..2 {
        let keys: Vec<_> = (0..100_000).map(|n| format!("key:{part}:{n}")).collect();
        assert_eq!(client.ask(&format!("WATCH {}", keys.join(" "))), "+OK");
    }
    Client::connect(&server).expect(&[("SET key:1:99999 x", "+OK")]);
    client.expect(&[("MULTI", "+OK"), ("SET other 1", "+QUEUED"), ("EXEC", "*-1"), ("EXISTS other", ":0")]);
    assert_unharmed(&server);
}

#[test]
fn a_long_pattern_on_a_long_text_is_rejected_by_all_commands() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let text = vec![b'a'; 5 << 20];
    let pattern = [&b"*"[..], &vec![b'a'; 2 << 20], b"b"].concat();
    let mut send = |words: &[&[u8]]| {
        client.send_raw(&request_of(words.iter().copied()));
        client.receive()
    };
    for (words, reply) in [
        (&[&b"SADD"[..], b"s", &text][..], ":1"),
        (&[b"HSET", b"h", &text, b"1"], ":1"),
        (&[b"ZADD", b"z", b"1", &text], ":1"),
        (&[b"SET", &text[..32_000], b"1"], "+OK"),
    ] {
        assert_eq!(send(words), reply);
    }
    let of_a_key = [&pattern[..16_000], b"b"].concat();
    for attack in [
        &[&b"SSCAN"[..], b"s", b"0", b"MATCH", &pattern][..],
        &[b"HSCAN", b"h", b"0", b"MATCH", &pattern],
        &[b"ZSCAN", b"z", b"0", b"MATCH", &pattern],
        &[b"KEYS", &of_a_key],
        &[b"SCAN", b"0", b"COUNT", b"100", b"MATCH", &of_a_key],
    ] {
        let reply = send(attack);
        assert!(reply.starts_with(TOO_SLOW), "{} {reply:.200}", attack[0].escape_ascii());
        assert_unharmed(&server);
    }
    let found = send(&[b"SSCAN", b"s", b"0", b"MATCH", b"*a*a*a*aaa"]);
    assert!(found.len() > text.len(), "an ordinary pattern matches as ever");
}

#[test]
fn a_message_to_patterns_that_take_too_long_is_rejected_and_not_delivered() {
    let server = victim(&[]);
    let (mut listener, mut client) = (Client::connect(&server), Client::connect(&server));
    let pattern = [&b"*"[..], &vec![b'a'; 1 << 20], b"b"].concat();
    for part in 0..8_u8 {
        listener.send_raw(&request_of([&b"PSUBSCRIBE"[..], &[&pattern[..], &[b'b' + part]].concat()]));
        assert!(listener.receive().starts_with("[psubscribe"));
    }
    let channel = vec![b'a'; 4 << 20];
    client.send_raw(&request_of([&b"PUBLISH"[..], &channel, b"x"]));
    let reply = client.receive();
    assert!(reply.starts_with(TOO_SLOW), "{reply}");
    assert!(listener.is_silent());
    assert_unharmed(&server);
}

#[test]
fn a_large_key_that_one_request_names_thousands_of_times_is_rejected() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let members: Vec<_> = (0..50_000).map(|n| format!("member:{n}")).collect();
    let pairs: Vec<_> = members.iter().map(|member| format!("1 {member}")).collect();
    client.expect(&[
        (&format!("SADD s {}", members.join(" ")), ":50000"),
        (&format!("ZADD z {}", pairs.join(" ")), ":50000"),
        (&format!("PFADD p {}", members.join(" ")), ":1"),
        ("SETRANGE b 1048575 x", ":1048576"),
        (&format!("JSON.SET j $ [{}1]", "1,".repeat(500_000)), "+OK"),
    ]);
    let named = |key: &str| format!("{key} ").repeat(50_000);
    for attack in [
        format!("SUNION {}", named("s")),
        format!("SINTERCARD 50000 {}", named("s")),
        format!("SDIFFSTORE s {}", named("s")),
        format!("ZUNION 50000 {}", named("z")),
        format!("ZINTERSTORE z 50000 {}", named("z")),
        format!("PFCOUNT {}", named("p")),
        format!("BITOP XOR b {}", named("b")),
        format!("JSON.MGET {}$.a", named("j")),
    ] {
        let reply = client.ask(&attack);
        let repeats = "-ERR the same large keys are repeated: pass each key once";
        assert_eq!(reply, repeats, "{}", &attack[..30]);
    }
    client.expect(&[("SCARD s", ":50000"), ("ZCARD z", ":50000"), ("STRLEN b", ":1048576")]);
    client.expect(&[("SINTERCARD 3 s s s", ":50000")]);
    assert_unharmed(&server);
}

#[test]
fn a_sort_that_reads_the_same_long_text_again_and_again_is_rejected() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let long = "a".repeat(1 << 20);
    client.expect(&[
        (&format!("RPUSH l {}", "1 ".repeat(10_000).trim_end()), ":10000"),
        (&format!("RPUSH names {}", &long[..30_000]), ":1"),
        (&format!("HSET w1 f {long}"), ":1"),
    ]);
    let many = "GET x* ".repeat(100_000);
    for attack in
        ["SORT l BY w*->f ALPHA LIMIT 0 1".to_owned(), format!("SORT names BY nosort {}", many.trim_end())]
    {
        let reply = client.ask(&attack);
        assert!(reply.starts_with(TOO_SLOW), "{:.30} {reply:.200}", attack);
        assert_unharmed(&server);
    }
    client.expect(&[("LLEN l", ":10000")]);
}

#[test]
fn a_character_class_of_a_megabyte_over_many_keys_is_rejected() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let keys: Vec<_> = (0..20_000).map(|n| format!("key:{n} 1")).collect();
    assert_eq!(client.ask(&format!("MSET {}", keys.join(" "))), "+OK");
    let class = [&b"*["[..], &vec![b'x'; 4 << 20], b"]"].concat();
    client.send_raw(&request_of([&b"KEYS"[..], &class]));
    let reply = client.receive();
    assert!(reply.starts_with(TOO_SLOW), "{reply:.200}");
    assert_unharmed(&server);
}

#[test]
fn a_small_value_at_each_of_many_locations_is_rejected() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let numbers = format!("[{}0]", "0,".repeat(5_000));
    for command in ["JSON.SET", "JSON.MERGE"] {
        assert_eq!(client.ask_words(&["JSON.SET", "j", "$", &numbers]), "+OK");
        let reply = client.ask_words(&[command, "j", "$..*", &numbers]);
        assert_eq!(reply, "-ERR document exceeds maximum allowed size", "{command}");
        assert_eq!(client.ask_words(&[command, "j", "$[0]", &numbers]), "+OK", "at one location");
    }
    assert_unharmed(&server);
}

#[test]
fn a_merge_that_deletes_all_members_of_a_large_object_deletes_them_at_once() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let object = |value: &str| {
        let members: Vec<_> = (0..200_000).map(|n| format!("\"m{n}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(client.ask_words(&["JSON.SET", "j", "$", &object("1")]), "+OK");
    assert_eq!(client.ask_words(&["JSON.MERGE", "j", "$", &object("null")]), "+OK");
    client.expect(&[("JSON.GET j", "{}")]);
    assert_unharmed(&server);
}
