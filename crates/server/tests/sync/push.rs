//! Results of mutations, invalid requests, and documents that other APIs change.

use serde_json::{Value, json};

use crate::client::Http;
use crate::common::{dir, start_on};
use crate::resp::Client;
use crate::{memory, now_ms, set};

const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1000;

#[test]
fn each_mutation_has_its_own_result() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        let now = now_ms();
        let items = [
            json!({ "id": 1, "key": "a", "value": { "x": 1, "y": 1 }, "ts": now }),
            json!({ "id": 2, "key": "a", "field": "x", "value": 2, "ts": now + 1 }),
            json!({ "id": 5, "key": "s", "field": "x", "value": 3, "ts": now - 1000 }),
            json!({ "id": 6, "key": "b", "field": "z", "value": [], "ts": now, "ifVersion": 7 }),
            json!({ "id": 7, "key": "c", "value": "x".repeat(300_000), "ts": now }),
            json!({ "id": 8, "key": "d", "field": "ahead", "value": 1, "ts": now + YEAR_MS }),
            json!({ "id": 9, "key": "e", "value": 1, "ts": now - YEAR_MS }),
        ];
        http.sync("c2", &[json!({ "id": 1, "key": "s", "field": "x", "value": 2, "ts": now })]);
        let response = http.sync("c1", &items);
        let results = response["results"].as_array().unwrap();
        let statuses: Vec<&str> = results.iter().map(|result| result["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["applied", "applied", "stale", "conflict", "refused", "applied", "refused"]);
        assert_eq!(response["lastId"], 9);
        assert_eq!(results[1], json!({ "id": 2, "status": "applied", "version": 2, "ts": now + 1 }));
        let winner = json!({ "value": 2, "version": 1, "ts": now, "client": "c2" });
        assert_eq!(results[2]["winner"], winner);
        assert_eq!(results[3]["winner"], json!({ "deleted": true, "version": null }));
        assert_eq!(results[4]["error"]["code"], "too_large");
        let counted = results[5]["ts"].as_u64().unwrap();
        assert!(results[5]["clamped"] == true && (now..now + 60_000).contains(&counted), "{}", results[5]);
        assert_eq!(results[6]["error"]["code"], "too_old");
        let again = http.sync("c1", &items);
        for (again, first) in again["results"].as_array().unwrap().iter().zip(results) {
            let mut first = first.clone();
            first["again"] = json!(true);
            assert_eq!(*again, first, "sent again, it has the same results");
        }
        let metrics = http.get("/metrics");
        for (result, count) in [("applied", 4), ("stale", 1), ("conflict", 1), ("refused", 2), ("again", 7)] {
            let line = format!("keystead_sync_mutations_total{{result=\"{result}\"}} {count}\n");
            assert!(metrics.text().contains(&line), "{line}{}", metrics.text());
        }
        assert_eq!(http.get("/kv/a").text().trim_end(), r#"{"key":"a","value":{"x":2,"y":1},"version":2}"#);
    }
}

#[test]
fn a_clock_far_off_is_reported() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let skew = |http: &mut Http, client_ts: u64| {
        http.push(&json!({ "client": "c", "client_ts": client_ts, "items": [] })).json()["skew_ms"].as_i64()
    };
    assert_eq!(skew(&mut http, now_ms()), None);
    assert!(skew(&mut http, now_ms() + YEAR_MS).unwrap() > YEAR_MS as i64 - 60_000);
    assert!(skew(&mut http, now_ms() - YEAR_MS).unwrap() <= -(YEAR_MS as i64));
}

#[test]
fn invalid_requests_change_nothing() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let many: Vec<Value> = (1..=51).map(|id| set(id, "k", "f", json!(id))).collect();
    let response = http.push(&json!({ "client": "c", "items": many }));
    assert_eq!((response.status, &response.json()["error"]["code"]), (400, &json!("too_many_items")));
    for body in [json!([]), json!({ "client": "", "items": [] }), json!({ "client": "c", "items": [{}] })] {
        assert_eq!(http.push(&body).status, 400, "{body}");
    }
    let code = |http: &mut Http, item: Value| {
        http.sync("c", &[item])["results"][0]["error"]["code"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(code(&mut http, set(9, "keystead:sync:{0}:doc:a", "f", json!(1))), "forbidden");
    assert_eq!(code(&mut http, json!({ "id": 10, "key": "k", "ts": 1 })), "bad_request");
    assert_eq!(code(&mut http, set(10, "k", "f", json!(1))), "id_reused", "its id is settled");
    assert_eq!(code(&mut http, set(3, "k", "f", json!(1))), "id_goes_back");
    let passed = http.sync("c", &[set(3, "k", "f", json!(1))]);
    assert_eq!(passed["results"][0]["error"]["lastId"], 10, "the next id has to be greater");
    assert_eq!(http.get("/kv").text(), "[]\n");
    assert_eq!(http.ask("DELETE", "/sync", &[], b"").status, 405);
}

#[test]
fn other_apis_read_and_write_the_same_documents() {
    let server = memory(&[]);
    let (mut http, mut redis) = (Http::connect(&server), Client::connect(&server));
    assert_eq!(http.status("c", set(1, "k", "x", json!(1))), "applied");
    assert_eq!(http.get("/kv").text(), "[\"k\"]\n", "the records of sync are not listed");
    http.ask("PUT", "/kv/k", &[], br#"{"x":"put"}"#);
    let old = json!({ "id": 2, "key": "k", "field": "x", "value": "old", "ts": now_ms() - 5000 });
    let result = &http.sync("c", &[old])["results"][0];
    assert_eq!((&result["status"], &result["winner"]["value"]), (&json!("stale"), &json!("put")));
    redis.ask("JSON.SET k $.x \"redis\"");
    let version = http.get("/kv/k").json()["version"].clone();
    let seen =
        json!({ "id": 3, "key": "k", "field": "y", "value": 1, "ts": now_ms() - 5000, "seen": version });
    assert_eq!(http.status("c", seen), "applied", "what has seen the write comes after it");
    assert_eq!(http.get("/kv/k").json()["value"], json!({ "x": "redis", "y": 1 }));
    redis.ask("DEL k");
    redis.ask("LPUSH k 1");
    let result = &http.sync("c", &[set(4, "k", "x", json!(1))])["results"][0];
    assert_eq!((&result["status"], &result["error"]["code"]), (&json!("refused"), &json!("wrong_type")));
}

#[test]
fn a_full_memory_is_retried_and_loses_nothing() {
    let home = dir();
    let server = start_on(home.path(), &["--durability", "commit", "--memory", "2mb"]);
    let mut http = Http::connect(&server);
    // Values are evicted, names are not.
    let name = |id: u64| format!("{}{id}", "n".repeat(1000));
    let mut id = 0;
    let rejected = loop {
        id += 1;
        assert!(id < 5000, "the memory is never full");
        let response = http.sync("c", &[set(id, &name(id), "v", json!(1))]);
        if response["results"][0]["status"] != "applied" {
            break response;
        }
    };
    assert_eq!(rejected["results"][0]["status"], "retry");
    assert_eq!(rejected["results"][0]["error"]["code"], "out_of_memory");
    assert_eq!(rejected["lastId"], Value::Null);
    for n in 1..id {
        http.ask("DELETE", &format!("/kv/{}", name(n)), &[], b"");
    }
    assert_eq!(http.status("c", set(id, &name(id), "v", json!(1))), "applied");
}
