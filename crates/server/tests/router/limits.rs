//! Rate limits through a router.

use serde_json::json;

use crate::Cluster;

const POLICIES: &str = "[limit.login]\nlimit = 3\nperiodMs = \"1h\"\nfail = \"closed\"\n";

fn start() -> (Cluster, tempfile::TempDir) {
    let dir = crate::common::dir();
    let file = dir.path().join("limits.toml");
    std::fs::write(&file, POLICIES).unwrap();
    let config = file.to_str().unwrap().to_owned();
    (Cluster::with(&["--durability", "memory", "--config", &config], |router| router), dir)
}

#[test]
fn a_key_has_one_limit_whichever_node_it_is_on() {
    let (cluster, _dir) = start();
    let mut http = cluster.http();
    for key in cluster.keys("user") {
        let body = json!({"key": key}).to_string();
        let allowed: Vec<bool> =
            (0..5).map(|_| http.post("/limit/login", &body).json()["allowed"].as_bool().unwrap()).collect();
        assert_eq!(allowed, [true, true, true, false, false], "{key}");
        assert_eq!(http.get(&format!("/limit/login/{key}")).json()["allowed"], false);
        assert_eq!(
            http.ask("DELETE", &format!("/limit/login/{key}"), &[], b"").json(),
            json!({"reset": true})
        );
        assert_eq!(http.post("/limit/login", &body).json()["allowed"], true);
    }
}

#[test]
fn several_keys_are_checked_in_one_slot() {
    let (cluster, _dir) = start();
    let mut http = cluster.http();
    let checked = http.post("/limit/login/check", r#"{"keys":[{"key":"{t}a"},{"key":"{t}b"}]}"#);
    assert_eq!((checked.status, checked.json()["decisions"].as_array().unwrap().len()), (200, 2));
    http.post("/limit/login/check", r#"{"keys":[{"key":"a"},{"key":"b"}]}"#).expect_error(400, "bad_request");
    let body = r#"{"checks":[{"policy":"login","key":"{t}c"}],"then":{"commands":[["SET","{t}done",1]]}}"#;
    assert_eq!(http.post("/limit", body).json()["allowed"], true);
    http.expect(&[(r#"["GET","{t}done"]"#, r#"{"result":"1"}"#)]);
    let body = r#"{"checks":[{"policy":"login","key":"{t}c"}],"then":{"commands":[["SET","other",1]]}}"#;
    http.post("/limit", body).expect_error(400, "bad_request");
    http.post("/limit/login", r#"{"cost":1}"#).expect_error(400, "bad_request");
    http.get("/limit").expect_error(501, "unsupported");
    http.post("/limit/nosuch", r#"{"key":"a"}"#).expect_error(404, "not_found");
}
