//! Rows of the table of differences that no test of the server meets.

use serde_json::{Map, json};

use crate::client::Http;
use crate::server::opened;
use crate::{Fixture, differs, memory};

#[test]
fn redis_over_tcp_is_no_http() {
    assert!(differs("Redis over TCP"));
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    http.send_raw(b"*1\r\n$4\r\nPING\r\n\r\n");
    assert!(http.try_receive("POST").unwrap().status >= 400);
    let response = Http::connect(&server).get("/ping");
    assert_eq!(response.text(), r#"{"result":"PONG"}"#);
}

#[test]
fn scripts_and_functions_are_loaded_again_after_an_eviction() {
    assert!(differs("scripts and functions after an eviction"));
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let digest = http.post("/", r#"["SCRIPT","LOAD","return 'loaded'"]"#).json()["result"].clone();
    let library = json!([
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function() return 'found' end)"
    ]);
    let (script, function) = (json!(["EVALSHA", digest, 0]).to_string(), r#"["FCALL","f",0]"#);
    assert_eq!(http.post("/", &library.to_string()).text(), r#"{"result":"lib"}"#);
    http.expect(&[(&script, r#"{"result":"loaded"}"#), (function, r#"{"result":"found"}"#)]);
    http.expect(&[(r#"["SET","k","v"]"#, r#"{"result":"OK"}"#)]);
    server.evict();
    let mut http = Http::connect(&server);
    http.expect(&[
        (&script, r#"{"error":"NOSCRIPT No matching script. Please use EVAL."}"#),
        (function, r#"{"error":"ERR Function not found"}"#),
        (r#"["GET","k"]"#, r#"{"result":"v"}"#),
    ]);
    assert_eq!(http.post("/", &library.to_string()).text(), r#"{"result":"lib"}"#);
    http.expect(&[(function, r#"{"result":"found"}"#)]);
}

#[test]
fn dots_of_a_path_are_resolved_by_the_platform() {
    assert!(differs("the path of a URL"));
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for target in ["/set/x/../k/v", "/set/x/%2e%2e/k/v", "/set/./k/v"] {
        assert_eq!(http.get(target).text(), r#"{"result":"OK"}"#, "{target}");
        http.expect(&[(r#"["GETDEL","k"]"#, r#"{"result":"v"}"#)]);
    }
    http.expect(&[
        (r#"["SET","..","."]"#, r#"{"result":"OK"}"#),
        (r#"["GET",".."]"#, r#"{"result":"."}"#),
        (r#"["DBSIZE"]"#, r#"{"result":1}"#),
    ]);
}

#[test]
fn without_a_token_nothing_is_served() {
    assert!(differs("no token"));
    let bindings = [("KEYSTEAD_TOKEN".to_owned(), json!(""))].into_iter().collect::<Map<_, _>>();
    let server = opened(bindings);
    let response = Http::connect(&server).get("/ping");
    assert_eq!(response.status, 500);
    assert!(response.error().contains("the secret KEYSTEAD_TOKEN is not set"), "{response:?}");
}

#[test]
fn a_list_of_policies_has_their_names() {
    assert!(differs("GET /limit, GET /limit/NAME"));
    let (_fixture, mut http) = Fixture::open(&[]);
    let names = json!({ "policies": ["aside", "flow", "jobs", "login", "memory", "window"] });
    assert_eq!(http.get("/limit").json(), names);
    http.get("/limit/login").is_error(400, "bad_request", "the path is");
}

#[test]
fn there_are_no_metrics() {
    assert!(differs("/metrics, /openapi.json, /admin/*"));
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for target in ["/metrics", "/openapi.json", "/admin/backup"] {
        let response = http.get(target);
        assert_eq!(response.status, 400, "{target}");
        assert!(response.error().starts_with("ERR unknown command '"), "{target}: {response:?}");
    }
}
