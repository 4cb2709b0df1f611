//! Tokens of offline clients: one client, one prefix, `/sync` only, until they expire.

use serde_json::{Value, json};

use crate::client::Http;
use crate::common::{dir, launch, run_in};
use crate::set;

const SECRET: &str = "a secret that nobody knows, of more than 32 bytes";
const TOKEN: &str = "s3cret";

fn token(client: &str, prefix: &str, expires: &str) -> String {
    let arguments = ["sync", "token", "--client", client, "--prefix", prefix, "--expires", expires];
    let (code, out, error) = run_in(dir().path(), &arguments, &[("KEYSTEAD_SYNC_SECRET", SECRET)]);
    assert_eq!(code, 0, "{error}");
    out.trim_end().to_owned()
}

fn ask(http: &mut Http, method: &str, target: &str, token: &str, body: &Value) -> (u16, Value) {
    let header = format!("Authorization: Bearer {token}");
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let response = http.ask(method, target, &[&header], text.as_bytes());
    let json = serde_json::from_slice(&response.body).unwrap_or_default();
    (response.status, json)
}

fn push(http: &mut Http, token: &str, client: &str, item: Value) -> (u16, Value) {
    let body = json!({ "client": client, "items": Value::from(vec![item]) });
    let (status, response) = ask(http, "POST", "/sync", token, &body);
    (status, response["results"][0].clone())
}

#[test]
fn a_token_is_for_one_client_one_prefix_and_sync_only() {
    let server = launch(&["--durability", "memory", "--token", TOKEN])
        .env("KEYSTEAD_SYNC_SECRET", SECRET)
        .start()
        .unwrap();
    let mut http = Http::connect(&server);
    let phone = token("phone", "todo:", "1h");
    let (status, result) = push(&mut http, &phone, "phone", set(1, "todo:1", "x", json!(1)));
    assert_eq!((status, &result["status"]), (200, &json!("applied")));
    let (_, result) = push(&mut http, &phone, "phone", set(2, "other:1", "x", json!(1)));
    assert_eq!(result["error"]["code"], "forbidden");
    let (_, result) = push(&mut http, &phone, "laptop", set(9, "todo:1", "x", json!(2)));
    assert_eq!(result["error"]["code"], "unknown_client");
    let (_, result) = push(&mut http, TOKEN, "laptop", set(3, "todo:1", "x", json!(3)));
    assert_eq!(result["status"], "applied", "what was refused for another client has not used its ids");
    push(&mut http, TOKEN, "laptop", set(4, "other:2", "x", json!(1)));
    for query in ["", "?prefix=todo:"] {
        let (_, page) = ask(&mut http, "GET", &format!("/sync{query}"), &phone, &Value::Null);
        let keys: Vec<&Value> =
            page["changes"].as_array().unwrap().iter().map(|change| &change["key"]).collect();
        assert_eq!(keys, ["todo:1"]);
    }
    for target in ["/sync?prefix=", "/sync?prefix=tod", "/sync?prefix=other:"] {
        assert_eq!(ask(&mut http, "GET", target, &phone, &Value::Null).0, 403, "{target}");
    }
    for target in ["/kv/todo:1", "/kv", "/metrics", "/get/todo:1"] {
        assert_eq!(ask(&mut Http::connect(&server), "GET", target, &phone, &Value::Null).0, 401, "{target}");
    }
    let in_query = http.get(&format!("/sync?_token={phone}"));
    assert_eq!(in_query.status, 200);
}

#[test]
fn a_token_that_is_forged_or_has_expired_is_rejected() {
    let server = launch(&["--durability", "memory"]).env("KEYSTEAD_SYNC_SECRET", SECRET).start().unwrap();
    let mut http = Http::connect(&server);
    let short = token("phone", "", "1ms");
    let (status, response) = ask(&mut http, "GET", "/sync", &short, &Value::Null);
    assert_eq!(status, 401);
    assert!(response["error"]["message"].as_str().unwrap().contains("expired"), "{response}");
    let mut forged = token("phone", "", "1h").into_bytes();
    forged[20] ^= 1;
    let forged = String::from_utf8(forged).unwrap();
    assert_eq!(ask(&mut http, "GET", "/sync", &forged, &Value::Null).0, 401, "also where no token is needed");
    assert_eq!(ask(&mut http, "GET", "/sync", &token("phone", "", "1h"), &Value::Null).0, 200);
    let unsigned = launch(&["--durability", "memory"]).start().unwrap();
    let phone = token("phone", "", "1h");
    assert_eq!(ask(&mut Http::connect(&unsigned), "GET", "/sync", &phone, &Value::Null).0, 401);
}

#[test]
fn mistakes_are_one_line_that_says_what_to_do() {
    let home = dir();
    for (arguments, secret, words) in [
        (&["sync", "token", "--client", "a b", "--prefix", ""][..], SECRET, "a client is named with"),
        (&["sync", "token", "--client", "a", "--prefix", ""], "short", "is shorter than 32 bytes"),
        (&["sync", "token", "--client", "a", "--prefix", "", "--expires", "soon"], SECRET, "--expires"),
        (&["sync", "tokens", "--client", "a", "--prefix", ""], SECRET, "unknown action 'tokens'"),
    ] {
        let (code, out, error) = run_in(home.path(), arguments, &[("KEYSTEAD_SYNC_SECRET", secret)]);
        assert_eq!((code, out.as_str(), error.lines().count()), (2, "", 1), "{error}");
        assert!(error.contains(words) && !error.contains(SECRET), "{error}");
    }
    let (code, _, error) = run_in(home.path(), &["sync", "token", "--client", "a", "--prefix", ""], &[]);
    assert_eq!(code, 2);
    assert!(error.contains("KEYSTEAD_SYNC_SECRET"), "{error}");
}
