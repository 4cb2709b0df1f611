//! Attempts to do more with the read-only token than to read known keys.

use keystead_testkit::server::Server;

use crate::client::Client;
use crate::{assert_unharmed, common, victim};

const ALL: &str = "full-token-0123456789";
const READ_ONLY: &str = "read-only-token-0123456789";

fn locked() -> Server {
    victim(&["--token", ALL, "--read-only-token", READ_ONLY])
}

/// The status and body of the response to a command, with this token.
fn ask(client: &mut common::Client, token: &str, command: &str) -> (u16, String) {
    let length = command.len();
    client.send(&format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{command}"
    ));
    let response = client.receive("POST");
    (response.status, response.body)
}

fn assert_alive(server: &Server) {
    assert!(server.is_running(), "{}", server.logs());
    let mut client = Client::connect(server);
    client.expect(&[(&format!("AUTH {ALL}"), "+OK"), ("EXISTS k", ":1")]);
}

#[test]
fn the_read_only_token_cannot_scan_keys_or_read_server_facts() {
    let server = locked();
    let mut client = common::Client::connect(&server);
    assert_eq!(ask(&mut client, ALL, r#"["SET","k","v"]"#).0, 200);
    for name in
        ["KEYS *", "SCAN 0", "RANDOMKEY", "SORT_RO k BY nosort GET *", "INFO", "CONFIG GET *", "CLIENT LIST"]
    {
        let words: Vec<_> = name.split(' ').map(|word| format!("\"{word}\"")).collect();
        let command = format!("[{}]", words.join(","));
        let (status, body) = ask(&mut client, READ_ONLY, &command);
        assert!(
            status == 400 && (body.contains("NOPERM") || body.contains("not available")),
            "{name}: {body}"
        );
    }
    assert_eq!(ask(&mut client, READ_ONLY, r#"["GET","k"]"#).1, r#"{"result":"v"}"#);
    assert_alive(&server);
}

#[test]
fn scripts_with_the_read_only_token_have_its_rights() {
    let server = locked();
    let mut client = common::Client::connect(&server);
    assert_eq!(ask(&mut client, ALL, r#"["SET","k","v"]"#).0, 200);
    for call in [
        "'KEYS','*'",
        "'SCAN',0",
        "'RANDOMKEY'",
        "'SORT_RO','k','BY','nosort','GET','*'",
        "'INFO'",
        "'CONFIG','GET','*'",
        "'CLIENT','LIST'",
        "'COMMAND','COUNT'",
        "'SET','k','w'",
        "'PUBLISH','c','m'",
    ] {
        let command = format!(r#"["EVAL_RO","return redis.call({call})",0]"#);
        for path in ["/", "/pipeline", "/multi-exec"] {
            let body = if path == "/" { command.clone() } else { format!("[{command}]") };
            let length = body.len();
            client.send(&format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {READ_ONLY}\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
            let body = client.receive("POST").body;
            let rejected = body.contains("NOPERM") || body.contains("not allowed");
            assert!(body.contains("error") && rejected, "{call} at {path}: {body}");
        }
    }
    let read = r#"["EVAL_RO","return redis.call('GET',KEYS[1])",1,"k"]"#;
    assert_eq!(ask(&mut client, READ_ONLY, read).1, r#"{"result":"v"}"#);
    let walks = r#"["EVAL_RO","return #redis.call('KEYS','*')",0]"#;
    assert_eq!(ask(&mut client, ALL, walks).1, r#"{"result":1}"#, "the full token may scan");
    assert_alive(&server);
}

#[test]
fn the_read_only_token_evicts_no_scripts() {
    let server = locked();
    let mut client = common::Client::connect(&server);
    assert_eq!(ask(&mut client, ALL, r#"["SET","k","v"]"#).0, 200);
    assert_eq!(ask(&mut client, ALL, r#"["EVAL","return 'others'",0]"#).0, 200);
    let exists = |client: &mut common::Client| {
        let digits = sha1_of(client);
        ask(client, ALL, &format!(r#"["SCRIPT","EXISTS","{digits}"]"#)).1
    };
    assert_eq!(exists(&mut client), r#"{"result":[1]}"#);
    for command in [r#"["SCRIPT","FLUSH"]"#, r#"["SCRIPT","LOAD","return 1"]"#, r#"["FUNCTION","FLUSH"]"#] {
        let (status, body) = ask(&mut client, READ_ONLY, command);
        assert!(status == 400 && body.contains("NOPERM"), "{command}: {body}");
    }
    for part in 0..11 {
        let scripts: Vec<_> =
            (0..1_000).map(|n| format!(r#"["EVAL_RO","return {}",0]"#, part * 1_000 + n)).collect();
        let body = format!("[{}]", scripts.join(","));
        let length = body.len();
        client.send(&format!(
            "POST /pipeline HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {READ_ONLY}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        assert_eq!(client.receive("POST").status, 200);
    }
    assert_eq!(exists(&mut client), r#"{"result":[1]}"#);
    assert_alive(&server);
}

/// The SHA1 of the script that the other client has sent, as the server knows it.
fn sha1_of(client: &mut common::Client) -> String {
    let (_, body) = ask(client, ALL, r#"["EVAL","return redis.sha1hex(\"return 'others'\")",0]"#);
    body.trim_start_matches(r#"{"result":""#).trim_end_matches(r#""}"#).to_owned()
}

#[test]
fn a_server_whose_two_tokens_are_the_same_does_not_start() {
    let ended = common::run(&["--durability", "memory", "--token", ALL, "--read-only-token", ALL]);
    assert_ne!(ended.0, 0);
    let words = "--token and --read-only-token are the same, so readers may write";
    assert!(ended.2.contains(words), "{}", ended.2);
    assert!(!ended.2.contains(ALL), "no token is printed");
    let server = victim(&[]);
    assert_unharmed(&server);
}
