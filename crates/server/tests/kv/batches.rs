//! `POST /kv:batch`: all or nothing, each operation with its own condition.

use serde_json::{Value, json};

use crate::client::Http;
use crate::{memory, open};

fn batch(http: &mut Http, operations: impl Into<Value>) -> crate::client::Response {
    let operations: Value = operations.into();
    http.post("/kv:batch", &json!({ "operations": operations }).to_string())
}

#[test]
fn operations_run_as_one() {
    let (_server, mut http) = open();
    http.put("/kv/old", "0");
    let response = batch(
        &mut http,
        json!([
            { "op": "put", "key": "a", "value": { "n": 1 }, "ifVersion": null },
            { "op": "patch", "key": "a", "value": { "m": 2 }, "ifVersion": 1 },
            { "op": "get", "key": "a" },
            { "op": "delete", "key": "old", "ifVersion": 1 },
            { "op": "get", "key": "old" },
            { "op": "put", "key": { "base64": "/w==" }, "value": 7, "ttl": "1h" },
        ]),
    );
    assert_eq!(response.status, 200, "{}", response.text());
    let results = response.json()["results"].take();
    assert_eq!(results[0], json!({ "key": "a", "value": { "n": 1 }, "version": 1 }));
    assert_eq!(results[1], json!({ "key": "a", "value": { "n": 1, "m": 2 }, "version": 2 }));
    assert_eq!(results[1], results[2]);
    assert_eq!((&results[3], &results[4]), (&json!({ "key": "old" }), &json!({ "key": "old" })));
    assert_eq!(results[5]["key"], json!({ "base64": "/w==" }));
    assert!(results[5]["expiresAt"].is_u64());
    assert_eq!(http.version("/kv/%FF"), 1);
}

#[test]
fn one_that_fails_undoes_all_others() {
    let (_server, mut http) = open();
    http.put("/kv/a", "1");
    http.post("/", r#"["RPUSH","list","x"]"#);
    let begin = [
        json!({ "op": "put", "key": "a", "value": 2 }),
        json!({ "op": "delete", "key": "a" }),
        json!({ "op": "put", "key": "new", "value": 1 }),
    ];
    for (last, status, code) in [
        (json!({ "op": "put", "key": "b", "value": 1, "ifVersion": 1 }), 409, "conflict"),
        (json!({ "op": "get", "key": "b", "ifVersion": 1 }), 409, "conflict"),
        (json!({ "op": "put", "key": "new", "value": 1, "ifVersion": null }), 409, "conflict"),
        (json!({ "op": "delete", "key": "b" }), 404, "not_found"),
        (json!({ "op": "get", "key": "list" }), 409, "wrong_type"),
        (json!({ "op": "put", "key": "b", "value": 1, "expiresAt": 1 }), 400, "bad_request"),
    ] {
        let mut operations = begin.to_vec();
        operations.push(last.clone());
        let error = batch(&mut http, operations).expect_error(status, code);
        assert_eq!(error["operation"], 3, "{last}");
        http.get("/kv/a").is(200, r#"{"key":"a","value":1,"version":1}"#);
        assert_eq!(http.get("/kv/new").status, 404, "{last}");
    }
}

#[test]
fn an_invalid_batch_is_an_error() {
    let (_server, mut http) = open();
    for bad in [
        json!([]),
        json!([1]),
        json!([{ "op": "put", "key": "a" }]),
        json!([{ "op": "fly", "key": "a" }]),
        json!([{ "op": "put", "value": 1 }]),
        json!([{ "op": "put", "key": "", "value": 1 }]),
        json!([{ "op": "put", "key": 7, "value": 1 }]),
        json!([{ "op": "put", "key": "a", "value": 1, "ifversion": 1 }]),
        json!([{ "op": "put", "key": "a", "value": 1, "ifVersion": "1" }]),
        json!([{ "op": "put", "key": "a", "value": 1, "ttl": "0s" }]),
        json!([{ "op": "put", "key": "a", "value": 1, "ttl": "soon" }]),
        json!([{ "op": "get", "key": "a", "ttl": "1s" }]),
        json!([{ "op": "get", "key": "a", "value": 1 }]),
        json!([{ "op": "put", "key": { "base64": "!" }, "value": 1 }]),
    ] {
        batch(&mut http, bad).expect_error(400, "bad_request");
    }
    for body in ["", "[]", "{}", r#"{"operations":1}"#, r#"{"operations":[],"x":1}"#] {
        http.post("/kv:batch", body).expect_error(400, "bad_request");
    }
    let one = json!({ "op": "put", "key": "a", "value": 1 });
    batch(&mut http, vec![one.clone(); 101]).expect_error(413, "too_large");
    assert_eq!(http.get("/kv/a").status, 404);
    assert_eq!(batch(&mut http, vec![one; 100]).status, 200);
    assert_eq!(http.version("/kv/a"), 100);
}

#[test]
fn the_keys_of_a_batch_must_be_on_one_shard() {
    let server = memory(&["--shards", "16"]);
    let mut http = Http::connect(&server);
    let puts = |tag: &str| {
        (0..20).map(|n| json!({ "op": "put", "key": format!("{tag}:{n}"), "value": n })).collect::<Vec<_>>()
    };
    batch(&mut http, puts("a")).expect_error(400, "bad_request");
    assert_eq!(http.get("/kv").text(), "[]\n");
    assert_eq!(batch(&mut http, puts("{a}")).status, 200);
    assert_eq!(super::lists::listed(&mut http, "/kv?").len(), 20);
}

#[test]
fn transfers_of_many_clients_lose_nothing() {
    let server = memory(&["--shards", "4"]);
    let mut http = Http::connect(&server);
    for account in 0..4 {
        http.put(&format!("/kv/%7Bbank%7D:{account}"), "100");
    }
    let threads: Vec<_> = (0..4)
        .map(|client| {
            let mut http = Http::connect(&server);
            std::thread::spawn(move || {
                let mut done = 0;
                while done < 25 {
                    let (from, to) = ((client + done) % 4, (client + done + 1) % 4);
                    let mut read = |account| {
                        let response = http.get(&format!("/kv/%7Bbank%7D:{account}")).json();
                        (response["value"].as_i64().unwrap(), response["version"].as_u64().unwrap())
                    };
                    let (a, b) = (read(from), read(to));
                    let response = batch(
                        &mut http,
                        json!([
                            { "op": "put", "key": format!("{{bank}}:{from}"), "value": a.0 - 1, "ifVersion": a.1 },
                            { "op": "put", "key": format!("{{bank}}:{to}"), "value": b.0 + 1, "ifVersion": b.1 },
                        ]),
                    );
                    assert!(matches!(response.status, 200 | 409), "{}", response.text());
                    done += usize::from(response.status == 200);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let accounts: Vec<Value> = (0..4).map(|n| http.get(&format!("/kv/%7Bbank%7D:{n}")).json()).collect();
    assert_eq!(accounts.iter().map(|one| one["value"].as_i64().unwrap()).sum::<i64>(), 400);
    assert_eq!(accounts.iter().map(|one| one["version"].as_u64().unwrap()).sum::<u64>(), 4 + 200);
}
