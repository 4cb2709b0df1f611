//! A client of the HTTP listener, as bytes or built from routes, paths and bodies: the server never panics, every response is HTTP, and none
//! is an internal error.

#![no_main]

use std::sync::OnceLock;

use keystead_fuzz::source::Source;
use keystead_server::http::fuzzing::Server;
use libfuzzer_sys::fuzz_target;

const POLICIES: &str = r#"
[limit.gcra]
limit = 3
periodMs = "60s"
fail = "closed"
[limit.window]
kind = "slidingWindow"
limit = 3
windowMs = "1s"
fail = "open"
[limit.log]
kind = "slidingWindowLog"
limit = 3
windowMs = "1s"
fail = "closed"
[limit.bucket]
kind = "tokenBucket"
capacity = 3
refillPerSec = 0.5
fail = "closed"
[limit.quota]
kind = "quota"
limit = 3
resetCadence = "calendar-month"
fail = "closed"
[limit.slots]
kind = "concurrency"
limit = 2
leaseMs = "60s"
fail = "closed"
[limit.leaky]
kind = "leakyBucket"
ratePerSec = 5
maxQueueMs = "1s"
fail = "closed"
"#;

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "X"];
const PATHS: [&str; 40] = [
    "/",
    "/get/a",
    "/set/a/1/EX/100",
    "/pipeline",
    "/multi-exec",
    "/kv",
    "/kv/a",
    "/kv/a%2Fb",
    "/kv:batch",
    "/limit",
    "/limit/gcra",
    "/limit/gcra/check",
    "/limit/window",
    "/limit/log",
    "/limit/bucket",
    "/limit/quota/reserve",
    "/limit/quota/settle",
    "/limit/quota/u",
    "/limit/slots/acquire",
    "/limit/slots/release",
    "/limit/leaky/u",
    "/limit/nobody",
    "/subscribe/c",
    "/psubscribe/*",
    "/monitor",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/kv/?watch",
    "/eval",
    "/json.set/d/$/%7B%7D",
    "/hset/h/f/v",
    "/zadd/z/1/m",
    "/xadd/x/*/f/v",
    "/lpush/l/a/b",
    "/scan/0",
    "/mget/a/b",
    "/getdel/a",
    "/incr/n",
];
const QUERIES: [&str; 20] = [
    "",
    "?",
    "?prefix=a&limit=2",
    "?cursor=x",
    "?ifVersion=1",
    "?ttlMs=1000",
    "?watch=1",
    "?revision=0",
    "?EX=10",
    "?_token=x",
    "?key=u",
    "?cost=2",
    "?values=true",
    "?after=0",
    "?%00=%zz",
    "?a=b&a=c",
    "?NX",
    "?limit=-1",
    "?limit=99999999999999999999",
    "?prefix=%ff",
];
const HEADERS: [&str; 20] = [
    "Upstash-Encoding: base64",
    "Upstash-Response-Format: resp2",
    "Idempotency-Key: one",
    "Idempotency-Key: ",
    "If-Match: \"1\"",
    "If-None-Match: *",
    "If-Match: *",
    "Content-Type: application/merge-patch+json",
    "Content-Type: application/json-patch+json",
    "Content-Type: application/json",
    "Accept: text/event-stream",
    "Authorization: Bearer x",
    "Origin: http://evil",
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Connection: close",
    "Last-Event-ID: 0",
    "Upgrade: h2c",
    "Keystead-TTL-Ms: 5",
    "Access-Control-Request-Method: PUT",
];
const BODIES: [&str; 26] = [
    "",
    "[\"SET\",\"a\",\"1\"]",
    "[[\"INCR\",\"n\"],[\"GET\",\"a\"]]",
    "{\"key\":\"u\"}",
    "{\"key\":\"u\",\"cost\":2}",
    "{\"key\":\"u\",\"leaseId\":\"x\"}",
    "{\"a\":1}",
    "[{\"op\":\"add\",\"path\":\"/a\",\"value\":[]}]",
    "{\"a\":null}",
    "null",
    "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a\"}]",
    "{\"checks\":[{\"policy\":\"gcra\",\"key\":\"u\"},{\"policy\":\"log\",\"key\":\"u\"}]}",
    "{\"operations\":[{\"put\":{\"key\":\"a\",\"value\":1}}]}",
    "[[\"EVAL\",\"return redis.call('set',KEYS[1],1)\",\"1\",\"a\"]]",
    "[\"JSON.GET\",\"d\",\"$..a\"]",
    "{\"limits\":[{\"policy\":\"gcra\",\"key\":\"u\"}],\"write\":{\"key\":\"k\",\"value\":1}}",
    "[\"SET\",\"a\",{\"b\":[1,null,true]}]",
    "[[]]",
    "[",
    "{\"$serde_json::private::Number\":\"1\"}",
    "\u{feff}[]",
    "1e999",
    "{\"reservation\":\"x\",\"amount\":1}",
    "[\"MULTI\"]",
    "[\"SUBSCRIBE\",\"c\"]",
    "[\"BLPOP\",\"l\",\"1\"]",
];

fn push(bytes: &mut Vec<u8>, source: &mut Source<'_>, of: &[&str]) {
    if source.byte() < 24 {
        let len = source.below(64);
        bytes.extend_from_slice(source.bytes(len));
    } else {
        bytes.extend_from_slice(source.one_of(of).as_bytes());
    }
}

/// Requests of a client that keeps its connection.
fn requests(source: &mut Source<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !source.is_empty() {
        let mut body = Vec::new();
        bytes.extend_from_slice(source.one_of(&METHODS).as_bytes());
        bytes.push(b' ');
        push(&mut bytes, source, &PATHS);
        push(&mut bytes, source, &QUERIES);
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\n");
        for _ in 0..source.below(4) {
            push(&mut bytes, source, &HEADERS);
            bytes.extend_from_slice(b"\r\n");
        }
        push(&mut body, source, &BODIES);
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(&body);
    }
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::new(POLICIES).expect("it starts"));
    server.set_script_ms(50);
    let mut source = Source::new(bytes);
    let sent = match source.byte() % 4 {
        0 => source.rest().to_vec(),
        _ => requests(&mut source),
    };
    let received = server.exchange(&sent).expect("it goes on");
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{}\n{}", String::from_utf8_lossy(&sent), String::from_utf8_lossy(&received));
    }
    assert!(received.is_empty() || received.starts_with(b"HTTP/1."), "{}", received.escape_ascii());
    let internal = received.windows(13).any(|window| window == b"HTTP/1.1 500 ");
    assert!(!internal, "{}", received.escape_ascii());
});
