//! Sizes and counts beyond the bounds: an error in JSON.

use crate::client::Http;
use crate::{differs, memory};

const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// A value that the worker can keep.
const EDGE_VALUE_BYTES: usize = 1024 * 1024;

/// The size of a value, and how many bytes of replies a request may have: several of the first fit into the second.
fn value_and_replies() -> (usize, usize) {
    match differs("replies to one request") {
        true => (EDGE_VALUE_BYTES, 16_777_216),
        false => (BODY_BYTES_MAX, 134_217_728),
    }
}

#[test]
fn a_body_at_the_bound_is_accepted_and_one_over_it_is_413() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let most = vec![b'x'; BODY_BYTES_MAX];
    let len = match differs("size of one key's string or document, or of one element") {
        true => {
            let response = http.ask("POST", "/set/k", &[], &most);
            assert_eq!(response.status, 413);
            assert!(response.error().contains("larger than a row of a Durable Object"), "{response:?}");
            EDGE_VALUE_BYTES
        }
        false => BODY_BYTES_MAX,
    };
    assert_eq!(http.ask("POST", "/set/k", &[], &most[..len]).text(), r#"{"result":"OK"}"#);
    assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{len}}}"#));
    assert_eq!(http.get("/get/k").body.len(), len + r#"{"result":""}"#.len());
    for target in ["/set/k", "/", "/pipeline", "/multi-exec"] {
        let mut http = Http::connect(&server);
        // With its length announced, it is rejected before it is sent.
        let head = http.head_of("POST", target);
        http.send_raw(format!("{head}Content-Length: {}\r\n\r\n", BODY_BYTES_MAX + 1).as_bytes());
        let response = http.try_receive("POST").unwrap();
        let words = match differs("the error of a body over 10 MB") {
            true => "ERR max request size exceeded. Limit: 10485760 bytes",
            false => "ERR max request size exceeded. Limit: 10485760 bytes, Actual: 10485761 bytes",
        };
        assert_eq!((response.status, response.error().as_str()), (413, words), "{target}");
        assert!(response.closes() || http.is_closed(), "what follows could be the body");
    }
    assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{len}}}"#), "as it was");
}

#[test]
fn a_chunked_body_over_the_bound_is_413_too() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let head = http.head_of("POST", "/set/k");
    http.send_raw(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
    let piece = [b"100000\r\n", &vec![b'x'; 0x10_0000][..], b"\r\n"].concat();
    for _ in 0..10 {
        http.send_raw(&piece);
    }
    http.send_raw(b"1\r\nx\r\n0\r\n\r\n");
    let response = http.try_receive("POST").unwrap();
    assert_eq!(response.status, 413);
    assert!(
        response.error().starts_with("ERR max request size exceeded. Limit: 10485760 bytes"),
        "{response:?}"
    );
    assert_eq!(Http::connect(&server).get("/exists/k").text(), r#"{"result":0}"#);
}

#[test]
fn too_many_commands_are_an_error_and_none_runs() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let body = format!("[{}[\"SET\",\"k\",1]]", "[\"SET\",\"k\",1],".repeat(10_000));
    for target in ["/pipeline", "/multi-exec"] {
        let response = http.post(target, &body);
        assert_eq!(
            (response.status, response.error().as_str()),
            (400, "ERR too many commands in one request"),
            "{target}"
        );
    }
    assert_eq!(http.get("/exists/k").text(), r#"{"result":0}"#);
}

/// All replies of a pipeline are in memory together, so they have a bound, too.
#[test]
fn a_pipeline_whose_replies_are_too_large_stops_running() {
    let (size, limit) = value_and_replies();
    // With the quotes and names of JSON, the next one does not fit.
    let room = limit / size - usize::from(limit % size == 0);
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        http.ask("POST", "/set/k", &[], &vec![b'x'; size]);
        let gets = r#"["GET","k"],"#.repeat(20);
        let response = http.post("/pipeline", &format!(r#"[{gets}["SET","k","changed"]]"#)).json();
        let items = response.as_array().unwrap();
        let is_whole = |n: usize| items[n]["result"].as_str().is_some_and(|text| text.len() == size);
        let whole = (0..20).take_while(|n| is_whole(*n)).count();
        assert_eq!(whole, room, "there is no room for another");
        let words = format!(
            "ERR max response size exceeded. Limit: {limit} bytes. Request less data at a time. Nothing was changed"
        );
        assert_eq!(items[whole]["error"], words);
        let words = format!("ERR max response size exceeded. Limit: {limit} bytes. The command did not run");
        assert!(items[whole + 1..].iter().all(|item| item["error"] == words), "{shards}");
        assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{size}}}"#));
    }
}

#[test]
fn a_transaction_whose_replies_are_too_large_is_undone() {
    let (size, limit) = value_and_replies();
    // With the quotes and names of JSON, the next one does not fit.
    let room = limit / size - usize::from(limit % size == 0);
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        // On several shards some connections have the key on their own shard, and some have not.
        for n in 0..4 {
            let mut http = Http::connect(&server);
            http.ask("POST", "/set/k", &[], &vec![b'x'; size]);
            let gets = |count| r#"["GET","k"],"#.repeat(count);
            let response =
                http.post("/multi-exec", &format!(r#"[["APPEND","k","y"],{}["DEL","k"]]"#, gets(room + 1)));
            let words = format!(
                "ERR max response size exceeded. Limit: {limit} bytes. Request less data at a time. Nothing was changed"
            );
            assert_eq!((response.status, response.error()), (413, words), "{shards} {n}");
            assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{size}}}"#));
            let response = http.post("/multi-exec", &format!(r#"[{}["DEL","k"]]"#, gets(room)));
            assert!(response.status == 200 && response.text().ends_with(r#"{"result":1}]"#), "{shards} {n}");
        }
    }
}

#[test]
fn a_key_that_is_too_long_is_an_error_and_undoes_its_transaction() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let (most, long) = ("k".repeat(32 * 1024), "k".repeat(32 * 1024 + 1));
    http.expect(&[(&format!(r#"["SET","{most}",1]"#), r#"{"result":"OK"}"#)]);
    let words = "ERR max key size exceeded. Limit: 32768 bytes, Actual: 32769 bytes";
    let response = http.post("/", &format!(r#"["SET","{long}",1]"#));
    assert_eq!((response.status, response.error().as_str()), (413, words));
    let body = format!(r#"[["SET","a",1],["SET","{long}",1],["SET","b",1]]"#);
    let response = http.post("/multi-exec", &body);
    assert_eq!((response.status, response.error().as_str()), (413, words));
    assert_eq!(http.get("/exists/a/b").text(), r#"{"result":0}"#, "all of it or nothing");
    let response = http.post("/pipeline", &body);
    assert_eq!(response.text(), format!(r#"[{{"result":"OK"}},{{"error":"{words}"}},{{"result":"OK"}}]"#));
    assert_eq!(http.get("/exists/a/b").text(), r#"{"result":2}"#, "each for itself");
}

#[test]
fn a_target_or_headers_over_the_bound_are_an_error_and_others_are_served() {
    let server = memory(&[]);
    for (target, header) in [
        ("/get/k", format!("X: {}", "x".repeat(70_000))),
        (&*format!("/get/{}", "x".repeat(70_000)), String::new()),
    ] {
        let mut http = Http::connect(&server);
        let headers: Vec<&str> = if header.is_empty() { Vec::new() } else { vec![&header] };
        let response = http.ask("GET", target, &headers, b"");
        // Here the platform accepts both; the worker cannot parse such a URL.
        let is_other = differs("size of a URL and of headers") && matches!(response.status, 200 | 500);
        assert!(is_other || matches!(response.status, 414 | 431), "{}", response.status);
    }
    assert_eq!(Http::connect(&server).get("/ping").text(), r#"{"result":"PONG"}"#);
}

#[test]
fn too_many_channels_are_an_error() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for word in ["subscribe", "psubscribe"] {
        let more = if differs("channels of one subscription") { 101 } else { 1001 };
        let response = http.get(&format!("/{word}{}", "/c".repeat(more)));
        assert_eq!(
            (response.status, response.error().as_str()),
            (400, "ERR too many channels in one request")
        );
    }
    assert_eq!(http.get("/pubsub/numpat").text(), r#"{"result":0}"#);
    let most = if differs("channels of one subscription") { 100 } else { 1000 };
    let mut events = Http::connect(&server).events(&format!("/subscribe{}", "/c".repeat(most)), &[]);
    assert_eq!(events.next(), "subscribe,c,1");
}
