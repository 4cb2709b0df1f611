//! Random requests of the documents API, half of them nearly valid: never a 5xx, every error in its one form, and all documents
//! can be read afterwards.

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};

use crate::client::Http;
use crate::memory;

const METHODS: &[&str] = &["GET", "GET", "PUT", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "POST"];
const PATHS: &[&str] =
    &["/kv/a", "/kv/a", "/kv/b", "/kv/%ff", "/kv/l", "/kv/", "/kv/a/b", "/kv/%", "/kv", "/kv:batch", "/kv:x"];
const QUERIES: &[&str] = &[
    "ifVersion=1",
    "ifVersion=2",
    "ifVersion=x",
    "ifVersion=",
    "ttl=1h",
    "ttl=0s",
    "ttl=none",
    "ttl=keep",
    "ttl=%ff",
    "expiresAt=1",
    "expiresAt=9999999999999",
    "expiresAt=99999999999999999999",
    "wait=1ms",
    "wait=9h",
    "sinceVersion=1",
    "prefix=a",
    "prefix=%ff",
    "limit=2",
    "limit=0",
    "cursor=0",
    "cursor=256",
    "cursor=18446744073709551615",
    "values=true",
    "values=",
    "nosuch=1",
    "%zz=1",
    "&&",
    "=",
];
const HEADERS: &[&str] = &[
    "If-Match: \"1\"",
    "If-Match: *",
    "If-Match: \"1\", W/\"2\"",
    "If-Match: x",
    "If-Match: \u{fc}",
    "If-None-Match: *",
    "If-None-Match: \"1\"",
    "Content-Type: application/json",
    "Content-Type: application/merge-patch+json",
    "Content-Type: application/json-patch+json",
    "Content-Type: ;",
    "Idempotency-Key: x",
    "Idempotency-Key: y",
    "Idempotency-Key: \u{fc}",
    "Accept: application/x-ndjson",
    "Accept: */*",
    "Last-Event-ID: 1",
];
const BODIES: &[&str] = &[
    "1",
    "{}",
    "[]",
    "null",
    "\"\"",
    "{\"a\":{\"b\":[1,2]}}",
    "{\"a\":null}",
    "",
    "{",
    "nul",
    "1e999",
    "[1,]",
    "\u{feff}1",
    "\"\\ud800\"",
    r#"[{"op":"add","path":"/a","value":1}]"#,
    r#"[{"op":"copy","from":"","path":"/a/b"}]"#,
    r#"[{"op":"remove","path":""}]"#,
    r#"[{"op":"move","from":"/a","path":"/a/b"}]"#,
    r#"[{"op":"replace","path":"/a/99999999999999999999","value":1}]"#,
    r#"[{"op":"test","path":"/a","value":{"b":[1,2]}}]"#,
    r#"[{"op":"add","path":"/a/-","value":[]}]"#,
    r#"{"operations":[{"op":"put","key":"a","value":1,"ifVersion":null}]}"#,
    r#"{"operations":[{"op":"delete","key":"b"},{"op":"get","key":"a"}]}"#,
    r#"{"operations":[{"op":"patch","key":"a","value":{"x":1},"ttl":"1s"},{"op":"get","key":"l"}]}"#,
    r#"{"operations":[{}]}"#,
];

fn pick(rng: &mut Rng, from: &[&'static str]) -> &'static str {
    from[rng.below(from.len() as u64) as usize]
}

fn some(rng: &mut Rng, from: &[&'static str]) -> Vec<&'static str> {
    let count = [0, 0, 1, 1, 2, 3][rng.below(6) as usize];
    (0..count).map(|_| pick(rng, from)).collect()
}

#[test]
fn responses_to_random_requests_are_well_formed() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut rng = Rng::new(seed);
    let server = memory(&["--shards", "4"]);
    let mut http = Http::connect(&server);
    http.post("/", r#"["RPUSH","l","x"]"#);
    let mut seen = [0_u64; 600];
    for _ in 0..8000 {
        let method = pick(&mut rng, METHODS);
        let query = some(&mut rng, QUERIES).join("&");
        let target = format!("{}{}{query}", pick(&mut rng, PATHS), if query.is_empty() { "" } else { "?" });
        let headers = some(&mut rng, HEADERS);
        // A body where none is taken is an error, whatever the rest of the request is.
        let reads = matches!(method, "GET" | "HEAD") && rng.below(10) > 0;
        let body = if reads { "" } else { pick(&mut rng, BODIES) };
        let response = http.ask(method, &target, &headers, body.as_bytes());
        let request = format!("seed {seed}: {method} {target} {headers:?} {body}: {response:?}");
        seen[usize::from(response.status)] += 1;
        assert!(response.status < 500, "{request}");
        if response.status >= 400 && method != "HEAD" && !target.starts_with("/kv:x") {
            let error = response.json()["error"].take();
            assert!(error["code"].is_string() && error["message"].is_string(), "{request}");
            assert_eq!(
                matches!(response.status, 409 | 412) && error["code"] == "conflict",
                error.get("current").is_some(),
                "{request}"
            );
        }
        if matches!(response.status, 200 | 201) && target.starts_with("/kv/") && method != "HEAD" {
            let version = response.json()["version"].as_u64().unwrap_or_else(|| panic!("{request}"));
            assert_eq!(response.header("etag"), Some(&*format!("\"{version}\"")), "{request}");
        }
        if response.closes() || response.status == 413 {
            http = Http::connect(&server);
        }
    }
    let common = [200, 201, 204, 304, 400, 404, 405, 409, 412, 415, 422];
    assert!(
        common.iter().all(|status| seen[*status] > 0),
        "{common:?} {:?}",
        common.map(|status| seen[status])
    );
}
