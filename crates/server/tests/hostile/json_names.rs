//! Documents with members whose names have a meaning in the server's JSON library: they are stored and read unchanged, through
//! every API that takes JSON.

use keystead_testkit::server::Server;
use tempfile::TempDir;

use crate::client::{Client, request_of};
use crate::common::{self, Response};
use crate::{assert_unharmed, victim};

const NAMES: &[&str] = &["$serde_json::private::Number", "$serde_json::private::RawValue"];

/// Documents with such members at several depths, in the form in which they are stored.
fn documents() -> Vec<String> {
    let mut all = Vec::new();
    for name in NAMES {
        for value in
            [r#""1""#, r#""[1,2]""#, r#""not json""#, r#""""#, "7", "null", "1.10", r#"{"a":1}"#, r#"["x"]"#]
        {
            all.push(format!(r#"{{"{name}":{value}}}"#));
        }
        let inner = format!(r#"{{"{name}":"-1e400"}}"#);
        all.push(format!(r#"{{"a":[{inner},{{"b":{inner}}}]}}"#));
        all.push(format!(r#"{{"{name}":"1","b":{inner}}}"#));
        all.push(format!(r#"{{"b":{inner},"{name}":"1"}}"#));
        all.push(format!(r#"{{"{name}":{inner}}}"#));
    }
    all.push(format!(r#"{{"{}":"{{\"{}\":\"1\"}}"}}"#, NAMES[1], NAMES[0]));
    all
}

/// The same with an escape in the names: another way to write them.
fn escaped(document: &str) -> String {
    document.replace("$serde", r"\u0024serde")
}

fn send(server: &Server, method: &str, target: &str, media: &str, body: &str) -> Response {
    let mut client = common::Client::connect(server);
    client.send(&format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.receive(method)
}

/// What every API reads of the document `k`.
#[track_caller]
fn assert_stored(server: &Server, document: &str, how: &str) {
    let kv = send(server, "GET", "/kv/k", "text/plain", "").body;
    assert!(kv.contains(&format!(r#""value":{document}"#)), "{how}: {kv} instead of {document}");
    let mut client = Client::connect(server);
    client.send_raw(&request_of([&b"JSON.GET"[..], b"k"]));
    assert_eq!(client.receive(), document.escape_default().to_string().replace("\\'", "'"), "{how}");
    client.send_raw(&request_of([&b"DEL"[..], b"k"]));
    assert_eq!(client.receive(), ":1");
}

/// A string of JSON with this text.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[test]
fn documents_over_http_keep_members_of_any_name() {
    let server = victim(&[]);
    for document in documents() {
        for body in [&document, &escaped(&document)] {
            for (method, media, text) in
                [("PUT", "application/json", body.clone()), ("PATCH", "application/json", body.clone())]
            {
                let status = send(&server, method, "/kv/k", media, &text).status;
                assert!(matches!(status, 200 | 201), "{method} {text}: {status}");
                assert_stored(&server, &document, &format!("{method} {media}"));
            }
            let batch = format!(r#"{{"operations":[{{"op":"put","key":"k","value":{body}}}]}}"#);
            assert_eq!(send(&server, "POST", "/kv:batch", "application/json", &batch).status, 200);
            assert_stored(&server, &document, "put of a batch");
            let batch = format!(r#"{{"operations":[{{"op":"patch","key":"k","value":{body}}}]}}"#);
            assert_eq!(send(&server, "POST", "/kv:batch", "application/json", &batch).status, 200);
            assert_stored(&server, &document, "patch of a batch");
        }
    }
    assert_unharmed(&server);
}

#[test]
fn patches_of_every_form_keep_members_of_any_name() {
    let server = victim(&[]);
    for document in documents().iter().filter(|document| !document.contains("null")) {
        let member = format!(r#"{{"m":{document}}}"#);
        for value in [document.clone(), escaped(document)] {
            for (media, patch) in [
                ("application/json", format!(r#"{{"m":{value}}}"#)),
                ("application/merge-patch+json", format!(r#"{{"m":{value}}}"#)),
                (
                    "application/json-patch+json",
                    format!(
                        r#"[{{"op":"add","path":"/m","value":{value}}},{{"op":"test","path":"/m","value":{value}}}]"#
                    ),
                ),
            ] {
                send(&server, "PUT", "/kv/k", "application/json", "{}");
                let response = send(&server, "PATCH", "/kv/k", media, &patch);
                assert_eq!(response.status, 200, "{media}: {}", response.body);
                assert_stored(&server, &member, media);
            }
        }
    }
    assert_unharmed(&server);
}

#[test]
fn commands_keep_members_of_any_name() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    for document in documents() {
        for text in [&document, &escaped(&document)] {
            for command in [&["JSON.SET", "k", "$"][..], &["JSON.MSET", "k", "$"], &["JSON.MERGE", "k", "$"]]
            {
                if command[0] == "JSON.MERGE" && document.contains("null") {
                    continue;
                }
                let words = command.iter().map(|word| word.as_bytes()).chain([text.as_bytes()]);
                client.send_raw(&request_of(words));
                assert_eq!(client.receive(), "+OK", "{command:?} {text}");
                assert_stored(&server, &document, command[0]);
            }
            // Read, changed and written again.
            for command in [&["JSON.SET", "k", "$", "[]"][..], &["JSON.ARRAPPEND", "k", "$", text]] {
                client.send_raw(&request_of(command.iter().map(|word| word.as_bytes())));
                client.receive();
            }
            assert_stored(&server, &format!("[{document}]"), "JSON.ARRAPPEND");
        }
    }
    assert_unharmed(&server);
}

#[test]
fn commands_over_rest_keep_members_of_any_name() {
    let server = victim(&[]);
    for document in documents() {
        for text in [&document, &escaped(&document)] {
            let command = format!(r#"["JSON.SET","k","$",{}]"#, quoted(text));
            assert_eq!(send(&server, "POST", "/", "application/json", &command).status, 200);
            assert_stored(&server, &document, "REST");
            let pipeline = format!("[{command}]");
            for target in ["/pipeline", "/multi-exec"] {
                let response = send(&server, "POST", target, "application/json", &pipeline);
                assert_eq!(response.body, r#"[{"result":"OK"}]"#);
                assert_stored(&server, &document, target);
            }
            assert_eq!(send(&server, "POST", "/json.set/k/$", "text/plain", text).body, r#"{"result":"OK"}"#);
            assert_stored(&server, &document, "REST, in the path");
        }
        // An argument must not be an object, whatever its names are.
        for body in [format!(r#"["SET","k",{document}]"#), document.clone()] {
            assert_eq!(send(&server, "POST", "/", "application/json", &body).status, 400, "{body}");
        }
    }
    assert_unharmed(&server);
}

#[test]
fn operations_with_a_decision_keep_members_of_any_name() {
    let home: TempDir = common::dir();
    let file = home.path().join("k.toml");
    std::fs::write(&file, "[limit.p]\nlimit = 1000000\nperiodMs = \"1h\"\nfail = \"closed\"\n").unwrap();
    let server = victim(&["--config", file.to_str().unwrap()]);
    for document in documents() {
        for value in [&document, &escaped(&document)] {
            for op in ["put", "patch"] {
                let body = format!(
                    r#"{{"checks":[{{"policy":"p","key":"a"}}],"then":{{"operations":[{{"op":"{op}","key":"k","value":{value}}}]}}}}"#
                );
                let response = send(&server, "POST", "/limit", "application/json", &body);
                assert_eq!(response.status, 200, "{}", response.body);
                assert!(response.body.contains(&document), "{}", response.body);
                assert_stored(&server, &document, "what follows a decision");
            }
        }
    }
    // These names have no meaning, so such an object is neither a number nor another object.
    for name in NAMES {
        for body in [
            format!(r#"{{"key":"a","cost":{{"{name}":"1"}}}}"#),
            format!(r#"{{"key":{{"{name}":"\"a\""}}}}"#),
            format!(r#"{{"{name}":"{{\"key\":\"a\"}}"}}"#),
        ] {
            let response = send(&server, "POST", "/limit/p", "application/json", &body);
            assert_eq!(response.status, 400, "{body}: {}", response.body);
        }
        let copied = server.dir().join("copied");
        let body = format!(r#"{{"{name}":{}}}"#, quoted(&format!(r#"{{"dir":"{}"}}"#, copied.display())));
        let response = send(&server, "POST", "/admin/backup", "application/json", &body);
        assert_eq!((response.status, copied.exists()), (400, false), "{}", response.body);
    }
    assert_unharmed(&server);
}
