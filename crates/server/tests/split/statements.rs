//! `POST /statements`: transactions, expectations, values, and what is refused.

use serde_json::{Value, json};

use super::{client::Http, common, requests, storage};
use crate::client::Response;

fn ask(http: &mut Http, body: &Value) -> Response {
    http.post("/statements", &body.to_string())
}

/// The rows of one statement.
fn rows(http: &mut Http, sql: &str, params: &Value) -> Value {
    let response = ask(http, &json!({ "statements": [{ "sql": sql, "params": params }] }));
    let mut body = response.json();
    assert_eq!(response.status, 200, "{sql}: {body}");
    body["results"][0]["rows"].take()
}

const PUT: &str =
    "INSERT INTO keys (id, name, type, version, revision, value) VALUES (?1, ?2, 'string', 1, 1, ?3)";

fn put(id: u32, name: &str) -> Value {
    json!({ "sql": PUT, "params": [id, { "blob": name }, { "blob": "AP8=" }] })
}

fn count(http: &mut Http) -> Value {
    rows(http, "SELECT count(*) FROM keys", &json!([]))[0][0].take()
}

#[test]
fn values_of_every_type_come_back_unchanged() {
    let storage = storage(&[]);
    let mut http = Http::connect(&storage);
    let values = json!([
        null, 0, -1, 9_007_199_254_740_991_i64, { "int": "9007199254740993" }, { "int": "-9223372036854775808" },
        { "real": "0.1" }, { "real": "-0" }, { "real": "inf" }, { "real": "1" }, "", "text \u{e9}\u{0}", { "blob": "" }, { "blob": "AP8=" },
    ]);
    let params: Vec<String> = (1..=values.as_array().unwrap().len()).map(|n| format!("?{n}")).collect();
    assert_eq!(rows(&mut http, &format!("SELECT {}", params.join(", ")), &values), json!([values]));
}

#[test]
fn an_item_is_one_transaction_and_others_stand() {
    let storage = storage(&[]);
    let mut http = Http::connect(&storage);
    let broken = json!({ "sql": "SELECT nonsense" });
    let all = json!({ "pipeline": [
        { "statements": [put(1, "YQ==")] },
        { "statements": [put(2, "Yg=="), broken] },
        { "statements": [put(3, "Yw=="), { "sql": "SELECT id FROM keys ORDER BY id" }] },
        { "statements": [put(4, "YQ==")] },
    ] });
    let response = ask(&mut http, &all);
    let outcomes = &response.json()["pipeline"];
    assert_eq!(outcomes[0]["results"][0]["changes"], 1);
    assert_eq!(outcomes[1]["error"]["code"], "bad_request");
    assert_eq!(outcomes[2]["results"][1]["rows"], json!([[1], [3]]));
    assert_eq!(outcomes[3]["error"]["code"], "bad_request", "the name is taken");
    assert_eq!(count(&mut http), 2);
    let one = ask(&mut http, &json!({ "statements": [put(5, "ZQ=="), broken] }));
    assert_eq!((one.status, &one.json()["error"]["code"]), (400, &json!("bad_request")));
    assert_eq!(count(&mut http), 2);
}

#[test]
fn statements_are_executed_only_if_the_rows_are_as_expected() {
    let storage = storage(&[]);
    let mut http = Http::connect(&storage);
    let expect = |rows: Value| {
        json!({ "sql": "SELECT id FROM keys WHERE name = ?1", "params": [{ "blob": "YQ==" }], "rows": rows,
            "otherwise": [{ "sql": "SELECT count(*) FROM keys" }] })
    };
    let holds = json!({ "sql": "SELECT 1", "rows": [[1]] });
    let done =
        ask(&mut http, &json!({ "expect": [expect(json!([])), holds], "statements": [put(1, "YQ==")] }));
    assert_eq!((done.status, &done.json()["results"][0]["changes"]), (200, &json!(1)));
    let late =
        ask(&mut http, &json!({ "expect": [holds, expect(json!([]))], "statements": [put(2, "Yg==")] }));
    let conflict =
        json!({ "conflict": [null, { "rows": [[1]], "otherwise": [{ "rows": [[1]], "changes": 0 }] }] });
    assert_eq!((late.status, late.json()), (409, conflict));
    assert_eq!(count(&mut http), 1);
    // Nothing to execute: it compares.
    let same = ask(&mut http, &json!({ "expect": [expect(json!([[1]]))], "statements": [] }));
    assert_eq!((same.status, same.json()), (200, json!({ "results": [] })));
}

#[test]
fn statements_reach_rows_of_this_file_only() {
    let storage = storage(&[]);
    let outside = storage.dir().join("outside.sqlite");
    let mut http = Http::connect(&storage);
    ask(&mut http, &json!({ "statements": [put(1, "YQ==")] }));
    for sql in [
        &format!("ATTACH '{}' AS other", outside.display()),
        &format!("VACUUM INTO '{}'", outside.display()),
        "VACUUM",
        "PRAGMA journal_mode = off",
        "PRAGMA synchronous",
        "PRAGMA writable_schema = on",
        "DETACH main",
        "BEGIN",
        "COMMIT",
        "END",
        "ROLLBACK",
        "SAVEPOINT a",
        "RELEASE a",
        "SELECT load_extension('/lib/x.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/x', 'y')",
        "SELECT fts3_tokenizer('x')",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t (a)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE VIRTUAL TABLE t USING fts5(a)",
        "DROP TABLE keys",
        "ALTER TABLE keys RENAME TO other",
        "CREATE INDEX i ON keys (version)",
        "DROP INDEX keys_by_name",
        "REINDEX",
        "ANALYZE",
        "DELETE FROM sqlite_master",
        "UPDATE sqlite_schema SET sql = 'x'",
        "SELECT * FROM pragma_database_list",
        "SELECT 1; DELETE FROM keys",
        "SELECT ?2",
        "",
    ] {
        let response = ask(&mut http, &json!({ "statements": [{ "sql": sql }] }));
        assert!([400, 403].contains(&response.status), "{sql}: {response:?}");
        assert_eq!(count(&mut http), 1, "{sql}");
    }
    assert!(!outside.exists());
    // The statements of FLUSHALL are allowed.
    let flush = json!({ "statements": [
        { "sql": "DROP TRIGGER key_gone_hash" },
        { "sql": "DELETE FROM keys" },
        { "sql": "CREATE TRIGGER key_gone_hash AFTER DELETE ON keys WHEN old.type = 'hash' BEGIN DELETE FROM hash_fields WHERE key_id = old.id; END" },
    ] });
    assert_eq!(ask(&mut http, &flush).status, 200);
    assert_eq!(count(&mut http), 0);
}

#[test]
fn time_and_sizes_are_bounded() {
    let storage = storage(&[]);
    let mut http = Http::connect(&storage);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    for (sql, status, code) in [
        (format!("{endless} SELECT count(*) FROM n"), 408, "timed_out"),
        (format!("{endless} SELECT zeroblob(1000000) FROM n"), 413, "too_large"),
        ("SELECT zeroblob(100000000)".to_owned(), 413, "too_large"),
    ] {
        let response = ask(&mut http, &json!({ "statements": [put(1, "YQ=="), { "sql": sql }] }));
        let body = response.json();
        assert_eq!((response.status, body["error"]["code"].as_str()), (status, Some(code)), "{sql}: {body}");
        assert_eq!(count(&mut http), 0, "{sql}");
    }
    let length = format!("Content-Length: {}", 65 * 1024 * 1024);
    let response = http.ask("POST", "/statements", &[&length], b"");
    assert_eq!(response.status, 413, "{response:?}");
}

#[test]
fn only_the_token_is_let_in() {
    let storage = storage(&["--token", "correct horse battery".replace(' ', "-").as_str()]);
    let mut http = Http::connect(&storage);
    let body = json!({ "statements": [{ "sql": "SELECT 1" }] }).to_string();
    let mut with = |headers: &[&str]| http.ask("POST", "/statements", headers, body.as_bytes()).status;
    assert_eq!(with(&[]), 401);
    assert_eq!(with(&["Authorization: Bearer wrong"]), 401);
    assert_eq!(with(&["Authorization: Bearer correct-horse-battery"]), 200);
    assert_eq!(
        http.ask("POST", "/statements?_token=correct-horse-battery", &[], body.as_bytes()).status,
        401
    );
    assert_eq!((http.get("/healthz").status, http.get("/metrics").status), (200, 401));
}

#[test]
fn other_paths_methods_and_bodies_are_errors_that_say_what_to_do() {
    let storage = storage(&[]);
    let mut http = Http::connect(&storage);
    assert_eq!(http.get("/statements").header("allow"), Some("POST"));
    assert_eq!(http.post("/get/a", "{}").status, 404);
    for body in
        ["", "[]", "{}", r#"{"statements":[1]}"#, r#"{"statements":[{"sql":"SELECT ?1","params":[true]}]}"#]
    {
        let response = http.post("/statements", body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.json()["error"]["message"].as_str().unwrap().contains("send"), "{response:?}");
    }
    assert_eq!(requests(&storage), 0, "none of them has reached the database");
}

#[test]
fn the_directory_is_locked_and_survives_a_stop() {
    let mut storage = storage(&[]);
    let mut http = Http::connect(&storage);
    ask(&mut http, &json!({ "statements": [put(1, "YQ==")] }));
    let (code, _, words) = common::run_in(storage.dir(), &["storage", "rows", "--http", "127.0.0.1:0"], &[]);
    assert!(code == 1 && words.contains("is open in another process"), "{code} {words}");
    drop(http);
    assert!(storage.stop().unwrap().success());
    storage.restart().unwrap();
    assert_eq!(count(&mut Http::connect(&storage)), 1);
}
