//! How long a server takes to start and to stop, compared with Redis loading the same data: clean, from its archive beside Redis's RDB
//! file, and after a kill with a journal behind it, beside Redis's RDB file with an append-only file behind it.
//!
//! Ready is when `PING` returns `PONG`: until then both return LOADING. Redis has all values in memory then, Keystead all names, and
//! values when they are used. `KEYSTEAD_KEYS=1000000` chooses one size.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::keystead::Keystead;
use crate::redis::Redis;
use crate::report::Random;

const SIZES: [usize; 2] = [1_000_000, 10_000_000];
const PAUSE: Duration = Duration::from_millis(5);
const PIPELINE: usize = 1000;

/// Part of the keys that is changed before the kill.
const CHANGED: f64 = 0.5;

pub(crate) fn run() {
    let chosen = std::env::var("KEYSTEAD_KEYS").ok().and_then(|text| text.parse().ok());
    for keys in chosen.map_or(SIZES.to_vec(), |keys| vec![keys]) {
        let changes = (keys as f64 * CHANGED) as usize;
        let ours = Times::of_keystead(keys, changes);
        let theirs = Times::of_redis(keys, changes);
        println!("{keys} keys of 100 bytes, {changes} changes before the kill");
        for (label, ours, theirs) in [
            ("stop (SIGTERM) after the changes", ours.stop, theirs.stop),
            ("start, clean (archive / RDB)", ours.clean, theirs.clean),
            ("start after a kill (archive and journal / RDB and AOF)", ours.killed, theirs.killed),
        ] {
            println!(
                "  {label:56} keystead {:6.2} s   redis {:6.2} s   {:.2}x",
                ours.as_secs_f64(),
                theirs.as_secs_f64(),
                ours.as_secs_f64() / theirs.as_secs_f64()
            );
        }
        let more = ours.killed.saturating_sub(ours.clean).as_secs_f64();
        println!(
            "  the journal behind the archive had {:.2} GB: {:.1} s per GB",
            ours.journal_gb,
            more / ours.journal_gb.max(0.001)
        );
    }
}

struct Times {
    stop: Duration,
    clean: Duration,
    killed: Duration,
    journal_gb: f64,
}

impl Times {
    fn of_keystead(keys: usize, changes: usize) -> Times {
        let mut server = Keystead::start("commit");
        set(server.port, (0..keys).map(|n| n as u64));
        let archived = |server: &Keystead| {
            let metrics = get(server.http_port, "/metrics");
            let figure =
                |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            figure("keystead_shard_durable_revision") == figure("keystead_shard_archived_revision")
        };
        while !archived(&server) {
            std::thread::sleep(Duration::from_millis(200));
        }
        server.stop(terminate);
        let clean = server.restart(until_ready);
        set(server.port, random(keys, changes, 1));
        let stop = server.stop(terminate);
        // It replays, archives, and then meets the kill with another journal.
        server.restart(until_ready);
        while !archived(&server) {
            std::thread::sleep(Duration::from_millis(200));
        }
        set(server.port, random(keys, changes, 2));
        server.kill();
        let journal_gb = journal_bytes(&server.dir().join("data/shard-0")) as f64 / 1e9;
        let killed = server.restart(until_ready);
        Times { stop, clean, killed, journal_gb }
    }

    fn of_redis(keys: usize, changes: usize) -> Times {
        let options =
            ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"];
        let mut redis = Redis::start_with(&options).expect("redis-server is installed");
        set(redis.port, (0..keys).map(|n| n as u64));
        redis.rewrite();
        redis.stop(terminate);
        let clean = redis.restart(&options, until_ready);
        set(redis.port, random(keys, changes, 1));
        let stop = redis.stop(terminate);
        redis.restart(&options, until_ready);
        redis.rewrite();
        set(redis.port, random(keys, changes, 2));
        redis.kill();
        let killed = redis.restart(&options, until_ready);
        Times { stop, clean, killed, journal_gb: 0.0 }
    }
}

fn random(keys: usize, changes: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random(seed);
    (0..changes).map(move |_| random.below(keys) as u64)
}

/// Sends SIGTERM, by the program that everybody has.
fn terminate(server: &Child) {
    let done = Command::new("kill").arg("-TERM").arg(server.id().to_string()).status();
    assert!(done.is_ok_and(|status| status.success()));
}

/// Waits until the server answers PING with PONG, and returns how long that took.
fn until_ready(port: u16, since: Instant) -> Duration {
    loop {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let mut reply = [0; 7];
            if stream.write_all(b"PING\r\n").is_ok()
                && stream.read_exact(&mut reply).is_ok()
                && &reply == b"+PONG\r\n"
            {
                return since.elapsed();
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn set(port: u16, keys: impl Iterator<Item = u64>) {
    let mut keys = keys.peekable();
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let value = "x".repeat(100);
    while keys.peek().is_some() {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for key in keys.by_ref().take(PIPELINE) {
            write!(bytes, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$100\r\n{value}\r\n").unwrap();
            count += 1;
        }
        stream.get_mut().write_all(&bytes).unwrap();
        let mut line = String::new();
        for _ in 0..count {
            line.clear();
            stream.read_line(&mut line).unwrap();
            assert_eq!(line, "+OK\r\n");
        }
    }
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Bytes of the segments behind the archive.
fn journal_bytes(shard: &Path) -> u64 {
    let archive = rusqlite::Connection::open(shard.join("archive.sqlite")).unwrap();
    let query = "SELECT value FROM meta WHERE name = 'revision'";
    let archived: u64 = archive.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    let mut segments: Vec<(u64, u64)> = std::fs::read_dir(shard.join("journal"))
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name.strip_suffix(".journal")?.parse().ok()?, entry.metadata().ok()?.len()))
        })
        .collect();
    segments.sort_unstable();
    let start = segments.iter().rposition(|(first, _)| *first <= archived + 1).unwrap_or(0);
    segments[start..].iter().map(|(_, len)| len).sum()
}
