//! Sizes and counts beyond the bounds: an error in JSON.

use crate::client::Http;
use crate::memory;

const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

#[test]
fn a_body_at_the_bound_is_accepted_and_one_over_it_is_413() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let most = vec![b'x'; BODY_BYTES_MAX];
    assert_eq!(http.ask("POST", "/set/k", &[], &most).text(), r#"{"result":"OK"}"#);
    assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{BODY_BYTES_MAX}}}"#));
    assert_eq!(http.get("/get/k").body.len(), BODY_BYTES_MAX + r#"{"result":""}"#.len());
    for target in ["/set/k", "/", "/pipeline", "/multi-exec"] {
        let mut http = Http::connect(&server);
        // With its length announced, it is rejected before it is sent.
        http.send_raw(
            format!(
                "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
                BODY_BYTES_MAX + 1
            )
            .as_bytes(),
        );
        let response = http.try_receive("POST").unwrap();
        let words = "ERR max request size exceeded. Limit: 10485760 bytes, Actual: 10485761 bytes";
        assert_eq!((response.status, response.error().as_str()), (413, words), "{target}");
        assert!(response.closes() || http.is_closed(), "what follows could be the body");
    }
    assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{BODY_BYTES_MAX}}}"#), "as it was");
}

#[test]
fn a_chunked_body_over_the_bound_is_413_too() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    http.send_raw(b"POST /set/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
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
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        http.ask("POST", "/set/k", &[], &vec![b'x'; BODY_BYTES_MAX]);
        let gets = r#"["GET","k"],"#.repeat(20);
        let response = http.post("/pipeline", &format!(r#"[{gets}["SET","k","changed"]]"#)).json();
        let items = response.as_array().unwrap();
        let is_whole =
            |n: usize| items[n]["result"].as_str().is_some_and(|text| text.len() == BODY_BYTES_MAX);
        let whole = (0..20).take_while(|n| is_whole(*n)).count();
        assert_eq!(whole, 12, "128 MB have no room for the thirteenth");
        let words = "ERR max response size exceeded. Limit: 134217728 bytes. Request less data at a time. Nothing was changed";
        assert_eq!(items[whole]["error"], words);
        let words = "ERR max response size exceeded. Limit: 134217728 bytes. The command did not run";
        assert!(items[whole + 1..].iter().all(|item| item["error"] == words), "{shards}");
        assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{BODY_BYTES_MAX}}}"#));
    }
}

#[test]
fn a_transaction_whose_replies_are_too_large_is_undone() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        // On several shards some connections have the key on their own shard, and some have not.
        for n in 0..4 {
            let mut http = Http::connect(&server);
            http.ask("POST", "/set/k", &[], &vec![b'x'; BODY_BYTES_MAX]);
            let gets = |count| r#"["GET","k"],"#.repeat(count);
            let response =
                http.post("/multi-exec", &format!(r#"[["APPEND","k","y"],{}["DEL","k"]]"#, gets(13)));
            let words = "ERR max response size exceeded. Limit: 134217728 bytes. Request less data at a time. Nothing was changed";
            assert_eq!((response.status, response.error().as_str()), (413, words), "{shards} {n}");
            assert_eq!(http.get("/strlen/k").text(), format!(r#"{{"result":{BODY_BYTES_MAX}}}"#));
            let response = http.post("/multi-exec", &format!(r#"[{}["DEL","k"]]"#, gets(12)));
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
        assert!(matches!(response.status, 414 | 431), "{}", response.status);
    }
    assert_eq!(Http::connect(&server).get("/ping").text(), r#"{"result":"PONG"}"#);
}

#[test]
fn too_many_channels_are_an_error() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for word in ["subscribe", "psubscribe"] {
        let response = http.get(&format!("/{word}{}", "/c".repeat(1001)));
        assert_eq!(
            (response.status, response.error().as_str()),
            (400, "ERR too many channels in one request")
        );
    }
    assert_eq!(http.get("/pubsub/numpat").text(), r#"{"result":0}"#);
    let mut events = Http::connect(&server).events(&format!("/subscribe{}", "/c".repeat(1000)), &[]);
    assert_eq!(events.next(), "subscribe,c,1");
}
