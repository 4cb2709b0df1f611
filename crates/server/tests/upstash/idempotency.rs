//! `Idempotency-Key`: a repeat gets the first response and changes nothing, another request with that key is an error.

use serde_json::json;

use crate::client::{Http, Response};
use crate::{differs, memory};

pub(crate) const NAME: &str = "Idempotency-Key: n-1";

/// What the worker says where it has several objects.
const OF_ONE_OBJECT: &str = "ERR an Idempotency-Key needs keys of one object: give them the same {tag}, or send the commands one by one";

pub(crate) const USED: &str = "ERR this Idempotency-Key was used for another request";

/// A request: its method, target, headers and body.
pub(crate) type Request<'a> = (&'a str, &'a str, &'a [&'a str], &'a str);

pub(crate) fn ask(http: &mut Http, (method, target, headers, body): Request<'_>) -> Response {
    http.ask(method, target, headers, body.as_bytes())
}

#[track_caller]
pub(crate) fn same(first: &Response, again: &Response) {
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    assert_eq!(first.header("content-type"), again.header("content-type"));
}

#[track_caller]
pub(crate) fn is_error(response: &Response, status: u16, words: &str) {
    assert_eq!((response.status, response.error().as_str()), (status, words));
}

#[test]
fn a_repeat_gets_the_first_response_and_changes_nothing() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let requests: [Request<'_>; 7] = [
            ("POST", "/", &[NAME], r#"["INCR","n"]"#),
            ("GET", "/incr/n", &["Idempotency-Key: path"], ""),
            ("POST", "/pipeline", &["Idempotency-Key: pipe"], r#"[["INCR","n"],["NOSUCH"],["GET","n"]]"#),
            ("POST", "/multi-exec", &["Idempotency-Key: multi"], r#"[["INCR","n"],["GET","n"],["GET","n"]]"#),
            ("POST", "/", &["Idempotency-Key: 64", "Upstash-Encoding: base64"], r#"["SET","n","v","GET"]"#),
            ("POST", "/", &["Idempotency-Key: error"], r#"["INCR","n"]"#),
            (
                "POST",
                "/",
                &["Idempotency-Key: script"],
                r#"["EVAL","return redis.call('append',KEYS[1],'w')",1,"n"]"#,
            ),
        ];
        let expected = [
            (200, r#"{"result":1}"#),
            (200, r#"{"result":2}"#),
            (
                200,
                r#"[{"result":3},{"error":"ERR unknown command 'NOSUCH', with args beginning with: "},{"result":"3"}]"#,
            ),
            (200, r#"[{"result":4},{"result":"4"},{"result":"4"}]"#),
            (200, r#"{"result":"NA=="}"#),
            (400, r#"{"error":"ERR value is not an integer or out of range"}"#),
            (200, r#"{"result":2}"#),
        ];
        let firsts: Vec<Response> =
            requests.iter().map(|request| ask(&mut Http::connect(&server), *request)).collect();
        for (first, expected) in firsts.iter().zip(expected) {
            assert_eq!((first.status, first.text()), expected, "{shards}");
        }
        for _ in 0..4 {
            // On several shards the connections are on the loops of all of them.
            let mut http = Http::connect(&server);
            for (first, request) in firsts.iter().zip(requests) {
                same(first, &ask(&mut http, request));
            }
        }
        assert_eq!(Http::connect(&server).get("/get/n").text(), r#"{"result":"vw"}"#);
    }
}

#[test]
fn another_request_with_that_key_is_an_error() {
    for shards in ["1", "16"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        let first = http.ask("POST", "/", &[NAME], br#"["INCR","n"]"#);
        let others: [Request<'_>; 7] = [
            ("POST", "/", &[NAME], r#"["INCR", "n"]"#),
            ("PUT", "/", &[NAME], r#"["INCR","n"]"#),
            ("POST", "/incr/n", &[NAME], ""),
            ("POST", "/pipeline", &[NAME], r#"[["INCR","n"]]"#),
            ("POST", "/multi-exec", &[NAME], r#"[["INCR","n"]]"#),
            ("POST", "/", &[NAME, "Upstash-Encoding: base64"], r#"["INCR","n"]"#),
            ("POST", "/", &[NAME, "Upstash-Response-Format: json"], r#"["INCR","n"]"#),
        ];
        for request in others {
            is_error(&ask(&mut http, request), 422, USED);
        }
        if shards != "1" && differs("several objects: an Idempotency-Key") {
            let mut fresh = |n: i32| http.ask("POST", &format!("/incr/k{n}"), &[NAME], b"").status == 200;
            let count = (0..40).filter(|n| fresh(*n)).count();
            assert_eq!(count, 11, "one in each other object that has any of the keys");
            continue;
        }
        for n in 0..40 {
            is_error(&http.ask("POST", &format!("/incr/k{n}"), &[NAME], b""), 422, USED);
        }
        let response = http.ask("PUT", "/kv/a", &[NAME], b"1");
        assert_eq!((response.status, &response.json()["error"]["code"]), (422, &json!("unprocessable")));
        same(&first, &http.ask("POST", "/", &[NAME], br#"["INCR","n"]"#));
        // The token is not part of the fingerprint.
        same(&first, &http.ask("POST", "/?_token=any", &[NAME], br#"["INCR","n"]"#));
        let response =
            http.post("/pipeline", r#"[["GET","n"],["EXISTS","a"],["EXISTS","k1"],["EXISTS","k2"]]"#);
        assert_eq!(response.text(), r#"[{"result":"1"},{"result":0},{"result":0},{"result":0}]"#);
    }
}

#[test]
fn an_invalid_key_is_an_error() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let (long, most) = ("x".repeat(256), "x".repeat(255));
    let (long, most) = (format!("Idempotency-Key: {long}"), format!("Idempotency-Key: {most}"));
    for headers in [&["Idempotency-Key:"][..], &[&long], &[NAME, NAME]] {
        if headers.len() == 2 && differs("a header that is sent twice") {
            let request: Request<'_> = ("POST", "/incr/twice", headers, "");
            same(&ask(&mut http, request), &ask(&mut http, request));
            continue;
        }
        for (target, body) in
            [("/incr/n", ""), ("/pipeline", r#"[["INCR","n"]]"#), ("/multi-exec", r#"[["INCR","n"]]"#)]
        {
            let response = http.ask("POST", target, headers, body.as_bytes());
            is_error(&response, 400, "ERR a request has at most one Idempotency-Key, of 1 to 255 bytes");
        }
    }
    assert_eq!(http.ask("POST", "/incr/n", &[&most], b"").text(), r#"{"result":1}"#);
}

#[test]
fn any_bytes_are_repeated() {
    let server = memory(&["--shards", "4"]);
    let mut http = Http::connect(&server);
    http.ask("POST", "/set/k", &[], b"\0\xff\n\r\n{");
    let request: Request<'_> = ("POST", "/", &[NAME, "Upstash-Response-Format: resp2"], r#"["GETDEL","k"]"#);
    let first = ask(&mut http, request);
    assert_eq!((first.status, &*first.body), (200, &b"$6\r\n\0\xff\n\r\n{\r\n"[..]));
    same(&first, &ask(&mut http, request));
    let request: Request<'_> =
        ("POST", "/pipeline", &["Idempotency-Key: p", "Upstash-Response-Format: resp2"], r#"[["INCR","k"]]"#);
    let first = ask(&mut http, request);
    assert_eq!(
        (first.header("content-type"), &*first.body),
        (Some("application/octet-stream"), &b":1\r\n"[..])
    );
    same(&first, &ask(&mut http, request));
}

#[test]
fn the_response_to_a_read_is_not_stored() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        if shards != "1" && differs("several objects: pipelines over several") {
            let body = br#"[["GET","n"],["DBSIZE"]]"#;
            is_error(&http.ask("POST", "/pipeline", &[NAME], body), 400, OF_ONE_OBJECT);
            continue;
        }
        for n in 1..4 {
            assert_eq!(http.get("/incr/n").text(), format!(r#"{{"result":{n}}}"#));
            let requests: [(Request<'_>, String); 5] = [
                (("GET", "/get/n", &[NAME], ""), format!(r#"{{"result":"{n}"}}"#)),
                (
                    ("POST", "/pipeline", &[NAME], r#"[["GET","n"],["PING"],["DBSIZE"],["GET","m"]]"#),
                    format!(r#"[{{"result":"{n}"}},{{"result":"PONG"}},{{"result":1}},{{"result":null}}]"#),
                ),
                (
                    ("POST", "/multi-exec", &[NAME], r#"[["GET","n"],["PING"]]"#),
                    format!(r#"[{{"result":"{n}"}},{{"result":"PONG"}}]"#),
                ),
                (("GET", "/ping", &[NAME], ""), r#"{"result":"PONG"}"#.to_owned()),
                (("GET", "/pfcount/h", &[NAME], ""), r#"{"result":0}"#.to_owned()),
            ];
            for (request, expected) in requests {
                let response = ask(&mut http, request);
                assert_eq!((response.status, response.text()), (200, &*expected), "{shards}");
            }
        }
        assert_eq!(http.get("/dbsize").text(), r#"{"result":1}"#);
    }
}

#[test]
fn commands_that_cannot_be_one_step_with_the_stored_response_are_errors() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        if shards != "1" && differs("several objects: pipelines over several") {
            is_error(&http.ask("POST", "/", &[NAME], br#"["FLUSHALL"]"#), 400, OF_ONE_OBJECT);
            continue;
        }
        if differs("an Idempotency-Key on commands about all keys") {
            let flushed = http.ask("POST", "/", &["Idempotency-Key: flush"], br#"["FLUSHALL"]"#);
            assert_eq!(flushed.text(), r#"{"result":"OK"}"#);
            for command in [r#"["CONFIG","SET","timeout","7"]"#, r#"["SCRIPT","LOAD","return 1"]"#] {
                let all = format!(r#"[["INCR","n"],{command}]"#);
                assert_eq!(http.ask("POST", "/multi-exec", &[NAME], all.as_bytes()).status, 400, "{command}");
            }
            assert_eq!(http.get("/exists/n").text(), r#"{"result":0}"#, "nothing ran");
            continue;
        }
        for (command, name) in [
            (r#"["FLUSHALL"]"#, "FLUSHALL"),
            (r#"["CONFIG","SET","timeout","7"]"#, "CONFIG SET"),
            (r#"["SCRIPT","LOAD","return 1"]"#, "SCRIPT LOAD"),
            (r#"["FUNCTION","FLUSH"]"#, "FUNCTION FLUSH"),
        ] {
            let words = format!(
                "ERR An Idempotency-Key works for commands on keys only: send '{name}' in a request without one"
            );
            let all = format!(r#"[["INCR","n"],{command}]"#);
            for (target, body) in [("/", command), ("/pipeline", &all), ("/multi-exec", &all)] {
                is_error(&http.ask("POST", target, &[NAME], body.as_bytes()), 400, &words);
            }
        }
        for (command, name) in
            [(r#"["PING"]"#, "PING"), (r#"["DBSIZE"]"#, "DBSIZE"), (r#"["SCAN",0]"#, "SCAN")]
        {
            let all = format!(r#"[["INCR","n"],{command}]"#);
            let words = format!(
                "ERR An Idempotency-Key works for commands on keys only: send '{name}' in a request without one"
            );
            for target in ["/pipeline", "/multi-exec"] {
                is_error(&http.ask("POST", target, &[NAME], all.as_bytes()), 400, &words);
            }
        }
        assert_eq!(http.get("/dbsize").text(), r#"{"result":0}"#, "nothing ran, and no name was taken");
    }
}

#[test]
fn keys_on_several_shards_are_an_error() {
    let server = memory(&["--shards", "4"]);
    let mut http = Http::connect(&server);
    let apart: Vec<_> = (0..20).map(|n| json!(["INCR", format!("k{n}")])).collect();
    let apart = json!(apart).to_string();
    let words = match differs("several objects: pipelines over several") {
        true => OF_ONE_OBJECT,
        false => {
            "CROSSSLOT With an Idempotency-Key all commands run in one step: give their keys the same {tag}, or send each with a key of its own"
        }
    };
    is_error(&http.ask("POST", "/pipeline", &[NAME], apart.as_bytes()), 400, words);
    let words = "CROSSSLOT Keys in request don't hash to the same slot";
    is_error(&http.ask("POST", "/multi-exec", &[NAME], apart.as_bytes()), 400, words);
    assert_eq!(http.get("/dbsize").text(), r#"{"result":0}"#, "nothing ran, and no name was taken");
    let together: Vec<_> = (0..20).map(|n| json!(["INCR", format!("{{t}}k{}", n % 10)])).collect();
    let together = json!(together).to_string();
    let first = http.ask("POST", "/pipeline", &[NAME], together.as_bytes());
    assert_eq!(first.json()[19], json!({ "result": 2 }));
    same(&first, &http.ask("POST", "/pipeline", &[NAME], together.as_bytes()));
}

#[test]
fn a_read_only_token_stores_nothing() {
    let server = memory(&["--token", "all", "--read-only-token", "look"]);
    let mut http = Http::connect(&server);
    let (all, look) = ("Authorization: Bearer all", "Authorization: Bearer look");
    let words = "NOPERM this user has no permissions to run the 'incr' command or its subcommand";
    is_error(&http.ask("POST", "/incr/n", &[NAME, look], b""), 400, words);
    let response = http.ask("POST", "/pipeline", &[NAME, look], br#"[["INCR","n"],["GET","n"]]"#);
    assert_eq!(response.json(), json!([{ "error": words }, { "result": null }]));
    is_error(&http.ask("POST", "/multi-exec", &[NAME, look], br#"[["INCR","n"]]"#), 400, words);
    assert_eq!(http.ask("GET", "/dbsize", &[all], b"").text(), r#"{"result":0}"#);
    assert_eq!(http.ask("POST", "/incr/n", &[NAME, all], b"").text(), r#"{"result":1}"#);
    is_error(&http.ask("POST", "/incr/n", &[NAME, look], b""), 400, words);
}

#[test]
fn what_undoes_one_undoes_all_and_may_be_sent_again() {
    let server = memory(&["--token", "t"]);
    let mut http = Http::connect(&server);
    let token = "Authorization: Bearer t";
    let long = "k".repeat(32 * 1024 + 1);
    let body = format!(r#"[["INCR","n"],["SET","{long}",1],["INCR","n"]]"#);
    for target in ["/pipeline", "/multi-exec"] {
        for _ in 0..2 {
            let response = http.ask("POST", target, &[NAME, token], body.as_bytes());
            is_error(&response, 413, "ERR max key size exceeded. Limit: 32768 bytes, Actual: 32769 bytes");
        }
    }
    assert_eq!(http.ask("GET", "/dbsize", &[token], b"").text(), r#"{"result":0}"#);
}

#[test]
fn what_is_undone_releases_its_key() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        let long = "k".repeat(32 * 1024);
        let bad = format!(r#"[["INCR","{{k}}n"],["SET","{{k}}{long}",1]]"#);
        for n in 0..8 {
            let name = [&*format!("Idempotency-Key: {n}")];
            assert_eq!(http.ask("POST", "/multi-exec", &name, bad.as_bytes()).status, 413);
            let response = http.ask("POST", "/multi-exec", &name, br#"[["INCR","{k}n"]]"#);
            assert_eq!(response.text(), format!(r#"[{{"result":{}}}]"#, n + 1), "{shards} shards");
            is_error(
                &http.ask("POST", "/multi-exec", &name, bad.as_bytes()),
                422,
                "ERR this Idempotency-Key was used for another request",
            );
        }
    }
}

#[test]
fn a_response_that_is_too_large_to_be_stored_undoes_the_request() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        let is_small = differs("size of one key's string or document, or of one element");
        let (size, times) = if is_small { (1024 * 1024, 17) } else { (9 * 1024 * 1024, 2) };
        http.ask("POST", "/set/{k}", &[], &vec![b'x'; size]);
        let body = format!(r#"[["INCR","{{k}}n"]{}]"#, r#",["GET","{k}"]"#.repeat(times));
        let body = body.as_bytes();
        let response = http.ask("POST", "/pipeline", &[NAME], body);
        let words = "ERR max response size exceeded. Limit: 16777216 bytes. Request less data at a time. Nothing was changed";
        is_error(&response, 413, words);
        is_error(&http.ask("POST", "/multi-exec", &["Idempotency-Key: m"], body), 413, words);
        if is_small {
            assert_eq!(http.get("/exists/{k}/{k}n").text(), r#"{"result":1}"#, "{shards}");
            continue;
        }
        // A line break is two bytes in JSON.
        http.ask("POST", "/set/{k}", &[], &vec![b'\n'; 9 * 1024 * 1024]);
        let response = http.ask("POST", "/getdel/{k}", &["Idempotency-Key: g"], b"");
        let words = "ERR the response is over 16777216 bytes, too large to be stored for the Idempotency-Key: nothing was changed";
        is_error(&response, 413, words);
        assert_eq!(http.get("/exists/{k}/{k}n").text(), r#"{"result":1}"#, "{shards}");
        http.ask("POST", "/set/{k}", &[], &vec![b'x'; 9 * 1024 * 1024]);
        let first = http.ask("POST", "/getdel/{k}", &["Idempotency-Key: fits"], b"");
        assert_eq!(first.body.len(), 9 * 1024 * 1024 + r#"{"result":""}"#.len());
        same(&first, &http.ask("POST", "/getdel/{k}", &["Idempotency-Key: fits"], b""));
    }
}

#[test]
fn of_many_repeats_at_once_one_runs() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        for (n, target) in ["/", "/pipeline", "/multi-exec"].into_iter().enumerate() {
            let body = if n == 0 { r#"["INCR","n"]"# } else { r#"[["INCR","n"]]"# };
            let threads: Vec<_> = (0..100)
                .map(|_| {
                    let mut http = Http::connect(&server);
                    std::thread::spawn(move || {
                        http.ask("POST", target, &[&format!("Idempotency-Key: {n}")], body.as_bytes())
                    })
                })
                .collect();
            let responses: Vec<Response> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            responses.iter().for_each(|response| same(&responses[0], response));
            let expected = format!(r#"{{"result":"{}"}}"#, n + 1);
            assert_eq!(Http::connect(&server).get("/get/n").text(), expected, "{target} on {shards}");
        }
    }
}

#[test]
fn a_message_is_sent_once() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut events = Http::connect(&server).events("/subscribe/c", &[]);
        assert_eq!(events.next(), "subscribe,c,1");
        for _ in 0..8 {
            let mut http = Http::connect(&server);
            let response = http.ask("POST", "/publish/c/named", &[NAME], b"");
            assert_eq!(response.text(), r#"{"result":1}"#);
        }
        Http::connect(&server).get("/publish/c/last");
        assert_eq!((events.next(), events.next()), ("message,c,named".into(), "message,c,last".into()));
    }
}
