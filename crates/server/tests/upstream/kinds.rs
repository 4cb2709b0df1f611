//! Valkey as the upstream, and Redis over TLS.

use keystead_testkit::servers::certificates::{AUTHORITY, OTHER_AUTHORITY};

use crate::client::Http;
use crate::others::{Other, REDIS_TLS, VALKEY};
use crate::{common, start, start_with};

/// A command, a pipeline, a transaction and a script.
fn works(http: &mut Http) {
    http.expect(&[
        (r#"["SET","k",1]"#, r#"{"result":"OK"}"#),
        (r#"["INCR","k"]"#, r#"{"result":2}"#),
        (r#"["EVAL","return redis.call('GET',KEYS[1])",1,"k"]"#, r#"{"result":"2"}"#),
    ]);
    let response = http.post("/pipeline", r#"[["INCR","k"],["LPOP","k"],["GET","k"]]"#);
    let wrong = r#"{"error":"WRONGTYPE Operation against a key holding the wrong kind of value"}"#;
    assert_eq!(response.text(), format!(r#"[{{"result":3}},{wrong},{{"result":"3"}}]"#));
    let response = http.post("/multi-exec", r#"[["INCR","k"],["INCR","k"]]"#);
    assert_eq!(response.text(), r#"[{"result":4},{"result":5}]"#);
}

#[test]
fn valkey_is_an_upstream() {
    let Some(valkey) = VALKEY.start() else { return };
    let (_server, mut http) = start(&valkey.url(), &[]);
    works(&mut http);
}

#[test]
fn an_upstream_over_tls_is_used_if_its_issuer_is_trusted() {
    let Some(redis) = REDIS_TLS.start() else { return };
    let trusting = |redis: &Other, authority: &str| {
        let launch = common::launch(&["--durability", "memory"]);
        start_with(&redis.url(), launch.env("SSL_CERT_FILE", redis.dir().join(authority).to_str().unwrap()))
    };
    let (_server, mut http) = trusting(&redis, AUTHORITY);
    works(&mut http);
    let (_server, mut http) = trusting(&redis, OTHER_AUTHORITY);
    let error = http.post("/", r#"["GET","k"]"#).error();
    assert!(error.contains("issuer of the server's certificate is not trusted"), "{error}");
    assert!(!error.contains(keystead_testkit::servers::redis::PASSWORD), "{error}");
}
