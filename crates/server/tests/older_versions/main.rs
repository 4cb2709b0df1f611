//! Databases of older versions: the present server opens them, and every reply is the one that the older version gave.
//!
//! Each folder here is a database that `record.py` has written with the binary of an older commit, killed while part of the data was
//! only in the journal.
//!
//! | Folder     | written by commit    | archive  |
//! |------------|----------------------|----------|
//! | `schema-2` | 4a9858d, 2026-11-16  | schema 2 |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use client::Http;
use common::{dir, run_in, start_on};
use keystead_testkit::server::Server;
use resp::{Client, request_of};
use serde_json::json;
use tempfile::TempDir;

/// The size of a journal file of these versions; the zeros at its end are not stored.
const SEGMENT_BYTES: u64 = 32 << 20;

/// A column that only the archive's schema 3 has.
const SCHEMA_3: &str = "expires_at INTEGER,\n        value BLOB\n";

const ARCHIVE: [&str; 2] = ["shard-0/archive.sqlite", "shard-0/archive.sqlite-wal"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older_versions").join(name)
}

fn journals(database: &Path) -> Vec<PathBuf> {
    fs::read_dir(database.join("shard-0/journal")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A copy of a database, as the older version left it.
fn copy(name: &str) -> TempDir {
    let (from, to) = (folder(name), dir());
    fs::create_dir_all(to.path().join("shard-0/journal")).unwrap();
    for file in ["database.json", "functions.dump"].into_iter().chain(ARCHIVE) {
        fs::copy(from.join(file), to.path().join(file)).unwrap();
    }
    for journal in journals(&from) {
        let to = to.path().join("shard-0/journal").join(journal.file_name().unwrap());
        fs::copy(&journal, &to).unwrap();
        OpenOptions::new().write(true).open(to).unwrap().set_len(SEGMENT_BYTES).unwrap();
    }
    to
}

fn start(name: &str, data: &Path) -> Server {
    start_on(data, &["--config", folder(name).join("keystead.toml").to_str().unwrap()])
}

/// The words of a line as bytes. `\xNN` is a byte, `''` an empty word.
fn words(line: &str) -> Vec<Vec<u8>> {
    let word = |word: &str| {
        let mut parts = word.trim_matches('\'').split("\\x");
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        bytes
    };
    line.split(' ').map(word).collect()
}

/// The reply to a line of `replies.txt`, in its form.
fn read(redis: &mut Client, http: &mut Http, line: &str) -> String {
    let (kind, what) = line.split_once(' ').unwrap();
    match kind {
        "http" => http.ask("GET", what, &[], b"").text().trim().to_owned(),
        "limit" => {
            let decision = http.ask("GET", &format!("/limit/{what}/ada"), &[], b"").json();
            format!("{} of {}", decision["remaining"], decision["limit"])
        }
        "redis" | "sorted" => {
            redis.send_raw(&request_of(words(what).iter().map(Vec::as_slice)));
            let reply = redis.receive();
            if kind == "redis" {
                return reply;
            }
            let mut items: Vec<_> = reply.trim_matches(['[', ']']).split(' ').collect();
            items.sort_unstable();
            items.join(" ")
        }
        kind => panic!("{kind}"),
    }
}

/// Compares every reply with the one that the older version gave.
fn compare(name: &str, server: &Server) {
    let recorded = fs::read_to_string(folder(name).join("replies.txt")).unwrap();
    let lines: Vec<&str> = recorded.lines().collect();
    assert!(lines.len() > 100, "{name}: hardly any reply");
    let (mut redis, mut http) = (Client::connect(server), Http::connect(server));
    for pair in lines.chunks_exact(2) {
        let expected = pair[1].strip_prefix("  ").unwrap();
        assert_eq!(read(&mut redis, &mut http, pair[0]), expected, "{name}: {}", pair[0]);
    }
}

fn contains(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Whether a file of the archive has this text.
fn archive_contains(database: &Path, text: &str) -> bool {
    ARCHIVE.iter().any(|file| contains(&database.join(file), text))
}

fn assert_sound(data: &Path) {
    let (code, report, error) = run_in(data, &["check", data.to_str().unwrap()], &[]);
    assert_eq!((code, error.as_str()), (0, ""), "{report}");
}

fn opens(name: &str) {
    let data = copy(name);
    // Before it is migrated, which a check does not do, after it was, and after a crash and a clean end of the present version.
    assert_sound(data.path());
    assert!(!archive_contains(data.path(), SCHEMA_3), "{name}: a check changes nothing");
    assert!(!data.path().join("shard-0/archive.check").exists());
    let mut server = start(name, data.path());
    compare(name, &server);
    server.kill().unwrap();
    server.restart().unwrap();
    compare(name, &server);
    assert!(server.stop().unwrap().success());
    assert!(archive_contains(data.path(), SCHEMA_3), "{name}: it was not migrated");
    assert_sound(data.path());
    compare(name, &start(name, data.path()));
}

#[test]
fn a_database_of_schema_2_opens() {
    opens("schema-2");
}

#[test]
fn a_database_of_schema_2_can_be_written() {
    let data = copy("schema-2");
    let mut server = start("schema-2", data.path());
    for round in 1..=2 {
        let (mut redis, mut http) = (Client::connect(&server), Http::connect(&server));
        redis.expect(&[
            ("INCR counter", &format!(":{}", 42 + round)),
            ("RPUSH list x", &format!(":{}", 6 + round)),
            ("HINCRBY hash visits 1", &format!(":{}", 2 + round)),
            ("ZINCRBY zset 1 new", &(3 + round).to_string()),
            (&format!("XADD stream 6-{round} f v"), &format!("6-{round}")),
            (&format!("SADD set {round}"), ":1"),
            (&format!("JSON.NUMINCRBY json $.n[0] {round}"), ["", "[2]", "[4]"][round]),
        ]);
        let body = http.ask("PATCH", "/kv/user:1", &[], b"{}").json();
        assert_eq!(body["version"], json!(3 + round));
        let decision = http.ask("POST", "/limit/gcra", &[], br#"{"key":"ada"}"#).json();
        assert_eq!(decision["remaining"], json!(3 - round));
        server.kill().unwrap();
        server.restart().unwrap();
    }
}

#[test]
fn part_of_the_data_is_only_in_the_journal() {
    let database = folder("schema-2");
    assert!(!archive_contains(&database, SCHEMA_3), "an older version has not written this");
    for (text, archived) in [("value-of-more-than-twenty-three-bytes", true), ("only-in-the-journal", false)]
    {
        assert_eq!(archive_contains(&database, text), archived, "{text}");
        assert!(journals(&database).iter().any(|path| contains(path, text)), "{text}");
    }
}
