//! Commands in the body and in the path, pipelines, transactions and encodings.

use serde_json::json;

use crate::{direct, open};

#[test]
fn commands_run_on_the_upstream_and_have_its_replies() {
    let Some((redis, server, mut http)) = open() else { return };
    http.expect(&[
        (r#"["SET","k","v"]"#, r#"{"result":"OK"}"#),
        (r#"["get","k"]"#, r#"{"result":"v"}"#),
        (r#"["GET","none"]"#, r#"{"result":null}"#),
        (r#"["INCRBY","n",9223372036854775807]"#, r#"{"result":9223372036854775807}"#),
        (r#"["HSET","h","a",1,"b",true]"#, r#"{"result":2}"#),
        (r#"["HGETALL","h"]"#, r#"{"result":["a","1","b","true"]}"#),
        (r#"["ZADD","z",1.5,"m"]"#, r#"{"result":1}"#),
        (r#"["ZSCORE","z","m"]"#, r#"{"result":"1.5"}"#),
        (r#"["TYPE","z"]"#, r#"{"result":"zset"}"#),
        (
            r#"["LPUSH","k","x"]"#,
            r#"{"error":"WRONGTYPE Operation against a key holding the wrong kind of value"}"#,
        ),
        (r#"["GET"]"#, r#"{"error":"ERR wrong number of arguments for 'get' command"}"#),
        (
            r#"["NO.SUCH","k"]"#,
            r#"{"error":"ERR unknown command 'NO.SUCH', with args beginning with: 'k' "}"#,
        ),
        (r#"["XREAD","BLOCK",0,"STREAMS","s","$"]"#, r#"{"result":null}"#),
        (
            r#"["BLPOP","l",0]"#,
            r#"{"error":"ERR Command is not available: 'BLPOP'. It needs a connection of its own"}"#,
        ),
        (
            r#"["EVAL","return {1,{'a',redis.error_reply('MY words')},redis.status_reply('OK')}",0]"#,
            r#"{"result":[1,["a","MY words"],"OK"]}"#,
        ),
    ]);
    assert_eq!(http.get("/set/path/a%2Fb?EX=100").text(), r#"{"result":"OK"}"#);
    assert_eq!(http.ask("PUT", "/append/path", &[], b"c d").text(), r#"{"result":6}"#);
    let mut redis = direct(redis.ports()[0]);
    assert_eq!(redis.ask("GET path"), "a/bc d");
    assert_eq!(redis.ask("TTL path"), ":100");
    // The database of the server itself has none of it.
    assert_eq!(crate::Client::connect(&server).ask("DBSIZE"), ":0");
}

#[test]
fn a_pipeline_keeps_its_order_and_errors_are_alone() {
    let Some((_redis, _server, mut http)) = open() else { return };
    let body = r#"[["SET","a",1],["INCR","a"],["LPOP","a"],[],["SELECT",1],["GET","a"]]"#;
    let response = http.post("/pipeline", body);
    assert_eq!(response.status, 200);
    assert_eq!(
        response.json(),
        json!([
            {"result": "OK"},
            {"result": 2},
            {"error": "WRONGTYPE Operation against a key holding the wrong kind of value"},
            {"error": "ERR empty pipeline command"},
            {"error": "ERR Command is not available: 'SELECT'. It needs a connection of its own"},
            {"result": "2"},
        ])
    );
    let many: Vec<_> = (0..5_000).map(|n| json!(["RPUSH", "list", n])).collect();
    let counts: Vec<_> = (1..=5_000).map(|n| json!({"result": n})).collect();
    assert_eq!(http.post("/pipeline", &json!(many).to_string()).json(), json!(counts));
    let all = http.post("/", r#"["LRANGE","list",0,-1]"#).json();
    assert_eq!(all["result"], json!((0..5_000).map(|n| n.to_string()).collect::<Vec<_>>()));
}

#[test]
fn a_transaction_is_atomic_or_one_error() {
    let Some((redis, server, mut http)) = open() else { return };
    let response = http.post("/multi-exec", r#"[["SET","a",1],["INCR","a"],["LPOP","a"],["GET","a"]]"#);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let expected = json!([{"result": "OK"}, {"result": 2}, {"error": wrong}, {"result": "2"}]);
    assert_eq!((response.status, response.json()), (200, expected));
    for (body, words) in [
        (r#"[["SET","a","x"],["INCR"]]"#, "ERR wrong number of arguments for 'incr' command"),
        (r#"[["SET","a","x"],["NOSUCH"]]"#, "ERR unknown command 'NOSUCH', with args beginning with: "),
        (r#"[["SET","a","x"],["BLPOP","l",0]]"#, "ERR Command is not available: 'BLPOP'"),
        (r#"[["SET","a","x"],["MULTI"]]"#, "ERR Command is not available: 'MULTI'"),
        ("[]", "ERR empty pipeline request"),
    ] {
        let response = http.post("/multi-exec", body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.error().starts_with(words), "{response:?}");
    }
    http.expect(&[(r#"["GET","a"]"#, r#"{"result":"2"}"#)]);
    // Many at a time: the two counters of a transaction are always equal.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut http = crate::Http::connect(&server);
                for _ in 0..50 {
                    let both = http.post("/multi-exec", r#"[["INCR","x"],["INCR","y"]]"#).json();
                    assert_eq!(both[0], both[1]);
                }
            });
        }
    });
    assert_eq!(direct(redis.ports()[0]).ask("MGET x y"), "[400 400]");
}

/// If the commands were sent together with MULTI, they would run one by one.
#[test]
fn without_the_right_to_multi_nothing_runs() {
    let Some(redis) = crate::REDIS.start() else { return };
    let mut admin = direct(redis.ports()[0]);
    assert_eq!(admin.ask("ACL SETUSER app on >pass ~* &* +@all -multi"), "+OK");
    let url = redis.url().replace("redis://", "redis://app:pass@");
    let (_server, mut http) = crate::start(&url, &[]);
    let response = http.post("/multi-exec", r#"[["SET","a",1],["SET","b",1]]"#);
    assert_eq!(response.status, 400);
    assert!(response.error().starts_with("NOPERM "), "{response:?}");
    assert_eq!(admin.ask("DBSIZE"), ":0");
    http.expect(&[(r#"["SET","a",1]"#, r#"{"result":"OK"}"#)]);
}

#[test]
fn bytes_survive_in_base64_and_in_resp2() {
    let Some((_redis, _server, mut http)) = open() else { return };
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(http.ask("POST", "/set/bytes", &[], &bytes).text(), r#"{"result":"OK"}"#);
    let base64 = &["Upstash-Encoding: base64"];
    let encoded = data_encoding::BASE64.encode(&bytes);
    let response = http.ask("GET", "/get/bytes", base64, b"");
    assert_eq!(response.json(), json!({"result": encoded}));
    let body = br#"[["SET","k","v"],["MGET","bytes","k","none"],["PING"],["LPOP","k"]]"#;
    let response = http.ask("POST", "/pipeline", base64, body);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(
        response.json(),
        json!([{"result": "OK"}, {"result": [encoded, "dg==", null]}, {"result": "UE9ORw=="}, {"error": wrong}])
    );
    let response = http.ask("GET", "/get/bytes", &["Upstash-Response-Format: resp2"], b"");
    assert_eq!(response.header("content-type"), Some("application/octet-stream"));
    assert_eq!(response.body, [&b"$256\r\n"[..], &bytes, b"\r\n"].concat());
}

#[test]
fn scripts_with_the_flag_of_upstash_run() {
    let Some((_redis, _server, mut http)) = open() else { return };
    let script = "#!lua flags=allow-key-locking\nreturn redis.call('INCR', KEYS[1])";
    let digest = "5c6e36d70d4ec2144321a8f9c663f6c612440510";
    let missing = http.post("/", &json!(["EVALSHA", digest, 1, "n"]).to_string());
    assert!(missing.error().starts_with("NOSCRIPT "), "{missing:?}");
    for n in 1..=3 {
        assert_eq!(http.post("/", &json!(["EVAL", script, 1, "n"]).to_string()).json(), json!({"result": n}));
    }
    // A client names the script by the digest of its own text.
    assert_eq!(http.post("/", &json!(["EVALSHA", digest, 1, "n"]).to_string()).json(), json!({"result": 4}));
    // The digest that the upstream returns is of what it was sent.
    let loaded = http.post("/", &json!(["SCRIPT", "LOAD", script]).to_string()).json();
    let loaded = loaded["result"].as_str().unwrap();
    assert_eq!(http.post("/", &json!(["EVALSHA", loaded, 1, "n"]).to_string()).json(), json!({"result": 5}));
}
