//! Arguments, tokens, and what split mode does not serve.

use serde_json::json;

use super::{client::Http, common, compute, counter, run, storage};

#[test]
fn settings_without_effect_and_invalid_urls_are_errors_at_start() {
    let dir = common::dir();
    let url = "http://127.0.0.1:1";
    for (arguments, words) in [
        (&["serve", "--storage", url, "--data", "x"][..], "--data has no effect with --storage"),
        (&["serve", "--storage", url, "--resp", "127.0.0.1:0"], "--resp has no effect with --storage"),
        (&["serve", "--storage", url, "--durability", "commit"], "--durability has no effect"),
        (&["serve", "--storage", url, "--http", "off"], "--http is off"),
        (&["serve", "--storage", "redis://h"], "write http://HOST:PORT or https://HOST"),
        (&["serve", "--storage", "http://u:secret@h"], "--storage-token"),
        (&["storage"], "DIR is missing"),
        (&["storage", "d", "--shards", "2"], "--shards has no effect on keystead storage"),
        (&["storage", "d", "--http", "0.0.0.0:0"], "no token is set"),
    ] {
        let (code, _, said) = common::run_in(dir.path(), arguments, &[]);
        assert!(
            code == 2 && said.contains(words) && !said.contains("secret"),
            "{arguments:?}: {code} {said}"
        );
        // Beside warnings of the log.
        let errors = said.lines().filter(|line| line.starts_with("keystead: ")).count();
        assert_eq!(errors, 1, "{said}");
    }
    std::fs::create_dir(dir.path().join("server")).unwrap();
    std::fs::write(dir.path().join("server/database.json"), "{}").unwrap();
    let (code, _, said) = common::run_in(dir.path(), &["storage", "server", "--http", "127.0.0.1:0"], &[]);
    assert!(code == 2 && said.contains("is the database of a server"), "{code} {said}");
    let (code, help, _) = common::run_in(dir.path(), &["storage", "--help"], &[]);
    assert!(code == 0 && help.contains("keystead serve --storage http://127.0.0.1:8090"), "{help}");
}

#[test]
fn policies_on_other_stores_and_sinks_are_errors_at_start() {
    let dir = common::dir();
    let limit = "[limit.a]\nlimit = 2\nperiodMs = \"60s\"\nfail = \"closed\"\nstore = \"memory\"\n";
    std::fs::write(dir.path().join("k.toml"), limit).unwrap();
    let arguments =
        ["serve", "--storage", "http://127.0.0.1:1", "--http", "127.0.0.1:0", "--config", "k.toml"];
    let (code, _, said) = common::run_in(dir.path(), &arguments, &[]);
    assert!(code == 2 && said.contains("k.toml:1: limit.a: store: 'memory' has no effect"), "{code} {said}");
}

#[test]
fn a_wrong_storage_token_is_an_error_that_says_so() {
    let storage = storage(&["--token", "the-token-of-storage"]);
    let service = compute(&storage);
    let response = Http::connect(&service).post("/", r#"["SET","a","1"]"#);
    assert_eq!(response.status, 503);
    assert!(response.error().contains("--storage-token"), "{response:?}");
    let url = storage.url("");
    let launch =
        common::launch(&["serve", "--storage", &url]).env("KEYSTEAD_STORAGE_TOKEN", "the-token-of-storage");
    let service = launch.start().unwrap();
    assert_eq!(run(&mut Http::connect(&service), &["SET", "a", "1"]), "OK");
    assert!(!service.logs().contains("the-token-of-storage"));
}

#[test]
fn the_token_of_clients_is_checked_before_anything_is_fetched() {
    let storage = storage(&[]);
    let arguments = [
        "serve",
        "--storage",
        &storage.url(""),
        "--token",
        "the-token-of-clients",
        "--read-only-token",
        "look",
    ];
    let service = common::launch(&arguments).start().unwrap();
    let mut http = Http::connect(&service);
    let mut with = |token: &str, body: &str| {
        http.ask("POST", "/", &[&format!("Authorization: Bearer {token}")], body.as_bytes()).status
    };
    assert_eq!(with("wrong", r#"["GET","a"]"#), 401);
    assert_eq!(with("look", r#"["GET","a"]"#), 200);
    assert_eq!(with("look", r#"["SET","a","1"]"#), 400);
    assert_eq!(with("the-token-of-clients", r#"["SET","a","1"]"#), 200);
}

#[test]
fn what_is_not_served_says_so() {
    let storage = storage(&[]);
    let service = compute(&storage);
    let mut http = Http::connect(&service);
    for (method, target, body) in [
        ("POST", "/subscribe/a", ""),
        ("POST", "/monitor", ""),
        ("POST", "/kv:batch", "{}"),
        ("GET", "/kv/a?wait=1s", ""),
        ("POST", "/limit", "{}"),
        ("POST", "/sync", "{}"),
        ("GET", "/sinks", ""),
        ("GET", "/openapi.json", ""),
        ("POST", "/admin/backup", "{}"),
    ] {
        let response = http.ask(method, target, &[], body.as_bytes());
        assert_eq!(response.status, 501, "{method} {target}: {response:?}");
    }
    let counts = json!([["SET", "a", "1"], ["DBSIZE"]]).to_string();
    let response = http.post("/multi-exec", &counts);
    assert_eq!(response.status, 501, "{response:?}");
    assert_eq!(run(&mut http, &["EXISTS", "a"]), 0, "nothing was changed");
    // On its own, each is served.
    assert_eq!(http.post("/pipeline", &counts).json(), json!([{ "result": "OK" }, { "result": 1 }]));
    assert!(counter(&service, "keystead_compute_storage_calls_total") > 0);
}
