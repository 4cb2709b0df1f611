//! Published advisories about Redis and Valkey that are not about Lua (those are in `advisories`), as far as their attack can be tried here.
//!
//! Elsewhere in this suite:
//! - CVE-2024-31228, patterns without a bound: `quadratic`.
//! - CVE-2025-21605, replies that a client without the token does not read: `before_auth`.
//!
//! Without a test:
//! - CVE-2026-25243 and CVE-2026-63639, payloads of `RESTORE`: there is no `RESTORE`. `FUNCTION RESTORE` reads texts only.
//! - CVE-2026-21863, messages of the cluster bus: there is none.
//! - CVE-2026-25588 and CVE-2026-25589, payloads of `RESTORE` of modules: there are no modules.

use crate::client::{Client, request};
use crate::{assert_unharmed, until, victim};

/// An empty request before a line, which Valkey took for a part of it.
#[test]
fn cve_2026_27623_empty_requests_are_skipped() {
    let locked = victim(&["--token", "correct-horse-battery-staple"]);
    let server = victim(&[]);
    for empty in ["*0\r\n", "*-1\r\n", "\r\n", "*0\r\n*0\r\n\r\n*-1\r\n"] {
        for (server, reply) in [(&server, "+PONG"), (&locked, "-NOAUTH Authentication required.")] {
            for ping in ["PING\r\n", "*1\r\n$4\r\nPING\r\n"] {
                let mut client = Client::connect(server);
                client.send_raw(format!("{empty}{ping}{empty}{ping}").as_bytes());
                assert_eq!([client.receive(), client.receive()], [reply, reply], "{empty:?} {ping:?}");
            }
        }
    }
    assert_unharmed(&server);
    assert!(locked.is_running());
}

/// A client that is closed at the moment when its blocking command gets what it waited for.
#[test]
fn cve_2026_23479_a_client_that_is_killed_while_it_is_unblocked_harms_nobody() {
    let server = victim(&[]);
    let mut admin = Client::connect(&server);
    for round in 0..20 {
        let mut blocked: Vec<_> = (0..4).map(|_| Client::connect(&server)).collect();
        let ids: Vec<_> = blocked.iter_mut().map(Client::id).collect();
        for client in &mut blocked {
            client.send("BLPOP q 0");
        }
        until(|| admin.ask("INFO clients").contains("blocked_clients:4"));
        // All in one turn of the shard: the kill, the push that serves the client, and an unblock.
        let mut bytes = Vec::new();
        for id in &ids[..3] {
            for line in
                [format!("CLIENT KILL ID {id}"), format!("RPUSH q {round}"), format!("CLIENT UNBLOCK {id}")]
            {
                bytes.extend(request(&line));
            }
        }
        admin.send_raw(&bytes);
        for _ in 0..9 {
            admin.receive();
        }
        assert!(admin.ask(&format!("RPUSH q {round}")).starts_with(':'));
        assert_eq!(blocked[3].receive(), format!("[q {round}]"), "one that was not killed gets an element");
        drop(blocked);
        assert_eq!(admin.ask("DEL q").chars().next(), Some(':'));
    }
    assert_unharmed(&server);
}
