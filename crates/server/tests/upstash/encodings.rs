//! The forms of a response: JSON, with strings in base64 or not, and RESP2.

use crate::client::Http;
use crate::memory;

const BASE64: &str = "Upstash-Encoding: base64";
const RESP2: &str = "Upstash-Response-Format: resp2";

#[test]
fn base64_encodes_every_string_except_ok_and_errors() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for (body, expected) in [
        (r#"["SET","k","OK"]"#, r#"{"result":"OK"}"#),
        (r#"["GET","k"]"#, r#"{"result":"T0s="}"#),
        (r#"["MGET","k","none"]"#, r#"{"result":["T0s=",null]}"#),
        (r#"["PING"]"#, r#"{"result":"UE9ORw=="}"#),
        (r#"["TYPE","k"]"#, r#"{"result":"c3RyaW5n"}"#),
        (r#"["STRLEN","k"]"#, r#"{"result":2}"#),
        (r#"["ZADD","z",1.5,"ü"]"#, r#"{"result":1}"#),
        (r#"["ZRANGE","z",0,-1,"WITHSCORES"]"#, r#"{"result":["w7w=","MS41"]}"#),
        (r#"["XADD","s","1-1","f",""]"#, r#"{"result":"MS0x"}"#),
        (r#"["XRANGE","s","-","+"]"#, r#"{"result":[["MS0x",["Zg==",""]]]}"#),
        (r#"["GET","none"]"#, r#"{"result":null}"#),
        (r#"["INCR","k"]"#, r#"{"error":"ERR value is not an integer or out of range"}"#),
    ] {
        for header in [BASE64, "upstash-encoding: BASE64"] {
            // A write that is sent twice has another reply.
            if header != BASE64 && body.contains("ADD") {
                continue;
            }
            let response = http.ask("POST", "/", &[header], body.as_bytes());
            assert_eq!(response.text(), expected, "{body}");
        }
    }
    let response = http.ask("POST", "/multi-exec", &[BASE64], br#"[["SET","k",1],["GET","k"],["INCR","z"]]"#);
    assert_eq!(
        response.text(),
        r#"[{"result":"OK"},{"result":"MQ=="},{"error":"WRONGTYPE Operation against a key holding the wrong kind of value"}]"#
    );
    let response = http.ask("GET", "/nosuch", &[BASE64], b"");
    assert_eq!(response.error(), "ERR unknown command 'nosuch', with args beginning with: ");
}

#[test]
fn bytes_that_are_not_utf8_are_exact_in_base64_and_marked_in_plain_json() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    http.ask("POST", "/set/k", &[], b"a\xff\x00\xfe");
    assert_eq!(http.ask("GET", "/get/k", &[BASE64], b"").text(), r#"{"result":"Yf8A/g=="}"#);
    assert_eq!(http.get("/get/k").text(), "{\"result\":\"a\u{fffd}\\u0000\u{fffd}\"}");
}

#[test]
fn resp2_is_the_encoding_of_redis() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for (body, status, expected) in [
        (r#"["SET","k","v"]"#, 200, "+OK\r\n"),
        (r#"["GET","k"]"#, 200, "$1\r\nv\r\n"),
        (r#"["GET","none"]"#, 200, "$-1\r\n"),
        (r#"["STRLEN","k"]"#, 200, ":1\r\n"),
        (r#"["MGET","k","none"]"#, 200, "*2\r\n$1\r\nv\r\n$-1\r\n"),
        (r#"["HSET","h","f","v"]"#, 200, ":1\r\n"),
        (r#"["HGETALL","h"]"#, 200, "*2\r\n$1\r\nf\r\n$1\r\nv\r\n"),
        (r#"["INCR","k"]"#, 400, "-ERR value is not an integer or out of range\r\n"),
        (r#"[]"#, 400, "-ERR empty command\r\n"),
    ] {
        let response = http.ask("POST", "/", &[RESP2], body.as_bytes());
        assert_eq!((response.status, response.text()), (status, expected), "{body}");
        assert_eq!(response.header("content-type"), Some("application/octet-stream"));
    }
    let response = http.ask("POST", "/pipeline", &[RESP2], br#"[["PING"],["NOSUCH"],["GET","k"]]"#);
    let expected = "+PONG\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n$1\r\nv\r\n";
    assert_eq!((response.status, response.text()), (200, expected));
    assert_eq!(
        http.ask("GET", "/get/k", &["Upstash-Response-Format: json"], b"").text(),
        r#"{"result":"v"}"#
    );
}

#[test]
fn unknown_forms_are_errors_and_nothing_runs() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for headers in [
        &["Upstash-Encoding: hex"][..],
        &["Upstash-Encoding: \u{fc}"],
        &["Upstash-Response-Format: resp3"],
        &["Upstash-Response-Format: "],
        &[BASE64, RESP2],
    ] {
        for (target, body) in [
            ("/set/k/v", ""),
            ("/", r#"["SET","k","v"]"#),
            ("/pipeline", r#"[["SET","k","v"]]"#),
            ("/multi-exec", r#"[["SET","k","v"]]"#),
        ] {
            let response = http.ask("POST", target, headers, body.as_bytes());
            assert_eq!(response.status, 400, "{headers:?} {target}");
            assert!(response.error().starts_with("ERR "), "{headers:?}");
        }
    }
    assert_eq!(http.get("/exists/k").text(), r#"{"result":0}"#);
}
