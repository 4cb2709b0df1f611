//! `keystead store verify`: stores that conform, one that does not, and those that cannot be verified.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_testkit::servers::{denokv, keystead as this, nats, postgres, redis};

use crate::{Ended, ended, keystead, own, postgres_url, right_postgres_url, run, shared};

fn verify(url: &str) -> Ended {
    run("", &["store", "verify", url, "--seconds", "1"])
}

/// Every case has a row, the figures are there, and nothing of the login is printed.
fn conforms(url: &str, shown: &str) -> String {
    let (code, stdout, stderr) = verify(url);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(stdout.lines().next(), Some(shown));
    for case in [
        "contention::200_checks_at_limit_50_admit_50",
        "decisions::vectors_of_gcra",
        "decisions::agree_with_memory",
    ] {
        let row = stdout.lines().find(|line| line.split_whitespace().next() == Some(case));
        assert!(row.is_some_and(|row| row.ends_with("  passed")), "{case} in {stdout}");
    }
    assert!(!stdout.contains("FAILED") && stdout.contains("\nconforms: "), "{stdout}");
    let rows: Vec<&str> =
        stdout.lines().skip_while(|line| !line.starts_with("in flight")).skip(1).take(2).collect();
    for (row, in_flight) in rows.iter().zip(["1", "32"]) {
        let columns: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((columns.len(), columns[0]), (6, in_flight), "{row}");
        assert!(columns[2].parse::<f64>().unwrap() > 0.0, "{row}");
    }
    assert!(stderr.contains("keystead: verifying contention\n"), "{stderr}");
    for secret in [postgres::PASSWORD, denokv::TOKEN, this::TOKEN] {
        assert!(!stdout.contains(secret) && !stderr.contains(secret), "{stdout}{stderr}");
    }
    stdout
}

#[test]
fn stores_in_this_process_conform() {
    let stdout = conforms("memory:", "memory:");
    assert!(stdout.contains("handles::two_handles_share_a_key"), "{stdout}");
    assert!(stdout.contains("not applicable  it is not shared"), "{stdout}");
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().display());
    conforms(&format!("{url}?durability=commit&shards=2"), &url);
}

#[test]
fn redis_conforms_and_keeps_nothing() {
    let Some(server) = own(&redis::REDIS) else { return };
    let address = server.site().addresses();
    let url = format!("redis://{address}");
    let stdout = conforms(&format!("{url}?deadline=40s"), &url);
    assert!(!stdout.contains("removed 0 keys"), "{stdout}");
    let mut stream = BufReader::new(TcpStream::connect(&address).unwrap());
    let keys = list(&mut stream, "KEYS *");
    assert!(keys.iter().all(|key| key.starts_with(b"keystead-verify-")), "{keys:?}");
    // What is left are the tombstones, which the server deletes by itself.
    for key in &keys {
        let ttl = ttl_ms(&mut stream, key);
        assert!(ttl != -1 && ttl <= 300_000, "{} stays for {ttl} ms", key.escape_ascii());
    }
    assert!(keys.len() > 100, "{} keys are left", keys.len());
}

#[test]
fn postgres_conforms_in_both_ways() {
    let Some(server) = shared(&postgres::POSTGRES) else { return };
    for parameters in ["", "&atomic=lock"] {
        let url = right_postgres_url(server.site(), parameters);
        conforms(&url, &format!("{}/postgres", server.site().addresses()));
    }
}

/// On the server of this number in the list of others.
fn other_conforms(number: usize) {
    let other = &crate::OTHERS[number];
    let Some(server) = shared(other.kind) else { return };
    conforms(&(other.url)(server.site()), &(other.shown)(server.site()));
}

#[test]
fn a_redis_cluster_conforms() {
    other_conforms(0);
}

#[test]
fn a_server_behind_its_rest_api_conforms() {
    other_conforms(1);
}

#[test]
fn dynamodb_conforms() {
    other_conforms(2);
}

#[test]
fn deno_kv_conforms() {
    other_conforms(3);
}

#[test]
fn nats_conforms() {
    other_conforms(4);
}

#[test]
fn etcd_conforms() {
    other_conforms(5);
}

/// A Redis whose keys somebody else deletes all the time.
#[test]
fn a_store_that_forgets_diverges() {
    let Some(server) = own(&redis::REDIS) else { return };
    let address = server.site().addresses();
    let done = Arc::new(AtomicBool::new(false));
    let forgetting = {
        let (done, address) = (Arc::clone(&done), address.clone());
        std::thread::spawn(move || {
            let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
            while !done.load(Ordering::SeqCst) {
                stream.get_mut().write_all(b"FLUSHALL\r\n").unwrap();
                assert_eq!(line(&mut stream), "+OK");
            }
        })
    };
    let (code, stdout, stderr) = verify(&format!("redis://{address}?deadline=40s"));
    done.store(true, Ordering::SeqCst);
    forgetting.join().unwrap();
    assert_eq!(code, 1, "{stdout}{stderr}");
    for part in [
        "FAILED          see below",
        "\nfirst divergence\n  case      ",
        "  expected  ",
        "  got       ",
        "\ndiverges: ",
    ] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
}

#[test]
fn what_cannot_run_is_one_line_without_the_password() {
    let mut urls = vec![
        ("mysql://root:hunter2@host".to_owned(), "there is no store 'mysql'"),
        ("redis://:hunter2@127.0.0.1:1".to_owned(), "cannot verify 127.0.0.1:1: "),
        ("redis://localhost?atomik=cas".to_owned(), "'atomik'"),
        ("memory:?max-keys=5".to_owned(), "write memory:"),
    ];
    let postgres = shared(&postgres::POSTGRES);
    if let Some(server) = &postgres {
        urls.push((postgres_url(server.site(), "hunter2", ""), "password authentication failed"));
    }
    let nats = shared(&nats::NATS);
    if let Some(server) = &nats {
        urls.push((
            format!("redis://:hunter2@{}?deadline=2s", server.site().addresses()),
            "cannot verify 127.0.0.1:",
        ));
    }
    for (url, words) in urls {
        let (code, stdout, stderr) = verify(&url);
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.starts_with("keystead: ") && stderr.contains(words), "{url}: {stderr}");
        assert_eq!(stderr.matches('\n').count(), 1, "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
}

#[test]
fn a_server_that_goes_away_is_not_called_divergent() {
    let Some(mut server) = own(&redis::REDIS) else { return };
    let url = format!("redis://{}?deadline=2s", server.site().addresses());
    let mut child = keystead(&["store", "verify", &url]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert_eq!(first, "keystead: verifying basics\n");
    server.kill().unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let (code, stdout, _) = ended(child.wait_with_output().unwrap());
    assert_eq!(code, 2, "{stdout}{rest}");
    assert!(rest.contains("keystead: in case ") && rest.contains("cannot verify"), "{rest}");
    assert!(!stdout.contains("diverges"), "{stdout}");
}

#[test]
fn arguments_are_checked() {
    for (arguments, words) in [
        (&["store", "verify"][..], "URL is missing"),
        (
            &["store", "dance", "memory:"],
            "unknown action 'dance': write keystead store verify or keystead store bench",
        ),
        (
            &["store", "bench", "memory:", "--seconds", "0"],
            "--seconds '0' is invalid: write a whole number from 1 to 600",
        ),
        (&["store", "verify", "memory:", "--http", "off"], "--http has no effect on keystead store"),
    ] {
        let (code, stdout, stderr) = run("", arguments);
        assert_eq!((code, stdout.as_str()), (2, ""));
        assert!(stderr.contains(words), "{stderr}");
    }
    let (code, stdout, _) = run("", &["store", "--help"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("keystead store verify redis://localhost:6379") && stdout.contains("--seconds"),
        "{stdout}"
    );
}

fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// How long a key stays: -1: for ever.
fn ttl_ms(stream: &mut BufReader<TcpStream>, key: &[u8]) -> i64 {
    let head = format!("*2\r\n$4\r\nPTTL\r\n${}\r\n", key.len());
    stream.get_mut().write_all(&[head.as_bytes(), key, b"\r\n"].concat()).unwrap();
    line(stream).strip_prefix(':').unwrap().parse().unwrap()
}

/// An array of strings.
fn list(stream: &mut BufReader<TcpStream>, command: &str) -> Vec<Vec<u8>> {
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let count: usize = line(stream).strip_prefix('*').unwrap().parse().unwrap();
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        let len: usize = line(stream).strip_prefix('$').unwrap().parse().unwrap();
        let mut bytes = vec![0; len + 2];
        stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(len);
        list.push(bytes);
    }
    list
}
