//! One command: in the body, in the path; methods; commands that are not available over REST.

use crate::client::Http;
use crate::{differs, memory};

#[test]
fn a_body_is_one_command() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    http.expect(&[
        (r#"["SET","k","v"]"#, r#"{"result":"OK"}"#),
        (r#"["get","k"]"#, r#"{"result":"v"}"#),
        (r#" [ "gEt" , "none" ] "#, r#"{"result":null}"#),
        (r#"["INCRBY","n",9223372036854775807]"#, r#"{"result":9223372036854775807}"#),
        (r#"["INCR","n"]"#, r#"{"error":"ERR increment or decrement would overflow"}"#),
        (r#"["SET","t",true]"#, r#"{"result":"OK"}"#),
        (r#"["GET","t"]"#, r#"{"result":"true"}"#),
        (r#"["SET","f",1.0]"#, r#"{"result":"OK"}"#),
        (r#"["GET","f"]"#, r#"{"result":"1.0"}"#),
        (r#"["SET","long",123456789012345678901234567890.10]"#, r#"{"result":"OK"}"#),
        (r#"["GET","long"]"#, r#"{"result":"123456789012345678901234567890.10"}"#),
        (r#"["RPUSH","l","a","\u0000\n\"\\"]"#, r#"{"result":2}"#),
        (r#"["LRANGE","l",0,-1]"#, r#"{"result":["a","\u0000\n\"\\"]}"#),
        (r#"["HSET","h","f","v","g",""]"#, r#"{"result":2}"#),
        (r#"["HGETALL","h"]"#, r#"{"result":["f","v","g",""]}"#),
        (r#"["ZADD","z",1.5,"m",2,"n"]"#, r#"{"result":2}"#),
        (r#"["ZSCORE","z","m"]"#, r#"{"result":"1.5"}"#),
        (r#"["ZRANGE","z",0,-1,"WITHSCORES"]"#, r#"{"result":["m","1.5","n","2"]}"#),
        (r#"["INCRBYFLOAT","f",0.5]"#, r#"{"result":"1.5"}"#),
        (r#"["LPOP","none",2]"#, r#"{"result":null}"#),
        (r#"["XADD","s","1-1","f","v"]"#, r#"{"result":"1-1"}"#),
        (r#"["XRANGE","s","-","+"]"#, r#"{"result":[["1-1",["f","v"]]]}"#),
        (r#"["TYPE","s"]"#, r#"{"result":"stream"}"#),
        (r#"["CL.THROTTLE","r",1,1,3600]"#, r#"{"result":[0,2,1,-1,3600]}"#),
        (r#"["THROTTLE","fresh",2,1,3600,3]"#, r#"{"result":[0,2,2,0,3600]}"#),
        (r#"["TYPE","r"]"#, r#"{"result":"state"}"#),
        (r#"["PING"]"#, r#"{"result":"PONG"}"#),
        (r#"["ECHO","ü"]"#, r#"{"result":"ü"}"#),
        (
            r#"["LPUSH","k","x"]"#,
            r#"{"error":"WRONGTYPE Operation against a key holding the wrong kind of value"}"#,
        ),
        (r#"["GET"]"#, r#"{"error":"ERR wrong number of arguments for 'get' command"}"#),
        (r#"["EXPIRE","k","soon"]"#, r#"{"error":"ERR value is not an integer or out of range"}"#),
    ]);
}

#[test]
fn a_path_is_one_command_followed_by_the_body_and_the_query() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for (method, target, body, expected) in [
        ("GET", "/set/foo/bar", "", r#"{"result":"OK"}"#),
        ("GET", "/get/foo", "", r#"{"result":"bar"}"#),
        ("GET", "/GET/foo/", "", r#"{"result":"bar"}"#),
        ("POST", "/set/foo?EX=100", "[\"a\"] raw", r#"{"result":"OK"}"#),
        ("GET", "/get/foo", "", r#"{"result":"[\"a\"] raw"}"#),
        ("GET", "/ttl/foo", "", r#"{"result":100}"#),
        ("PUT", "/set/put", "v", r#"{"result":"OK"}"#),
        ("GET", "/set/put/w?NX", "", r#"{"result":null}"#),
        ("GET", "/set/put/w?XX&GET", "", r#"{"result":"v"}"#),
        ("GET", "/get/put", "", r#"{"result":"w"}"#),
        ("GET", "/set/a%2Fb%20c/d+e", "", r#"{"result":"OK"}"#),
        ("POST", "/", r#"["GET","a/b c"]"#, r#"{"result":"d+e"}"#),
        ("GET", "/append/empty//", "", r#"{"result":0}"#),
        ("GET", "/mget/foo//put", "", r#"{"result":["[\"a\"] raw",null,"w"]}"#),
        ("GET", "/lpush/l/a/b", "", r#"{"result":2}"#),
        ("GET", "/lrange/l/0/-1", "", r#"{"result":["b","a"]}"#),
        ("GET", "/publish/ch/hello", "", r#"{"result":0}"#),
        ("POST", "/zadd/z/1", "m", r#"{"result":1}"#),
        ("GET", "/zrange/z/0/-1?WITHSCORES", "", r#"{"result":["m","1"]}"#),
        ("GET", "/dbsize", "", r#"{"result":6}"#),
    ] {
        let response = http.ask(method, target, &[], body.as_bytes());
        assert_eq!((response.status, response.text()), (200, expected), "{method} {target} {body}");
        response.json();
    }
}

#[test]
fn a_body_of_a_path_may_be_any_bytes() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(http.ask("POST", "/set/bytes", &[], &bytes).text(), r#"{"result":"OK"}"#);
    assert_eq!(http.get("/strlen/bytes").text(), r#"{"result":256}"#);
    let response = http.ask("GET", "/get/bytes", &["Upstash-Response-Format: resp2"], b"");
    assert_eq!(response.body, [b"$256\r\n", &bytes[..], b"\r\n"].concat());
    // A byte that is not UTF-8 can be a key, too.
    assert_eq!(http.get("/set/%ff%00/v").text(), r#"{"result":"OK"}"#);
    assert_eq!(http.get("/get/%FF%00").text(), r#"{"result":"v"}"#);
}

#[test]
fn no_content_type_is_needed() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for header in ["application/x-www-form-urlencoded", "text/plain", "application/json", "x", ""] {
        let response = http.ask("POST", "/", &[&format!("Content-Type: {header}")], br#"["PING"]"#);
        assert_eq!(response.text(), r#"{"result":"PONG"}"#, "{header}");
    }
}

#[test]
fn head_is_get_without_a_body() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let head = http.ask("HEAD", "/set/k/v", &[], b"");
    let len = if differs("HEAD") { None } else { Some("15") };
    assert_eq!((head.status, head.header("content-length")), (200, len));
    assert!(head.header("upstash-sync-token").is_some());
    // With a body, the next response would not begin with a status line.
    assert_eq!(http.get("/get/k").text(), r#"{"result":"v"}"#);
    assert_eq!(http.ask("HEAD", "/lpush/k/v", &[], b"").status, 400);
}

#[test]
fn other_methods_are_405_in_json() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for method in ["DELETE", "PATCH", "BREW"] {
        for target in ["/", "/set/k/v", "/pipeline", "/multi-exec", "/subscribe/c"] {
            let response = http.ask(method, target, &[], b"");
            if method == "BREW" && differs("a method that a path does not take") {
                // It is none of HTTP.
                assert_eq!(response.status, 501, "{target}");
                http = Http::connect(&server);
                continue;
            }
            assert_eq!(response.status, 405, "{method} {target}");
            let words = format!("ERR method not allowed: use {}", response.header("allow").unwrap());
            assert_eq!(response.error(), words, "{method} {target}");
        }
    }
    for target in ["/pipeline", "/multi-exec"] {
        let status = if differs("a method that a path does not take") { 400 } else { 405 };
        assert_eq!(http.get(target).status, status, "{target}");
    }
    assert_eq!(http.get("/exists/k").text(), r#"{"result":0}"#, "none of them ran");
}

#[test]
fn what_needs_a_connection_of_its_own_is_not_available() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for command in [
        r#"["BLPOP","l",1]"#,
        r#"["BRPOP","l",1]"#,
        r#"["BRPOPLPUSH","l","m",1]"#,
        r#"["BLMOVE","l","m","LEFT","LEFT",1]"#,
        r#"["BLMPOP",1,1,"l","LEFT"]"#,
        r#"["BZPOPMIN","z",1]"#,
        r#"["BZPOPMAX","z",1]"#,
        r#"["WATCH","k"]"#,
        r#"["UNWATCH"]"#,
        r#"["MULTI"]"#,
        r#"["EXEC"]"#,
        r#"["DISCARD"]"#,
        r#"["SUBSCRIBE","c"]"#,
        r#"["UNSUBSCRIBE"]"#,
        r#"["PSUBSCRIBE","c"]"#,
        r#"["MONITOR"]"#,
        r#"["QUIT"]"#,
        r#"["RESET"]"#,
        r#"["HELLO",3]"#,
        r#"["AUTH","x"]"#,
        r#"["CLIENT","SETNAME","x"]"#,
        r#"["CLIENT","REPLY","OFF"]"#,
        r#"["SELECT",1]"#,
    ] {
        let response = http.post("/", command);
        assert_eq!(response.status, 400, "{command}: {}", response.text());
        response.error();
    }
    let response = http.post("/", r#"["BLPOP","l",0]"#);
    assert_eq!(response.error(), "ERR Command is not available: 'BLPOP'. It needs a connection of its own");
    // The connection and the server are unchanged.
    http.expect(&[(r#"["PING"]"#, r#"{"result":"PONG"}"#), (r#"["SET","k","v"]"#, r#"{"result":"OK"}"#)]);
}

/// Commands do not block over REST.
#[test]
fn a_blocking_read_returns_at_once() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    http.expect(&[
        (r#"["XREAD","BLOCK",0,"STREAMS","s","$"]"#, r#"{"result":null}"#),
        (r#"["XGROUP","CREATE","s","g","$","MKSTREAM"]"#, r#"{"result":"OK"}"#),
        (r#"["XREADGROUP","GROUP","g","c","BLOCK",0,"STREAMS","s",">"]"#, r#"{"result":null}"#),
    ]);
}

/// The first request of a session of an SDK: an empty sync token, and headers about the SDK.
#[test]
fn additional_headers_of_the_sdks_are_accepted() {
    // Where no token is set, any is accepted.
    let server = if differs("no token") { memory(&["--token", "example"]) } else { memory(&[]) };
    let mut http = Http::connect(&server);
    let headers = [
        "Content-Type: application/json",
        "authorization: Bearer example",
        "Upstash-Encoding: base64",
        "Upstash-Telemetry-Sdk: @upstash/redis@1.39.0, @upstash/ratelimit@2.2.0",
        "Upstash-Telemetry-Runtime: node@v20",
        "upstash-sync-token:",
    ];
    let response = http.ask("POST", "/pipeline", &headers, br#"[["set","k","v"],["get","k"]]"#);
    assert_eq!(response.text(), r#"[{"result":"OK"},{"result":"dg=="}]"#);
}
