//! Tokens, the setting itself, passwords, and what the other APIs do.

use serde_json::json;

use crate::client::Http;
use crate::common::{self, dir, only_line, run_in};
use crate::others::REDIS;
use crate::resp::until;
use crate::{direct, open, start};

const READER: &[&str] = &["Authorization: Bearer reader-token-of-the-tests"];
const WRITER: &[&str] = &["Authorization: Bearer writer-token-of-the-tests"];

#[test]
fn a_read_only_token_reads_by_the_table_of_commands() {
    let Some(redis) = REDIS.start() else { return };
    let tokens = ["--token", "writer-token-of-the-tests", "--read-only-token", "reader-token-of-the-tests"];
    let (_server, mut http) = start(&redis.url(), &tokens);
    assert_eq!(http.get("/get/k").status, 401);
    assert_eq!(http.ask("GET", "/set/k/v", WRITER, b"").status, 200);
    assert_eq!(http.ask("GET", "/get/k", READER, b"").json(), json!({"result": "v"}));
    for path in ["/set/k/w", "/scan/0", "/info", "/eval_ro/return%201/0", "/no.such/k", "/config/get/x"] {
        let response = http.ask("GET", path, READER, b"");
        assert_eq!(response.status, 400, "{path}");
        assert!(response.error().starts_with("NOPERM "), "{path}: {response:?}");
    }
    let response = http.ask("POST", "/pipeline", READER, br#"[["DEL","k"],["GET","k"]]"#).json();
    assert!(response[0]["error"].as_str().unwrap().starts_with("NOPERM "), "{response}");
    assert_eq!(response[1], json!({"result": "v"}));
    let response = http.ask("POST", "/multi-exec", READER, br#"[["GET","k"],["DEL","k"]]"#);
    assert!(response.status == 400 && response.error().starts_with("NOPERM "), "{response:?}");
    assert!(http.ask("GET", "/monitor", READER, b"").error().starts_with("NOPERM "));
    assert_eq!(http.ask("GET", "/monitor", WRITER, b"").status, 501);
    assert_eq!(direct(redis.ports()[0]).ask("GET k"), "v");
}

#[test]
fn a_password_is_in_no_error_and_no_output() {
    let Some(redis) = REDIS.start() else { return };
    assert_eq!(direct(redis.ports()[0]).ask("CONFIG SET requirepass open-sesame"), "+OK");
    let with = |password: &str| redis.url().replace("redis://", &format!("redis://:{password}@"));
    let (server, mut http) = start(&with("open-sesame"), &[]);
    http.expect(&[(r#"["SET","k","v"]"#, r#"{"result":"OK"}"#)]);
    let shown = format!("  upstream    redis://127.0.0.1:{} (REST)\n", redis.ports()[0]);
    assert!(server.logs().contains(&shown), "{}", server.logs());
    assert!(!server.logs().contains("sesame"));
    let (server, mut http) = start(&with("wrong-sesame"), &[]);
    let response = http.post("/", r#"["GET","k"]"#);
    assert_eq!(response.status, 503);
    assert!(response.error().contains("rejected the user name or password"), "{response:?}");
    until("it is logged", || server.logs().contains("does not reply"));
    let health = http.get("/healthz");
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("degraded")));
    for text in [response.text(), health.text(), &server.logs()] {
        assert!(!text.contains("sesame"), "{text}");
    }
    let variables = [("KEYSTEAD_UPSTREAM", "redis://:open-sesame@127.0.0.1:1")];
    let (code, shown, _) = run_in(dir().path(), &["config"], &variables);
    let row = shown.lines().find(|line| line.starts_with("upstream ")).unwrap();
    assert!(code == 0 && row.contains("(set)") && !shown.contains("sesame"), "{shown}");
}

#[test]
fn an_invalid_url_is_one_line_that_says_what_to_write() {
    for (url, words) in [
        ("postgres://me:sesame@host", "write redis://HOST:6379, rediss://HOST:6379 or redis+cluster://"),
        ("127.0.0.1:6379", "write redis://HOST:6379"),
        ("redis://:sesame@host:port", "the address is not host:port: write redis://"),
        ("redis://:sesame@a,b", "several addresses are a cluster"),
        ("redis://:sesame@host?atomic=cas", "the parameter 'atomic' is unknown"),
        ("redis+cluster://:sesame@a,b/1", "a cluster has only the database 0"),
        ("redis://host?deadline=1ms", "the deadline is 80 to 60000 milliseconds"),
    ] {
        let ended = run_in(dir().path(), &["serve", "--durability", "memory"], &[("KEYSTEAD_UPSTREAM", url)]);
        let line = only_line(2, &ended);
        assert!(line.contains(words) && !line.contains("sesame"), "{url}: {line}");
    }
}

#[test]
fn the_other_apis_work_as_without_it() {
    let Some((redis, server, mut http)) = open() else { return };
    assert_eq!(http.ask("PUT", "/kv/doc", &[], b"1").status, 201);
    assert_eq!(http.get("/kv/doc").json()["value"], 1);
    let mut own = crate::Client::connect(&server);
    assert_eq!(own.ask("SET mine 1"), "+OK");
    http.expect(&[(r#"["GET","mine"]"#, r#"{"result":null}"#)]);
    assert_eq!(direct(redis.ports()[0]).ask("DBSIZE"), ":0");
    assert_eq!(http.get("/healthz").json()["status"], "ok");
    let metrics = http.get("/metrics");
    for line in ["keystead_upstream_broken{store=\"redis\"} 0", "keystead_upstream_errors_total 0"] {
        assert!(metrics.text().contains(line), "{}", metrics.text());
    }
}

#[test]
fn an_idempotency_key_of_a_write_is_not_implemented() {
    let Some((redis, server, mut http)) = open() else { return };
    let key = &["Idempotency-Key: 1"];
    let response = http.ask("GET", "/incr/n", key, b"");
    assert_eq!(response.status, 501);
    assert!(response.error().starts_with("ERR an Idempotency-Key needs the database"), "{response:?}");
    assert_eq!(http.ask("POST", "/pipeline", key, br#"[["GET","n"],["NO.SUCH"]]"#).status, 501);
    assert_eq!(http.ask("GET", "/get/n", key, b"").json(), json!({"result": null}));
    assert_eq!(http.ask("GET", "/get/n", &["Idempotency-Key:"], b"").status, 400);
    assert_eq!(direct(redis.ports()[0]).ask("EXISTS n"), ":0");
    // A server without an upstream has it.
    let own = common::start(&["--durability", "memory"]);
    assert_eq!(Http::connect(&own).ask("GET", "/incr/n", key, b"").status, 200);
    drop(server);
}
