//! Invalid requests: always an error in JSON, never a 5xx, never a hang, and nothing has run.
//!
//! The random test prints its seed; `KEYSTEAD_SEED` sets another one.

use std::fmt::Write as _;

use keystead_testkit::rng::{Rng, seed_from_env};

use crate::client::Http;
use crate::{Server, differs, memory};

#[test]
fn invalid_bodies_are_400() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let deep = "[".repeat(100_000);
    for body in [
        " ",
        "SET k v",
        "{}",
        "null",
        "7",
        "\"PING\"",
        "[\"SET\",\"k\",\"v\"",
        "[\"SET\",\"k\",\"v\"]]",
        "[\"SET\",\"k\",\"v\"],",
        "[\"SET\",\"k\",null]",
        "[\"SET\",\"k\",{\"a\":1}]",
        "[\"SET\",\"k\",[\"v\"]]",
        "[[\"SET\",\"k\",\"v\"]]",
        "[\"SET\",\"k\",\"\\ud800\"]",
        "[\"SET\",\"k\",\"\\x00\"]",
        "[\"SET\",\"k\",\"a\tb\"]",
        "[\"SET\",\"k\",01]",
        "[\"SET\",\"k\",NaN]",
        "[\"SET\",\"k\",'v']",
        "\u{feff}[\"SET\",\"k\",\"v\"]",
        deep.as_str(),
    ] {
        let response = http.post("/", body);
        assert_eq!(
            (response.status, response.error().as_str()),
            (400, "ERR failed to parse command"),
            "{body:.50}"
        );
        for target in ["/pipeline", "/multi-exec"] {
            // One command and an array of commands differ only from the first element on.
            let body = if body.starts_with("[[") { "[\"SET\",\"k\",\"v\"]" } else { body };
            let response = http.post(target, body);
            assert_eq!(
                (response.status, response.error().as_str()),
                (400, "ERR failed to parse pipeline request"),
                "{body:.50}"
            );
        }
    }
    for (target, body, words) in [
        ("/", "[]", "ERR empty command"),
        ("/", "[\"\"]", "ERR unknown command '', with args beginning with: "),
        ("/pipeline", "", "ERR failed to parse pipeline request"),
        ("/multi-exec", "", "ERR failed to parse pipeline request"),
        ("/pipeline", "[]", "ERR empty pipeline request"),
        ("/multi-exec", "[]", "ERR empty pipeline request"),
        ("/pipeline", "[[[\"SET\",\"k\",\"v\"]]]", "ERR failed to parse pipeline request"),
        ("/multi-exec", "[[\"SET\",\"k\",\"v\"],7]", "ERR failed to parse pipeline request"),
    ] {
        let response = http.post(target, body);
        assert_eq!((response.status, response.error().as_str()), (400, words), "{target} {body}");
    }
    let response = http.ask("POST", "/", &[], b"[\"SET\",\"k\",\"\xff\"]");
    assert_eq!((response.status, response.error().as_str()), (400, "ERR failed to parse command"));
    assert_eq!(http.get("/dbsize").text(), r#"{"result":0}"#, "nothing has run");
}

#[test]
fn numbers_keep_their_text_and_those_beyond_64_bits_are_not_integers() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let failed = r#"{"error":"ERR value is not an integer or out of range"}"#;
    http.expect(&[
        (r#"["INCRBY","n",9223372036854775807]"#, r#"{"result":9223372036854775807}"#),
        (r#"["DECRBY","n",9223372036854775806]"#, r#"{"result":1}"#),
        (r#"["INCRBY","n",9223372036854775808]"#, failed),
        (r#"["INCRBY","n",-9223372036854775809]"#, failed),
        (r#"["INCRBY","n",100000000000000000000000000000000000]"#, failed),
        (r#"["INCRBY","n",1e3]"#, failed),
        (r#"["INCRBY","n",1.0]"#, failed),
        (r#"["INCRBY","n",-0]"#, failed),
        (r#"["INCRBY","n",true]"#, failed),
        (r#"["INCRBYFLOAT","x",1e5000]"#, r#"{"error":"ERR value is not a valid float"}"#),
        (r#"["SET","big",1e400]"#, r#"{"result":"OK"}"#),
        (r#"["GET","big"]"#, r#"{"result":"1e400"}"#),
        (r#"["GET","n"]"#, r#"{"result":"1"}"#),
    ]);
}

#[test]
fn invalid_paths_are_400() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let escape = "ERR failed to parse command: the path has a '%' without two hexadecimal digits";
    for (target, words) in [
        ("/", "ERR empty command"),
        ("//", "ERR empty command"),
        ("/?a=b", "ERR unknown command '', with args beginning with: 'a' 'b' "),
        ("/get/%", escape),
        ("/get/%2", escape),
        ("/get/%zz", escape),
        ("/get/k?x=%g1", escape),
        ("/%00", "ERR unknown command '\u{fffd}', with args beginning with: "),
        ("/get", "ERR wrong number of arguments for 'get' command"),
        ("/get/a/b", "ERR wrong number of arguments for 'get' command"),
        ("/pipeline/x", "ERR unknown command 'pipeline', with args beginning with: 'x' "),
        ("/subscribe/", "ERR name a channel in the path: /subscribe/CHANNEL"),
        ("/subscribe/%", escape),
    ] {
        let response = http.get(target);
        assert_eq!(response.status, 400, "{target}: {}", response.text());
        let error = response.error();
        if words.contains("unknown command '\u{fffd}'") || target == "/?a=b" {
            assert!(error.starts_with("ERR "), "{target}: {error}");
        } else {
            assert_eq!(error, words, "{target}");
        }
    }
}

/// Incomplete requests, and bytes that are not HTTP.
#[test]
fn incomplete_requests_and_wrong_lengths_do_not_hang_others() {
    let server = memory(&[]);
    for bytes in [
        &b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n[\"SET\",\"k\",\"v\"]"[..],
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n[\"SET\"",
        b"POST /pipeline HTTP/1.1\r\nHost: localhost\r\nContent-Le",
    ] {
        let mut http = Http::connect(&server);
        http.send_raw(bytes);
        drop(http);
    }
    assert_eq!(Http::connect(&server).get("/dbsize").text(), r#"{"result":0}"#);
    if differs("bytes that are no HTTP") {
        return;
    }
    for bytes in [
        &b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n[]",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET /get/a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
    ] {
        let mut http = Http::connect(&server);
        http.send_raw(bytes);
        let response = http.try_receive("POST").unwrap();
        assert_eq!(response.status, 400, "{}", bytes.escape_ascii());
    }
    assert_eq!(Http::connect(&server).get("/dbsize").text(), r#"{"result":0}"#);
}

const REQUESTS: usize = 4000;
const SEED: u64 = 20_261_116;

/// Commands that are valid once their `?` are replaced.
const COMMANDS: [&str; 20] = [
    "get ?",
    "SET ? ?",
    "set ? ? EX 10",
    "incr ?",
    "append ? ?",
    "del ? ?",
    "mget ? ?",
    "type ?",
    "expire ? 10",
    "lpush ? ? ?",
    "lrange ? 0 -1",
    "hset ? ? ?",
    "hgetall ?",
    "zadd ? 1.5 ?",
    "zrange ? 0 -1 WITHSCORES",
    "sadd ? ?",
    "xadd ? * ? ?",
    "echo ?",
    "scan 0 MATCH ?",
    "dbsize",
];

/// Words that get further than random bytes do.
const WORDS: [&str; 24] = [
    "k",
    "l",
    "h",
    "z",
    "*",
    "0",
    "-1",
    "1.5",
    "9223372036854775807",
    "NX",
    "EX",
    "MATCH",
    "_token",
    "\\",
    "get",
    "eval",
    "evalsha",
    "json.set",
    "copy",
    "sort",
    "object",
    "function",
    "pipeline",
    "multi-exec",
];

/// The words of a command. Most are valid.
fn command(rng: &mut Rng) -> Vec<String> {
    if rng.below(3) == 0 {
        return (0..rng.below(6)).map(|_| word(rng)).collect();
    }
    let command = COMMANDS[rng.below(COMMANDS.len() as u64) as usize];
    command.split(' ').map(|part| if part == "?" { word(rng) } else { part.to_owned() }).collect()
}

fn word(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => String::new(),
        1 => (0..rng.below(12)).map(|_| char::from(rng.below(256) as u8)).collect(),
        2 => "x".repeat(rng.below(5000) as usize),
        _ => WORDS[rng.below(WORDS.len() as u64) as usize].to_owned(),
    }
}

/// A target that HTTP allows, with any escapes, also invalid ones.
fn target(rng: &mut Rng) -> String {
    let mut target = String::new();
    for word in command(rng) {
        target.push('/');
        for byte in word.bytes() {
            match byte {
                b'!'..=b'~' if !matches!(byte, b'#' | b'?' | b'<' | b'>' | b'`' | b'"') => {
                    target.push(char::from(byte));
                }
                byte => write!(target, "%{byte:02x}").unwrap(),
            }
        }
        if rng.below(60) == 0 {
            target.push('%');
        }
    }
    for n in 0..rng.below(3) {
        let pieces = ["EX=10", "NX", "_token=x", "%", "a=%2", "=", "&", "+", "GET=", "x==y"];
        target.push(if n == 0 { '?' } else { '&' });
        target.push_str(pieces[rng.below(pieces.len() as u64) as usize]);
    }
    if !target.starts_with('/') {
        target.insert(0, '/');
    }
    target
}

fn row(rng: &mut Rng) -> String {
    const OTHERS: [&str; 5] = ["null", "1e999", "true", "[]", "-12345678901234567890"];
    let json = |rng: &mut Rng, word: String| match rng.below(40) {
        n @ 0..5 => OTHERS[n as usize].to_owned(),
        _ => serde_json::to_string(&word).unwrap(),
    };
    let words: Vec<String> = command(rng).into_iter().map(|word| json(rng, word)).collect();
    format!("[{}]", words.join(","))
}

/// A target and a body that mostly match.
fn target_and_body(rng: &mut Rng) -> (String, Vec<u8>) {
    let rows = |rng: &mut Rng| (0..rng.below(5)).map(|_| row(rng)).collect::<Vec<_>>().join(",");
    let (target, body) = match rng.below(6) {
        0 => ("/".to_owned(), row(rng)),
        1 => ("/pipeline".to_owned(), format!("[{}]", rows(rng))),
        2 => ("/multi-exec".to_owned(), format!("[{}]", rows(rng))),
        _ => (target(rng), String::new()),
    };
    let mut body = body.into_bytes();
    match rng.below(10) {
        0 => body = (0..rng.below(200)).map(|_| rng.below(256) as u8).collect(),
        1 if !body.is_empty() => {
            let at = rng.below(body.len() as u64) as usize;
            body[at] = rng.below(256) as u8;
        }
        _ => {}
    }
    (target, body)
}

fn headers(rng: &mut Rng) -> Vec<String> {
    let names = [
        "Upstash-Encoding",
        "Upstash-Response-Format",
        "Authorization",
        "upstash-sync-token",
        "Content-Type",
        "Accept",
        "Origin",
        "X-Any",
    ];
    let values =
        ["base64", "resp2", "json", "Bearer x", "", "\u{fc}", "text/event-stream", "http://localhost"];
    (0..rng.below(6).saturating_sub(3))
        .map(|_| {
            let name = names[rng.below(names.len() as u64) as usize];
            format!("{name}: {}", values[rng.below(values.len() as u64) as usize])
        })
        .collect()
}

/// One random request. Returns its status, and whether its connection can carry another.
fn one(http: &mut Http, rng: &mut Rng) -> (u16, bool) {
    let method = ["GET", "POST", "POST", "POST", "PUT", "HEAD", "DELETE", "OPTIONS"][rng.below(8) as usize];
    let ((target, body), headers) = (target_and_body(rng), headers(rng));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let response = http.ask(method, &target, &headers, &body);
    let exchange = || format!("{method} {target} {headers:?} {} -> {response:?}", body.escape_ascii());
    assert!(
        response.status == 200 || response.status == 204 || (400..500).contains(&response.status),
        "{}",
        exchange()
    );
    let is_json = response.header("content-type") == Some("application/json");
    if method != "HEAD" && method != "OPTIONS" && is_json {
        let body: serde_json::Value =
            serde_json::from_slice(&response.body).unwrap_or_else(|_| panic!("{}", exchange()));
        let is_error = body.get("error").is_some_and(serde_json::Value::is_string);
        assert_eq!(is_error, response.status >= 400, "{}", exchange());
    }
    assert!(
        is_json || response.status < 400 || headers.iter().any(|h| h.contains("resp2")),
        "{}",
        exchange()
    );
    (response.status, !response.closes())
}

/// Returns how many requests succeeded, and how many failed.
fn fuzz(server: &Server, seed: u64) -> (usize, usize) {
    let (mut rng, mut http) = (Rng::new(seed), Http::connect(server));
    let mut statuses = Vec::new();
    for _ in 0..REQUESTS {
        let (status, goes_on) = one(&mut http, &mut rng);
        statuses.push(status);
        if !goes_on {
            http = Http::connect(server);
        }
    }
    let succeeded = statuses.iter().filter(|status| **status == 200).count();
    (succeeded, statuses.len() - succeeded)
}

#[test]
fn responses_to_random_requests_are_well_formed() {
    let seed = seed_from_env().unwrap_or(SEED);
    let counts = if differs("several shards") { &["1"][..] } else { &["1", "4"] };
    for shards in counts {
        let server = memory(&["--shards", shards]);
        let (succeeded, failed) = fuzz(&server, seed);
        println!("KEYSTEAD_SEED={seed}, {shards} shards: {succeeded} succeeded, {failed} failed");
        assert!(
            succeeded > REQUESTS / 20 && failed > REQUESTS / 20,
            "{succeeded} succeeded, {failed} failed"
        );
        let response = Http::connect(&server).get("/echo/still%20here");
        assert_eq!(response.text(), r#"{"result":"still here"}"#);
    }
}

#[test]
fn random_requests_without_the_token_change_nothing() {
    let seed = seed_from_env().unwrap_or(SEED);
    let server = memory(&["--token", "s3cret"]);
    let (succeeded, failed) = fuzz(&server, seed);
    assert_eq!((succeeded, failed), (0, REQUESTS), "KEYSTEAD_SEED={seed}");
    let response = Http::connect(&server).ask("GET", "/dbsize", &["Authorization: Bearer s3cret"], b"");
    assert_eq!(response.text(), r#"{"result":0}"#);
}
