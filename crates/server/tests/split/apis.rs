//! Documents, rate limits, idempotency and expiry through split mode.

use serde_json::json;

use super::{both, client::Http, common, compute, run, storage};

#[test]
fn documents_have_versions_and_conditions() {
    let storage = storage(&[]);
    let (one, other) = (compute(&storage), compute(&storage));
    let (mut one, mut other) = (Http::connect(&one), Http::connect(&other));
    let json_body = ["Content-Type: application/json"];
    assert_eq!(one.ask("PUT", "/kv/a", &json_body, br#"{"n":1}"#).json()["version"], 1);
    assert_eq!(other.get("/kv/a").json()["value"], json!({ "n": 1 }));
    let put = |http: &mut Http, version: u64, body: &str| {
        http.ask("PUT", &format!("/kv/a?ifVersion={version}"), &json_body, body.as_bytes())
    };
    assert_eq!(put(&mut other, 1, r#"{"n":2}"#).status, 200);
    // It holds the version before, and must not decide by that.
    let late = put(&mut one, 1, r#"{"n":3}"#);
    assert_eq!((late.status, &late.json()["error"]["current"]), (409, &json!(2)));
    assert_eq!(one.get("/kv/a").json()["value"], json!({ "n": 2 }));
    one.ask("PUT", "/kv/b", &json_body, b"1");
    assert_eq!(one.get("/kv").json(), json!(["a", "b"]));
    assert_eq!(other.ask("DELETE", "/kv/a", &[], b"").status, 204);
    assert_eq!(one.get("/kv/a").status, 404);
}

#[test]
fn a_limit_is_shared_by_all_processes() {
    let storage = storage(&[]);
    let dir = common::dir();
    let file = dir.path().join("k.toml");
    std::fs::write(
        &file,
        "[limit.login]\nkind = \"gcra\"\nlimit = 5\nperiodMs = \"1h\"\nfail = \"closed\"\n",
    )
    .unwrap();
    let url = storage.url("");
    let arguments = ["serve", "--storage", &url, "--config", file.to_str().unwrap()];
    let services = [(); 2].map(|()| common::launch(&arguments).start().unwrap());
    let mut https = services.each_ref().map(Http::connect);
    let allowed =
        (0..10).filter(|n| https[n % 2].post("/limit/login", r#"{"key":"ada"}"#).json()["allowed"] == true);
    assert_eq!(allowed.count(), 5);
    assert_eq!(https[0].get("/limit/login/ada").json()["allowed"], false);
    assert_eq!(https[1].ask("DELETE", "/limit/login/ada", &[], b"").json(), json!({ "reset": true }));
    assert_eq!(https[0].post("/limit/login?status=429", r#"{"key":"ada"}"#).json()["allowed"], true);
}

#[test]
fn a_repeated_request_runs_once() {
    let storage = storage(&[]);
    let services = [compute(&storage), compute(&storage)];
    for service in &services {
        let response = Http::connect(service).ask("POST", "/", &["Idempotency-Key: one"], br#"["INCR","n"]"#);
        assert_eq!(response.json(), json!({ "result": 1 }));
    }
    assert_eq!(run(&mut Http::connect(&services[0]), &["GET", "n"]), "1");
}

#[test]
fn a_command_that_is_undone_leaves_nothing_and_the_others_of_a_pipeline_stay() {
    let (_storage, service) = both();
    let mut http = Http::connect(&service);
    // What it counts is not there yet, so all of the script is undone.
    let undone = "redis.call('set', KEYS[1], 'half') return redis.call('dbsize')";
    let pipeline = json!([["SET", "a", "1"], ["EVAL", undone, "1", "b"], ["INCR", "a"], ["GET", "b"]]);
    let replies = http.post("/pipeline", &pipeline.to_string()).json();
    assert!(replies[1]["error"].as_str().unwrap().contains("split mode"), "{replies}");
    let stay = [0, 2, 3].map(|n| replies[n]["result"].clone());
    assert_eq!(stay, [json!("OK"), json!(2), json!(null)], "{replies}");
    // An ordinary error of a script undoes nothing, as on a server.
    let fails = "redis.call('set', KEYS[1], 'half') return redis.call('incr', KEYS[1])";
    let pipeline = json!([["EVAL", fails, "1", "c"], ["GET", "c"], ["EVAL", "x", "0"]]).to_string();
    let plain = common::start(&["--durability", "memory"]);
    let wanted = Http::connect(&plain).post("/pipeline", &pipeline).json();
    assert_eq!(http.post("/pipeline", &pipeline).json(), wanted);
}

#[test]
fn changes_over_the_bound_change_nothing() {
    let (_storage, service) = both();
    let mut http = Http::connect(&service);
    let pipeline = json!([["SET", "a", "1"], ["SETRANGE", "big", "40000000", "x"], ["INCR", "a"]]);
    let replies = http.post("/pipeline", &pipeline.to_string()).json();
    assert!(replies.as_array().unwrap().iter().any(|reply| reply["error"].is_string()), "{replies}");
    assert_eq!(run(&mut http, &["EXISTS", "a", "big"]), 0);
}

#[test]
fn keys_expire_and_values_survive_both_processes() {
    let (mut storage, mut service) = both();
    let mut http = Http::connect(&service);
    run(&mut http, &["SET", "soon", "v", "PX", "1"]);
    run(&mut http, &["SET", "late", "v", "EX", "1000"]);
    for command in [
        &["SET", "odd", "9007199254740993"][..],
        &["ZADD", "z", "-0", "zero", "inf", "inf", "9007199254740993", "large", "1.1", "real"],
        &["XADD", "x", "18446744073709551614-18446744073709551613", "f", ""],
        &["PEXPIREAT", "odd", "9007199254740993123"],
    ] {
        run(&mut http, command);
    }
    let answers = |http: &mut Http| {
        [
            &["ZRANGE", "z", "0", "-1", "WITHSCORES"][..],
            &["XRANGE", "x", "-", "+"],
            &["PEXPIRETIME", "odd"],
            &["INCRBY", "odd", "0"],
        ]
        .map(|command| run(http, command))
    };
    let before = answers(&mut http);
    drop(http);
    service.stop().unwrap();
    storage.stop().unwrap();
    storage.restart().unwrap();
    service.restart().unwrap();
    let mut http = Http::connect(&service);
    assert_eq!(answers(&mut http), before);
    assert_eq!(run(&mut http, &["EXISTS", "soon", "late"]), 1);
}
