//! Tokens, read-only tokens, pages of other sites, and sync tokens.

use std::collections::HashSet;

use crate::client::Http;
use crate::{Server, differs, memory};

const STRANGER: &str = "WRONGPASS invalid or missing auth token";

fn locked() -> Server {
    memory(&["--token", "s3cret+/=", "--read-only-token", "look"])
}

#[test]
fn without_the_token_nothing_runs() {
    let server = locked();
    // Responses to wrong tokens are delayed, and a connection may only send a few.
    std::thread::scope(|scope| {
        for headers in [
            &[][..],
            &["Authorization: Bearer wrong"],
            &["Authorization: Bearer s3cret+/"],
            &["Authorization: Bearer"],
            &["Authorization: Basic s3cret+/="],
            &["Authorization: s3cret+/="],
            &["Authorization:"],
        ] {
            let server = &server;
            scope.spawn(move || {
                for (target, body) in [
                    ("/", r#"["SET","k","v"]"#),
                    ("/set/k/v", ""),
                    ("/set/k/v?_token=wrong", ""),
                    ("/set/k/v?_token", ""),
                    ("/set/k/v?_token=", ""),
                    ("/set/k/v?token=s3cret%2B%2F%3D", ""),
                    ("/pipeline", r#"[["SET","k","v"]]"#),
                    ("/multi-exec", r#"[["SET","k","v"]]"#),
                    ("/subscribe/c", ""),
                    ("/psubscribe/c", ""),
                    ("/nosuch", ""),
                ] {
                    let response = Http::connect(server).ask("POST", target, headers, body.as_bytes());
                    assert_eq!(
                        (response.status, response.error().as_str()),
                        (401, STRANGER),
                        "{headers:?} {target}"
                    );
                }
            });
        }
    });
    let mut http = Http::connect(&server);
    let response = http.ask("GET", "/exists/k", &["authorization: bearer s3cret+/="], b"");
    assert_eq!(response.text(), r#"{"result":0}"#);
}

#[test]
fn a_token_in_the_query_is_used_without_a_header() {
    let server = locked();
    let mut http = Http::connect(&server);
    let token = "_token=s3cret%2B%2F%3D";
    assert_eq!(http.get(&format!("/set/foo/bar?{token}")).text(), r#"{"result":"OK"}"#);
    assert_eq!(http.get(&format!("/set/foo/baz?EX=9&{token}&GET")).text(), r#"{"result":"bar"}"#);
    assert_eq!(http.post(&format!("/?{token}"), r#"["GET","foo"]"#).text(), r#"{"result":"baz"}"#);
    assert_eq!(http.post(&format!("/pipeline?{token}"), r#"[["PING"]]"#).text(), r#"[{"result":"PONG"}]"#);
    assert_eq!(http.post(&format!("/multi-exec?{token}"), r#"[["PING"]]"#).text(), r#"[{"result":"PONG"}]"#);
    let target = format!("/get/foo?{token}");
    let response = http.ask("GET", &target, &["Authorization: Bearer wrong"], b"");
    assert_eq!(
        (response.status, response.error().as_str()),
        (401, STRANGER),
        "a wrong header is not rescued"
    );
    let response = http.ask("GET", "/get/foo?_token=wrong", &["Authorization: Bearer s3cret+/="], b"");
    assert_eq!(response.text(), r#"{"result":"baz"}"#, "the header counts");
    let mut events = Http::connect(&server).events(&format!("/subscribe/c?{token}"), &[]);
    assert_eq!(events.next(), "subscribe,c,1");
}

#[test]
fn a_read_only_token_reads() {
    let server = locked();
    let mut http = Http::connect(&server);
    let all = "Authorization: Bearer s3cret+/=";
    let look = "Authorization: Bearer look";
    assert_eq!(http.ask("GET", "/set/k/v", &[all], b"").status, 200);
    assert_eq!(http.ask("GET", "/get/k", &[look], b"").text(), r#"{"result":"v"}"#);
    for (command, name) in [
        (r#"["SET","k","w"]"#, "set"),
        (r#"["DEL","k"]"#, "del"),
        (r#"["GETDEL","k"]"#, "getdel"),
        (r#"["GETEX","k","EX",1]"#, "getex"),
        (r#"["SORT","k","STORE","x"]"#, "sort"),
        (r#"["PFADD","h","x"]"#, "pfadd"),
        (r#"["THROTTLE","r",2,1,60,0]"#, "throttle"),
        (r#"["CL.THROTTLE","r",2,1,60]"#, "cl.throttle"),
        (r#"["KEYS","*"]"#, "keys"),
        (r#"["SCAN",0]"#, "scan"),
        (r#"["FLUSHALL"]"#, "flushall"),
        (r#"["CONFIG","GET","*"]"#, "config|get"),
        (r#"["PUBLISH","c","x"]"#, "publish"),
    ] {
        let words =
            format!("NOPERM this user has no permissions to run the '{name}' command or its subcommand");
        let response = http.ask("POST", "/", &[look], command.as_bytes());
        assert_eq!((response.status, response.error()), (400, words.clone()), "{command}");
        let body = format!(r#"[["GET","k"],{command}]"#);
        let response = http.ask("POST", "/pipeline", &[look], body.as_bytes());
        assert_eq!(response.text(), format!(r#"[{{"result":"v"}},{{"error":"{words}"}}]"#));
        let response = http.ask("POST", "/multi-exec", &[look], body.as_bytes());
        assert_eq!((response.status, response.error()), (400, words), "{command}");
    }
    for target in ["/metrics", "/admin/backup"] {
        let method = if target == "/metrics" { "GET" } else { "POST" };
        let status = if differs("/metrics, /openapi.json, /admin/*") { 400 } else { 401 };
        assert_eq!(http.ask(method, target, &[look], b"").status, status, "{target}");
    }
    assert_eq!(http.ask("GET", "/get/k", &[all], b"").text(), r#"{"result":"v"}"#);
}

#[test]
fn a_preflight_request_is_allowed() {
    let server = locked();
    let mut http = Http::connect(&server);
    let asks = [
        "Origin: https://example.com",
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization,upstash-encoding",
    ];
    for target in ["/", "/pipeline", "/set/k/v", "/subscribe/c"] {
        let response = http.ask("OPTIONS", target, &asks, b"");
        assert_eq!(response.status, 204, "{target}");
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
        assert_eq!(response.header("access-control-allow-headers"), Some("authorization,upstash-encoding"));
        assert!(response.header("access-control-allow-methods").unwrap().contains("POST"));
    }
    let page = ["Origin: https://example.com", "Authorization: Bearer look"];
    let response = http.ask("GET", "/get/k", &page, b"");
    assert_eq!((response.status, response.text()), (200, r#"{"result":null}"#));
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert!(response.header("access-control-expose-headers").unwrap().contains("upstash-sync-token"));
    let response = http.ask("GET", "/get/k", &["Origin: https://example.com"], b"");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (401, Some("*")));
}

#[test]
fn every_response_has_another_sync_token() {
    let server = memory(&["--shards", "2"]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut http = Http::connect(&server);
            std::thread::spawn(move || {
                let mut last = String::new();
                let mut tokens = Vec::new();
                for n in 0..50 {
                    // As the SDKs do, each request sends the token of the response before; the first sends an empty one.
                    let header = format!("upstash-sync-token: {last}");
                    let response = match n % 4 {
                        0 => http.ask("GET", "/set/k/v", &[&header], b""),
                        1 => http.ask("POST", "/pipeline", &[&header], br#"[["PING"]]"#),
                        2 => http.ask("POST", "/multi-exec", &[&header], br#"[["PING"]]"#),
                        _ => http.ask("GET", "/nosuch", &[&header], b""),
                    };
                    last = response.header("upstash-sync-token").unwrap().to_owned();
                    assert!(!last.is_empty());
                    tokens.push(last.clone());
                }
                tokens
            })
        })
        .collect();
    let tokens: Vec<String> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!((tokens.len(), tokens.iter().collect::<HashSet<_>>().len()), (200, 200));
}
