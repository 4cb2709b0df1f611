//! Pipelines over several shards: each shard runs its part, and the replies are those of one shard, in the order of the requests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use keystead_core::ShardId;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use crate::client::{Client, PATIENCE, info, pause, request, request_of, until};
use crate::common::{dir, start_on};
use crate::memory;
use crate::shards::{SHARDS, key_of};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

fn sharded() -> Server {
    memory(&["--shards", "4"])
}

/// A key of each shard.
fn keys() -> Vec<String> {
    ShardId::all(SHARDS).map(key_of).collect()
}

fn requests<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    lines.into_iter().flat_map(request).collect()
}

/// Every byte that a new connection receives for these requests, which end with QUIT.
fn conversation(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.resp().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let bytes = bytes.to_vec();
    let sends = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sends.join().unwrap();
    received
}

/// A random request, or a few that belong together, whose replies do not depend on the number of shards.
fn random_lines(rng: &mut Rng) -> Vec<String> {
    let n = rng.below(1000);
    let [a, b] = [rng.below(40), rng.below(40)].map(|k| format!("k{k}"));
    let line = match rng.below(34) {
        0..=3 => format!("SET {a} {n}"),
        4..=7 => format!("GET {a}"),
        8 | 9 => format!("INCRBY {a} {n}"),
        10 => format!("APPEND {a} x{n}"),
        11 => format!("DEL {a}"),
        12 => format!("RPUSH {a} {n}"),
        13 => format!("LRANGE {a} 0 -1"),
        14 => format!("HSET {a} f{} {n}", n % 3),
        15 => format!("HGETALL {a}"),
        16 => format!("ZADD {a} {n} m{}", n % 5),
        17 => format!("ZRANGE {a} 0 -1 WITHSCORES"),
        18 => format!("TYPE {a}"),
        19 => format!("MSET {{{a}}}1 {n} {{{a}}}2 {n}"),
        20 => format!("MGET {{{a}}}1 {{{a}}}2 {a}"),
        21 => format!("GETSET {a}"),
        22 => format!("NOSUCH {a}"),
        23 => format!("SET {a} {n} NX GET"),
        24 => format!("EVAL return{{redis.call('INCR',KEYS[1]),ARGV[1]}} 1 {a} {n}"),
        25 => format!("EVAL return{{{n}}} 0"),
        26 => "DBSIZE".into(),
        27 => format!("ECHO {n}"),
        28 => format!("BLPOP {a} 0.001"),
        29 => format!("PUBLISH c {n}"),
        30 => {
            let lines = ["CLIENT REPLY SKIP".into(), format!("SET {a} {n}"), format!("GET {b}")];
            return lines.into();
        }
        31 => {
            let lines = [
                "CLIENT REPLY OFF".into(),
                format!("INCR {a}"),
                format!("SET {b} 1"),
                "CLIENT REPLY ON".into(),
            ];
            return lines.into();
        }
        32 => {
            let lines = ["MULTI".into(), format!("INCR {a}"), format!("LPUSH {{{a}}}l {n}"), "EXEC".into()];
            return lines.into();
        }
        _ => {
            let lines = [
                format!("WATCH {a}"),
                format!("SET {a} {n}"),
                "MULTI".into(),
                format!("GET {a}"),
                "EXEC".into(),
                if n.is_multiple_of(2) { "HELLO 3".into() } else { "RESET".into() },
            ];
            return lines.into();
        }
    };
    vec![line]
}

/// The bytes as text, line by line, without the numbers of connections, which HELLO returns.
fn without_ids(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    text.split("\\r\\n")
        .scan(false, |hides, line| {
            Some(if std::mem::replace(hides, line == "id") { ":id" } else { line }.to_owned())
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_random_pipeline_gets_the_replies_of_one_shard() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let mut rng = Rng::new(seed);
    let (one, four) = (memory(&["--shards", "1"]), sharded());
    for round in 0..60 {
        let lines: Vec<String> = (0..400).flat_map(|_| random_lines(&mut rng)).collect();
        let bytes = requests(lines.iter().map(String::as_str).chain(["CLIENT REPLY ON", "QUIT"]));
        let [expected, found] = [&one, &four].map(|server| without_ids(&conversation(server, &bytes)));
        assert!(expected.len() > 1000 && expected.ends_with("+OK\n"), "{expected}");
        let differs = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
        assert_eq!(
            found,
            expected,
            "KEYSTEAD_SEED={seed}, round {round}, line {differs:?} of\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn a_client_reads_its_own_writes_and_an_error_fails_only_its_request() {
    let server = sharded();
    let mut client = Client::connect(&server);
    let mut other = Client::connect(&server);
    let before = info(&mut other, "stats", "total_commands_processed");
    let keys = keys();
    let lines: Vec<String> =
        ["SET _ v", "GET _", "INCR _", "LPUSH _ x", "STRLEN", "APPEND _ w", "GET _", "DEL _", "GET _"]
            .iter()
            .flat_map(|line| keys.iter().map(|key| line.replace('_', key)))
            .collect();
    let replies = client.ask_all(lines.iter().map(String::as_str));
    let expected = [
        "+OK",
        "v",
        "-ERR value is not an integer or out of range",
        WRONG_TYPE,
        "-ERR wrong number of arguments for 'strlen' command",
        ":2",
        "vw",
        ":1",
        "$-1",
    ];
    let expected: Vec<&str> = expected.into_iter().flat_map(|reply| [reply; SHARDS]).collect();
    assert_eq!(replies, expected);
    // INFO itself counts, too.
    let after = info(&mut other, "stats", "total_commands_processed");
    assert_eq!(after - before, lines.len() as u64 + 1);
    let errors = other.ask("INFO errorstats");
    assert!(
        errors.contains("errorstat_WRONGTYPE:count=4") && errors.contains("errorstat_ERR:count=8"),
        "{errors}"
    );
}

#[test]
fn what_is_no_plain_request_waits_for_those_before_it() {
    let server = sharded();
    let mut client = Client::connect(&server);
    let [a, b, c, d] = <[String; SHARDS]>::try_from(keys()).unwrap();
    let steps = [
        (format!("SET {a} 1"), "+OK"),
        (format!("SET {b} 1"), "+OK"),
        ("MULTI".into(), "+OK"),
        (format!("INCR {a}"), "+QUEUED"),
        (format!("INCR {{{a}}}x"), "+QUEUED"),
        ("EXEC".into(), "[:2 :1]"),
        (format!("GET {a}"), "2"),
        (format!("RPUSH {c} 1 2"), ":2"),
        (format!("BLPOP {c} 0"), &format!("[{c} 1]")),
        (format!("BLPOP {d} 0.02"), "*-1"),
        (format!("LPOP {c}"), "2"),
        ("DBSIZE".into(), ":3"),
        ("CLIENT REPLY SKIP".into(), ""),
        (format!("SET {c} skipped"), ""),
        (format!("GET {c}"), "skipped"),
        ("CLIENT REPLY OFF".into(), ""),
        (format!("SET {c} off"), ""),
        (format!("SET {d} off"), ""),
        ("CLIENT REPLY ON".into(), "+OK"),
        (format!("GET {c}"), "off"),
        (format!("GET {d}"), "off"),
        ("CLIENT PAUSE 30 ALL".into(), "+OK"),
        (format!("SET {b} 2"), "+OK"),
        ("SUBSCRIBE ch".into(), "[subscribe ch :1]"),
        (
            format!("GET {b}"),
            "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        ),
        ("UNSUBSCRIBE ch".into(), "[unsubscribe ch :0]"),
        (format!("GET {b}"), "2"),
        (format!("GET {a}"), "2"),
    ];
    client.send_raw(&requests(steps.iter().map(|(line, _)| line.as_str())));
    for (line, reply) in steps.iter().filter(|(_, reply)| !reply.is_empty()) {
        assert_eq!(client.receive(), *reply, "{line}");
    }
    assert!(client.is_silent());
}

#[test]
fn a_message_is_published_after_the_writes_before_it() {
    let server = sharded();
    let (mut writer, mut subscriber, mut reader) =
        (Client::connect(&server), Client::connect(&server), Client::connect(&server));
    assert_eq!(subscriber.ask("SUBSCRIBE c"), "[subscribe c :1]");
    let keys = keys();
    for n in 1..200 {
        let mut lines: Vec<String> = keys.iter().map(|key| format!("SET {key} {n}")).collect();
        lines.push(format!("PUBLISH c {n}"));
        writer.send_raw(&requests(lines.iter().map(String::as_str)));
        assert_eq!(subscriber.receive(), format!("[message c {n}]"));
        for key in &keys {
            assert_eq!(reader.ask(&format!("GET {key}")), n.to_string());
        }
        lines.iter().for_each(|_| drop(writer.receive()));
    }
}

#[test]
fn large_replies_do_not_pile_up() {
    const VALUE_BYTES: usize = 8 << 20;
    const TIMES: usize = 32;
    let server = sharded();
    let mut client = Client::connect(&server);
    let keys = keys();
    for (n, key) in keys.iter().enumerate() {
        let value = vec![b'a' + n as u8; VALUE_BYTES];
        client.send_raw(&request_of([b"SET", key.as_bytes(), &value]));
        assert_eq!(client.receive(), "+OK");
    }
    let lines: Vec<String> = (0..TIMES)
        .flat_map(|_| keys.iter().map(|key| format!("GET {key}")))
        .chain(["DBSIZE".into()])
        .collect();
    client.send_raw(&requests(lines.iter().map(String::as_str)));
    // As much as may pile up does.
    pause(500);
    for n in 0..TIMES * SHARDS {
        let (reply, byte) = (client.receive(), "abcd".as_bytes()[n % SHARDS]);
        assert!(reply.len() == VALUE_BYTES && reply.bytes().all(|b| b == byte), "reply {n}: {}", reply.len());
    }
    assert_eq!(client.receive(), ":4");
    // The values, the output that waits and the parts of the pipeline, in buffers that double as they grow, are less than half of
    // all replies.
    let (peak, all) = (peak_bytes(&server), (TIMES * SHARDS * VALUE_BYTES) as u64);
    assert!(peak < all / 2, "{} MiB of {} MiB", peak >> 20, all >> 20);
}

/// The most memory that a server has had.
fn peak_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn monitors_see_a_pipeline_in_its_order() {
    let server = sharded();
    let (mut monitor, mut client) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    let lines: Vec<String> = (0..200).map(|n| format!("INCR k{n}")).collect();
    assert_eq!(client.ask_all(lines.iter().map(String::as_str)), vec![":1"; lines.len()]);
    for n in 0..200 {
        let line = monitor.receive();
        assert!(line.ends_with(&format!("\"INCR\" \"k{n}\"")), "{n}: {line}");
    }
}

#[test]
fn nothing_after_quit_or_a_protocol_error_runs() {
    let server = sharded();
    let keys = keys();
    for (end, reply) in
        [(request("QUIT"), "+OK"), (b"*1\r\n!\r\n".to_vec(), "-ERR Protocol error: expected '$', got '!'")]
    {
        let mut client = Client::connect(&server);
        let set = |n: usize| keys.iter().map(|key| format!("SET {key} {n}")).collect::<Vec<_>>();
        let bytes =
            [requests(set(1).iter().map(String::as_str)), end, requests(set(2).iter().map(String::as_str))];
        client.send_raw(&bytes.concat());
        assert_eq!(client.rest(), ["+OK", "+OK", "+OK", "+OK", reply]);
        let mut client = Client::connect(&server);
        for key in &keys {
            assert_eq!(client.ask(&format!("GET {key}")), "1");
        }
        assert_eq!(client.ask("FLUSHALL"), "+OK");
    }
}

#[test]
fn a_client_that_sends_no_more_gets_every_reply_and_one_that_is_gone_none() {
    let server = sharded();
    let lines: Vec<String> = (0..5000).map(|n| format!("SET k{n} {n}")).collect();
    let bytes = requests(lines.iter().map(String::as_str));
    let mut client = Client::connect(&server);
    client.send_raw(&bytes);
    client.half_close();
    assert_eq!(client.rest(), vec!["+OK"; lines.len()]);
    let mut admin = Client::connect(&server);
    admin.expect(&[("DBSIZE", ":5000"), ("FLUSHALL", "+OK")]);
    for _ in 0..20 {
        let mut gone = TcpStream::connect(server.resp().unwrap()).unwrap();
        gone.write_all(&bytes).unwrap();
        gone.shutdown(Shutdown::Both).unwrap();
    }
    until("the clients are gone", || info(&mut admin, "clients", "connected_clients") == 1);
    admin.expect(&[("SET k v", "+OK"), ("GET k", "v")]);
}

/// Writes pipelines until the server is killed, and returns the last value of each key that was acknowledged.
fn write_until_killed(mut server: Server, first: u64) -> (Server, Vec<u64>, u64) {
    let mut client = Client::connect(&server);
    let mut writer = client.writer();
    let writes = std::thread::spawn(move || {
        let mut sent = first;
        while writer.write_all(&requests(set_all(sent + 1).iter().map(String::as_str))).is_ok() {
            sent += 1;
        }
        sent + 1
    });
    let mut acknowledged = vec![first; KEYS];
    for n in 0.. {
        if n == 40 * KEYS {
            server.kill().unwrap();
        }
        match client.try_receive() {
            Ok(reply) => assert_eq!(reply, "+OK"),
            Err(_) => break,
        }
        acknowledged[n % KEYS] += 1;
    }
    (server, acknowledged, writes.join().unwrap())
}

const KEYS: usize = 50;

fn set_all(n: u64) -> Vec<String> {
    (0..KEYS).map(|key| format!("SET k{key} {n}")).collect()
}

#[test]
fn every_acknowledged_write_of_a_pipeline_survives_kills() {
    for level in ["commit", "fsync"] {
        let home = dir();
        let mut server = start_on(home.path(), &["--durability", level, "--shards", "4"]);
        let mut first = 0;
        for _ in 0..5 {
            let (killed, acknowledged, sent) = write_until_killed(server, first);
            server = killed;
            server.restart().unwrap();
            let mut client = Client::connect(&server);
            for (key, at_least) in acknowledged.into_iter().enumerate() {
                let found: u64 = client.ask(&format!("GET k{key}")).parse().unwrap();
                assert!(
                    (at_least..=sent).contains(&found),
                    "{level}, k{key}: {at_least} to {sent}, found {found}"
                );
            }
            first = sent;
            assert_eq!(client.ask_all(set_all(first).iter().map(String::as_str)), vec!["+OK"; KEYS]);
        }
    }
}

#[test]
fn slow_requests_of_one_client_let_others_run() {
    const SLOW: usize = 400;
    let server = sharded();
    let (mut slow, mut quick) = (Client::connect(&server), Client::connect(&server));
    let script = "local n=0;for i=1,400000 do n=n+i end;return 1";
    // Whatever shard the client is on, most of these keys are on others.
    let mut bytes: Vec<u8> = (0..SLOW)
        .flat_map(|n| request_of(["EVAL", script, "1", &key_of(ShardId(n % SHARDS))].map(str::as_bytes)))
        .collect();
    bytes.extend(request_of(["SET", "last", "v"].map(str::as_bytes)));
    slow.send_raw(&bytes);
    assert_eq!(slow.receive(), ":1");
    for key in keys() {
        assert_eq!(quick.ask(&format!("SET {key} v")), "+OK");
    }
    assert_eq!(quick.ask("EXISTS last"), ":0", "all slow requests ran first");
    assert_eq!((1..SLOW).map(|_| slow.receive()).collect::<Vec<_>>(), vec![":1"; SLOW - 1]);
    assert_eq!(slow.receive(), "+OK");
}
