//! Who is let in, what a token that only reads may do, pages of other sites, and the token of read-your-writes.

use std::collections::HashSet;

use keystead_testkit::server::Server;

use crate::client::Http;
use crate::memory;

const STRANGER: &str = "WRONGPASS invalid or missing auth token";

fn locked() -> Server {
    memory(&["--token", "s3cret+/=", "--read-only-token", "look"])
}

#[test]
fn without_the_token_nothing_is_answered_and_nothing_runs() {
    let server = locked();
    // Wrong tokens are answered late, and only a few on one connection.
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
                    let came = Http::connect(server).ask("POST", target, headers, body.as_bytes());
                    assert_eq!((came.status, came.error().as_str()), (401, STRANGER), "{headers:?} {target}");
                }
            });
        }
    });
    let mut http = Http::connect(&server);
    let came = http.ask("GET", "/exists/k", &["authorization: bearer s3cret+/="], b"");
    assert_eq!(came.text(), r#"{"result":0}"#);
}

#[test]
fn a_token_in_the_query_counts_where_no_header_is() {
    let server = locked();
    let mut http = Http::connect(&server);
    let token = "_token=s3cret%2B%2F%3D";
    assert_eq!(http.get(&format!("/set/foo/bar?{token}")).text(), r#"{"result":"OK"}"#);
    assert_eq!(http.get(&format!("/set/foo/baz?EX=9&{token}&GET")).text(), r#"{"result":"bar"}"#);
    assert_eq!(http.post(&format!("/?{token}"), r#"["GET","foo"]"#).text(), r#"{"result":"baz"}"#);
    assert_eq!(http.post(&format!("/pipeline?{token}"), r#"[["PING"]]"#).text(), r#"[{"result":"PONG"}]"#);
    assert_eq!(http.post(&format!("/multi-exec?{token}"), r#"[["PING"]]"#).text(), r#"[{"result":"PONG"}]"#);
    let target = format!("/get/foo?{token}");
    let came = http.ask("GET", &target, &["Authorization: Bearer wrong"], b"");
    assert_eq!((came.status, came.error().as_str()), (401, STRANGER), "a wrong header is not rescued");
    let came = http.ask("GET", "/get/foo?_token=wrong", &["Authorization: Bearer s3cret+/="], b"");
    assert_eq!(came.text(), r#"{"result":"baz"}"#, "the header counts");
    let mut events = Http::connect(&server).events(&format!("/subscribe/c?{token}"), &[]);
    assert_eq!(events.next(), "subscribe,c,1");
}

#[test]
fn a_token_that_only_reads_reads() {
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
        let came = http.ask("POST", "/", &[look], command.as_bytes());
        assert_eq!((came.status, came.error()), (400, words.clone()), "{command}");
        let body = format!(r#"[["GET","k"],{command}]"#);
        let came = http.ask("POST", "/pipeline", &[look], body.as_bytes());
        assert_eq!(came.text(), format!(r#"[{{"result":"v"}},{{"error":"{words}"}}]"#));
        let came = http.ask("POST", "/multi-exec", &[look], body.as_bytes());
        assert_eq!((came.status, came.error()), (400, words), "{command}");
    }
    for target in ["/metrics", "/admin/backup"] {
        let method = if target == "/metrics" { "GET" } else { "POST" };
        assert_eq!(http.ask(method, target, &[look], b"").status, 401, "{target}");
    }
    assert_eq!(http.ask("GET", "/get/k", &[all], b"").text(), r#"{"result":"v"}"#);
}

#[test]
fn no_token_is_ever_logged() {
    let mut server = memory(&["--token", "s3cret", "--log-level", "trace"]);
    let mut http = Http::connect(&server);
    http.get("/get/k?_token=s3cret");
    http.ask("GET", "/get/k", &["Authorization: Bearer s3cret"], b"");
    http.get("/get/k?_token=s3cret%");
    assert!(server.stop().unwrap().success());
    assert!(!server.logs().contains("s3cret"), "{}", server.logs());
}

#[test]
fn a_browser_that_asks_whether_it_may_is_told_so() {
    let server = locked();
    let mut http = Http::connect(&server);
    let asks = [
        "Origin: https://example.com",
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization,upstash-encoding",
    ];
    for target in ["/", "/pipeline", "/set/k/v", "/subscribe/c"] {
        let came = http.ask("OPTIONS", target, &asks, b"");
        assert_eq!(came.status, 204, "{target}");
        assert_eq!(came.header("access-control-allow-origin"), Some("*"));
        assert_eq!(came.header("access-control-allow-headers"), Some("authorization,upstash-encoding"));
        assert!(came.header("access-control-allow-methods").unwrap().contains("POST"));
    }
    let page = ["Origin: https://example.com", "Authorization: Bearer look"];
    let came = http.ask("GET", "/get/k", &page, b"");
    assert_eq!((came.status, came.text()), (200, r#"{"result":null}"#));
    assert_eq!(came.header("access-control-allow-origin"), Some("*"));
    assert!(came.header("access-control-expose-headers").unwrap().contains("upstash-sync-token"));
    let came = http.ask("GET", "/get/k", &["Origin: https://example.com"], b"");
    assert_eq!((came.status, came.header("access-control-allow-origin")), (401, Some("*")));
}

#[test]
fn a_page_of_another_site_is_refused_where_no_token_protects_the_server() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for header in ["Origin: https://example.com", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        for (method, target, body) in [
            ("GET", "/set/k/v", ""),
            ("POST", "/", r#"["SET","k","v"]"#),
            ("POST", "/pipeline", r#"[["SET","k","v"]]"#),
            ("POST", "/multi-exec", r#"[["SET","k","v"]]"#),
            ("GET", "/subscribe/c", ""),
        ] {
            let came = http.ask(method, target, &[header], body.as_bytes());
            assert_eq!(came.status, 401, "{header} {target}");
            assert!(came.error().starts_with("WRONGPASS "), "{header} {target}");
        }
    }
    assert_eq!(http.get("/exists/k").text(), r#"{"result":0}"#);
    let came = http.ask("GET", "/set/k/v", &["Origin: http://localhost:3000"], b"");
    assert_eq!(came.text(), r#"{"result":"OK"}"#);
}

#[test]
fn every_answer_brings_another_sync_token() {
    let server = memory(&["--shards", "2"]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut http = Http::connect(&server);
            std::thread::spawn(move || {
                let mut last = String::new();
                let mut tokens = Vec::new();
                for n in 0..50 {
                    // As the SDKs do, each request brings the one before; the first brings an empty one.
                    let header = format!("upstash-sync-token: {last}");
                    let came = match n % 4 {
                        0 => http.ask("GET", "/set/k/v", &[&header], b""),
                        1 => http.ask("POST", "/pipeline", &[&header], br#"[["PING"]]"#),
                        2 => http.ask("POST", "/multi-exec", &[&header], br#"[["PING"]]"#),
                        _ => http.ask("GET", "/nosuch", &[&header], b""),
                    };
                    last = came.header("upstash-sync-token").unwrap().to_owned();
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
