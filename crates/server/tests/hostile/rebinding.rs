//! A web page whose name was made to point at this machine (DNS rebinding), or that sends requests across sites: without a token only
//! requests for this machine are served, on every route.

use keystead_testkit::server::Server;

use crate::common::{self, Client, Response};
use crate::{assert_unharmed, victim};

/// Every kind of route, with a body where one is taken.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/healthz", ""),
    ("GET", "/readyz", ""),
    ("GET", "/metrics", ""),
    ("GET", "/openapi.json", ""),
    ("POST", "/admin/backup", r#"{"dir":"DIR"}"#),
    ("GET", "/kv", ""),
    ("GET", "/kv/k", ""),
    ("PUT", "/kv/k", "1"),
    ("PATCH", "/kv/k", "1"),
    ("DELETE", "/kv/k", ""),
    ("POST", "/kv:batch", r#"{"operations":[{"op":"put","key":"k","value":1}]}"#),
    ("GET", "/limit", ""),
    ("POST", "/limit", r#"{"checks":[]}"#),
    ("GET", "/limit/p", ""),
    ("POST", "/limit/p", r#"{"key":"k"}"#),
    ("DELETE", "/limit/p/k", ""),
    ("POST", "/pipeline", r#"[["SET","k","v"]]"#),
    ("POST", "/multi-exec", r#"[["SET","k","v"]]"#),
    ("POST", "/subscribe/c", ""),
    ("POST", "/psubscribe/c", ""),
    ("POST", "/monitor", ""),
    ("POST", "/", r#"["SET","k","v"]"#),
    ("GET", "/set/k/v", ""),
    ("OPTIONS", "/set/k/v", ""),
    ("BREW", "/metrics", ""),
];

/// Sends a request with these header lines and nothing else beside the body.
fn ask(server: &Server, (method, path, body): (&str, &str, &str), headers: &str) -> Response {
    let dir = server.dir().join("copied");
    let body = body.replace("DIR", dir.to_str().unwrap());
    let mut client = Client::connect(server);
    client.send(&format!(
        "{method} {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    ));
    client.receive(method)
}

/// Nothing was written.
#[track_caller]
fn assert_untouched(server: &Server) {
    let keys = ask(server, ("POST", "/", r#"["DBSIZE"]"#), "Host: localhost\r\n");
    assert_eq!(keys.body, r#"{"result":0}"#);
    assert!(!server.dir().join("copied").exists(), "a copy was written");
    assert_unharmed(server);
}

#[test]
fn a_page_whose_name_points_here_gets_nothing_on_any_route() {
    let server = victim(&[]);
    for agent in ["Mozilla/5.0 (X11; Linux x86_64)", "curl/8.0", ""] {
        for host in ["evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0:8080"]
        {
            for route in ROUTES {
                let response = ask(&server, *route, &format!("Host: {host}\r\nUser-Agent: {agent}\r\n"));
                assert_eq!(response.status, 403, "{route:?} {host} {agent}: {}", response.body);
                assert!(!response.head.contains("access-control-allow-origin"), "{}", response.head);
            }
        }
    }
    assert_untouched(&server);
}

#[test]
fn a_host_that_is_missing_or_doubled_or_in_the_first_line_is_no_way_around() {
    let server = victim(&[]);
    for headers in
        ["", "Host:\r\n", "Host: localhost\r\nHost: evil.example\r\n", "Host: localhost:80@evil\r\n"]
    {
        for route in ROUTES {
            let status = ask(&server, *route, headers).status;
            assert!(matches!(status, 400 | 403), "{route:?} {headers}: {status}");
        }
    }
    for (method, path, body) in ROUTES {
        let absolute = format!("http://evil.example{path}");
        let response = ask(&server, (method, &absolute, body), "Host: localhost\r\n");
        assert_eq!(response.status, 403, "{method} {absolute}");
    }
    assert_untouched(&server);
}

#[test]
fn a_page_of_another_site_gets_nothing_from_metrics_and_makes_no_copy() {
    let server = victim(&[]);
    for header in ["Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        for route in ROUTES.iter().filter(|(_, path, _)| matches!(*path, "/metrics" | "/admin/backup")) {
            let response = ask(&server, *route, &format!("Host: localhost\r\n{header}\r\n"));
            assert_eq!(response.status, 401, "{route:?} {header}");
        }
    }
    assert_untouched(&server);
}

#[test]
fn requests_for_this_machine_are_served() {
    let server = victim(&[]);
    let address = server.http().unwrap().to_string();
    for host in [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "app.localhost:1",
        "127.0.0.1",
        "127.1.2.3:9",
        "[::1]:8080",
        &address,
    ] {
        for path in ["/healthz", "/metrics", "/kv", "/ping"] {
            let response = ask(&server, ("GET", path, ""), &format!("Host: {host}\r\n"));
            assert_eq!(response.status, 200, "{host} {path}: {}", response.body);
        }
    }
}

#[test]
fn the_error_says_what_to_do_and_that_helps() {
    let server = victim(&[]);
    for path in ["/kv/k", "/get/k", "/healthz"] {
        let response = ask(&server, ("GET", path, ""), "Host: keystead:8080\r\n");
        for words in ["'keystead:8080'", "KEYSTEAD_TOKEN=", "--allowed-hosts keystead"] {
            assert!(response.body.contains(words), "{path}: {}", response.body);
        }
    }
    let server = victim(&["--allowed-hosts", "keystead,db.internal"]);
    for (host, status) in
        [("keystead:8080", 200), ("DB.internal", 200), ("localhost", 200), ("evil.example", 403)]
    {
        assert_eq!(ask(&server, ("GET", "/ping", ""), &format!("Host: {host}\r\n")).status, status, "{host}");
    }
    let server = victim(&["--token", "correct-horse-battery-staple"]);
    let headers = "Host: keystead\r\nAuthorization: Bearer correct-horse-battery-staple\r\n";
    assert_eq!(ask(&server, ("GET", "/ping", ""), headers).status, 200);
    assert_eq!(ask(&server, ("GET", "/ping", ""), "Host: keystead\r\n").status, 401);
}

#[test]
fn no_reply_may_be_stored_by_a_cache() {
    let server = victim(&[]);
    for host in ["localhost", "evil.example"] {
        for route in ROUTES {
            let response = ask(&server, *route, &format!("Host: {host}\r\n"));
            assert!(
                response.head.contains("\r\ncache-control: no-store\r\n"),
                "{route:?}: {}",
                response.head
            );
        }
    }
    let locked = victim(&["--token", "correct-horse-battery-staple"]);
    for (path, header) in [
        ("/get/k", ""),
        ("/kv/k", "Authorization: Bearer correct-horse-battery-staple\r\n"),
        ("/get/k", "Authorization: Bearer correct-horse-battery-staple\r\n"),
    ] {
        let response = common::request(&locked, "GET", path, header);
        assert!(response.head.contains("cache-control: no-store"), "{path} {header}");
    }
}
