//! RESP over TLS, and the errors of certificates that cannot be used.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Client, PATIENCE, pause, request, request_of};
use crate::common::{dir, launch, only_line, run_in, signal};

type Encrypted = Client<StreamOwned<ClientConnection, TcpStream>>;

/// The openssl configuration of a self-signed certificate.
const REQUEST: &str = "[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN=localhost\n[ext]\n\
                       subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n";

/// Makes `cert.pem` and `key.pem`.
fn certificate(dir: &Path) {
    std::fs::write(dir.join("request"), REQUEST).unwrap();
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -config request \
                 -keyout key.pem -out cert.pem";
    let made = Command::new("openssl").args(words.split_whitespace()).current_dir(dir).output();
    let made = made.expect("openssl must be installed for this test");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn encrypted(arguments: &[&str]) -> (TempDir, Server) {
    let home = dir();
    certificate(home.path());
    let server = launch(&["--durability", "memory", "--resp-tls-cert"])
        .arg(home.path().join("cert.pem"))
        .arg("--resp-tls-key")
        .arg(home.path().join("key.pem"))
        .args(arguments);
    (home, server.start().unwrap())
}

fn connect(home: &TempDir, server: &Server) -> Encrypted {
    let stream = TcpStream::connect(server.resp().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(home.path().join("cert.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    Client::over(StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream))
}

#[test]
fn a_client_is_served_behind_tls() {
    let (home, server) = encrypted(&["--shards", "2"]);
    assert!(server.line("resp").unwrap().starts_with("rediss://127.0.0.1:"), "{}", server.logs());
    let mut clients: Vec<_> = (0..4).map(|_| connect(&home, &server)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask("INCR n"), format!(":{}", n + 1));
        assert_eq!(client.ask_all(["MULTI", "INCR {m}", "EXEC"]).pop(), Some(format!("[:{}]", n + 1)));
    }
    let [a, b, ..] = &mut clients[..] else { unreachable!("there are four") };
    a.send("BLPOP k 0");
    pause(50);
    assert_eq!(b.ask("RPUSH k v"), ":1");
    assert_eq!(a.receive(), "[k v]");
    assert_eq!(a.ask("QUIT"), "+OK");
    assert!(a.is_closed());
}

#[test]
fn sighup_reloads_certificates_and_keeps_the_old_if_the_new_are_unusable() {
    let (home, server) = encrypted(&["--log-level", "info"]);
    let mut before = connect(&home, &server);
    assert_eq!(before.ask("SET k v"), "+OK");
    let old = std::fs::read(home.path().join("cert.pem")).unwrap();
    certificate(home.path());
    assert_ne!(std::fs::read(home.path().join("cert.pem")).unwrap(), old);
    signal(&server, Signal::HUP);
    server.wait_for_log("certificates and policies reloaded").unwrap();
    assert_eq!(connect(&home, &server).ask("GET k"), "v", "with the new certificate as the only authority");
    assert_eq!(before.ask("GET k"), "v", "existing connections stay");
    std::fs::write(home.path().join("key.pem"), "no key").unwrap();
    signal(&server, Signal::HUP);
    server.wait_for_log("SIGHUP: certificates: not reloaded").unwrap();
    assert_eq!(connect(&home, &server).ask("GET k"), "v", "the ones that served still do");
}

#[test]
fn a_client_behind_tls_kills_a_script_on_its_own_shard_and_goes_on() {
    let (home, server) = encrypted(&[]);
    let mut script = connect(&home, &server);
    assert_eq!(script.ask("CONFIG SET busy-reply-threshold 0"), "+OK");
    script.send_raw(&request_of(["EVAL", "while true do end", "0"].map(str::as_bytes)));
    pause(100);
    let mut other = connect(&home, &server);
    assert!(other.ask("GET k").starts_with("-BUSY "));
    assert_eq!(other.ask("SCRIPT KILL"), "+OK");
    assert!(script.receive().contains("Script killed by user"));
    // The connection goes to the loop, with the socket that it has.
    crate::client::until("the loop goes on", || other.ask("SET k v") == "+OK");
    assert_eq!(other.ask_all(["GET k", "BLPOP l 0.05", "GET k"]), ["v", "*-1", "v"]);
    let value = "v".repeat(1_000_000);
    assert_eq!(other.ask(&format!("SET k {value}")), "+OK");
    assert_eq!(other.ask("GET k").len(), value.len());
}

#[test]
fn large_replies_arrive_complete_even_to_a_slow_reader() {
    let (home, server) = encrypted(&[]);
    let mut client = connect(&home, &server);
    let value: String = (0..1_000_000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    assert_eq!(client.ask(&format!("SET k {value}")), "+OK");
    for round in 0..5 {
        client.send_raw(&request("GET k").repeat(12));
        // The server's buffers and the system's fill up meanwhile; nothing more is asked, so nothing else wakes it.
        pause(200);
        for _ in 0..12 {
            assert!(client.receive() == value, "round {round}");
        }
    }
    let lines: Vec<_> = (0..10_000).map(|n| format!("ECHO {n}")).collect();
    let replies = client.ask_all(lines.iter().map(String::as_str));
    assert!(replies.iter().enumerate().all(|(n, reply)| *reply == n.to_string()));
}

#[test]
fn quit_sends_everything_before_it_closes() {
    let (home, server) = encrypted(&[]);
    let mut client = connect(&home, &server);
    assert_eq!(client.ask(&format!("SET k {}", "v".repeat(1_000_000))), "+OK");
    client.send_raw(&[request("GET k").repeat(12), request("QUIT")].concat());
    pause(300);
    let replies = client.rest();
    assert_eq!((replies.len(), replies.last().map(String::as_str)), (13, Some("+OK")));
}

#[test]
fn a_killed_client_that_does_not_read_is_gone() {
    let (home, server) = encrypted(&[]);
    let (mut slow, mut admin) = (connect(&home, &server), connect(&home, &server));
    assert_eq!(slow.ask(&format!("SET k {}", "v".repeat(1_000_000))), "+OK");
    let id = slow.ask("CLIENT ID").replace(':', "");
    slow.send_raw(&request("GET k").repeat(40));
    pause(200);
    assert_eq!(admin.ask(&format!("CLIENT KILL ID {id}")), ":1");
    let watch = Stopwatch::start();
    while admin.ask(&format!("CLIENT LIST ID {id}")) != "''" {
        assert!(watch.elapsed().as_secs() < 4, "it is still there");
        pause(10);
    }
}

#[test]
fn who_speaks_no_tls_is_closed_and_holds_up_nothing() {
    let (home, mut server) = encrypted(&[]);
    let mut plain = Client::connect(&server);
    plain.send("PING");
    // What the server says to this is an alert of TLS.
    plain.rest();
    assert!(plain.is_closed());
    let mut client = connect(&home, &server);
    assert_eq!(client.ask("PING"), "+PONG");
    // Connected, and silent: it has not even begun to agree on TLS.
    let mut silent = Client::connect(&server);
    pause(50);
    let watch = Stopwatch::start();
    signal(&server, Signal::TERM);
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
    assert!(watch.elapsed().as_secs() < 4, "{:?}", watch.elapsed());
    assert!(silent.is_closed());
}

#[test]
fn unusable_certificates_are_reported_with_what_to_do() {
    let home = dir();
    certificate(home.path());
    let of = |name: &str| home.path().join(name);
    std::fs::write(of("empty.pem"), "").unwrap();
    std::fs::write(of("nonsense.pem"), "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n")
        .unwrap();
    std::fs::create_dir(of("other")).unwrap();
    certificate(&of("other"));
    let both = |cert: &'static str, key: &'static str| ["--resp-tls-cert", cert, "--resp-tls-key", key];
    let fix = "name a file in PEM form that this user may read";
    let pair = "name a PEM certificate chain, its own first, and the PEM key that belongs to it";
    for (arguments, starts, ends) in [
        (
            &["--resp-tls-cert", "cert.pem"][..],
            "--resp-tls-cert and --resp-tls-key go together",
            "name both files, or neither",
        ),
        (
            &["--resp-tls-key", "key.pem"],
            "--resp-tls-cert and --resp-tls-key go together",
            "name both files, or neither",
        ),
        (&both("missing.pem", "key.pem"), "--resp-tls-cert missing.pem: it cannot be read (", fix),
        (&both("cert.pem", "missing.pem"), "--resp-tls-key missing.pem: it cannot be read (", fix),
        (&both("nonsense.pem", "key.pem"), "--resp-tls-cert nonsense.pem: it cannot be read (", fix),
        (&both("cert.pem", "empty.pem"), "--resp-tls-key empty.pem: it cannot be read (", fix),
        (&both("other", "key.pem"), "--resp-tls-cert other: it cannot be read (", fix),
        (&both("empty.pem", "key.pem"), "", pair),
        (
            &both("cert.pem", "other/key.pem"),
            "the certificate and the key of --resp-tls-cert and --resp-tls-key cannot be used (",
            pair,
        ),
        (&both("key.pem", "cert.pem"), "", ""),
        (&["--resp-tls-cert", ""], "--resp-tls-cert '' is empty: ", "write a path"),
    ] {
        let all = [&["--http", "127.0.0.1:0"], arguments].concat();
        let line = only_line(2, &run_in(home.path(), &all, &[]));
        assert!(line.starts_with(starts) && line.ends_with(ends), "{arguments:?}: {line}");
        assert!(!home.path().join("keystead-data").exists(), "nothing is begun");
    }
}
