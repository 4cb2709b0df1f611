//! Sustained writes at full speed, compared with Redis and its append-only file: random SETs over many keys, then mixed types with
//! expiry. A sprint says nothing about what happens when an archive, a rewrite or a full disk cache catches up.
//!
//! One process sends from 50 connections, pipelines of 16, and prints throughput and latency (of a pipeline) for every ten seconds,
//! with the size of the files and the memory of the server. `KEYSTEAD_SECONDS`, `KEYSTEAD_KEYS` and `KEYSTEAD_ROWS="set fsync"`
//! make it shorter.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::keystead::Keystead;
use crate::redis::Redis;
use crate::report::{Random, is_wanted};

const CLIENTS: u64 = 50;
const PIPELINE: usize = 16;
const WINDOW: Duration = Duration::from_secs(10);

const LEVELS: [(&str, &[&str]); 2] = [
    ("commit", &["--appendonly", "yes", "--appendfsync", "everysec"]),
    ("fsync", &["--appendonly", "yes", "--appendfsync", "always"]),
];

pub(crate) fn run() {
    let seconds = number("KEYSTEAD_SECONDS", 600);
    let keys = number("KEYSTEAD_KEYS", 10_000_000) as usize;
    for (level, options) in LEVELS {
        for (name, command) in [("set", set as Command), ("mixed", mixed)] {
            if !is_wanted(&format!("{level} {name}")) {
                continue;
            }
            println!("\n### {name} at {level}: {seconds} s over {keys} keys");
            let ours = {
                let server = Keystead::start(level);
                let load =
                    Load { port: server.port, pid: server.pid(), dir: server.dir(), seconds, keys, command };
                load.run("keystead")
            };
            let Some(redis) = Redis::start_with(options) else { continue };
            let load = Load { port: redis.port, pid: redis.pid(), dir: redis.dir(), seconds, keys, command };
            let theirs = load.run("redis");
            println!(
                "{name} {level}: keystead {:.0}/s, p99.9 {:.1} ms, max {:.0} ms, {} errors; redis {:.0}/s, p99.9 {:.1} ms, max \
                 {:.0} ms, {} errors; {:.2}x",
                ours.per_second,
                ours.p999_ms,
                ours.max_ms,
                ours.errors,
                theirs.per_second,
                theirs.p999_ms,
                theirs.max_ms,
                theirs.errors,
                ours.per_second / theirs.per_second
            );
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Appends a random command and returns how many replies it has.
type Command = fn(&mut Vec<u8>, &mut Random, usize);

struct Load<'a> {
    port: u16,
    pid: u32,
    dir: &'a Path,
    seconds: u64,
    keys: usize,
    command: Command,
}

/// What a run measured.
struct Total {
    per_second: f64,
    p999_ms: f64,
    max_ms: f64,
    errors: u64,
}

impl Load<'_> {
    fn run(&self, name: &str) -> Total {
        println!(
            "{name:>9} {:>5} {:>10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
            "s", "per s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "disk MB", "memory MB"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let errors = Arc::new(AtomicU64::new(0));
        let (latencies, mut windows) = tokio::sync::mpsc::unbounded_channel();
        let until = Instant::now() + Duration::from_secs(self.seconds);
        let mut all: Vec<u32> = Vec::new();
        runtime.block_on(async {
            for client in 0..CLIENTS {
                let (port, keys, command) = (self.port, self.keys, self.command);
                tokio::spawn(send(
                    client,
                    port,
                    keys,
                    command,
                    until,
                    latencies.clone(),
                    Arc::clone(&errors),
                ));
            }
            drop(latencies);
            let (mut window, mut from, began) = (Vec::new(), Instant::now(), Instant::now());
            loop {
                let us = windows.recv().await;
                window.extend(us);
                if from.elapsed() >= WINDOW || us.is_none() && !window.is_empty() {
                    self.print(began.elapsed(), from.elapsed(), &mut window);
                    all.append(&mut window);
                    from = Instant::now();
                }
                if us.is_none() {
                    break;
                }
            }
        });
        let per_second = (all.len() * PIPELINE) as f64 / self.seconds as f64;
        all.sort_unstable();
        let at = |percent: f64| f64::from(all[(all.len() as f64 * percent / 100.0) as usize]) / 1000.0;
        Total {
            per_second,
            p999_ms: at(99.9),
            max_ms: f64::from(*all.last().unwrap()) / 1000.0,
            errors: errors.load(Ordering::Relaxed),
        }
    }

    fn print(&self, since: Duration, took: Duration, window: &mut [u32]) {
        window.sort_unstable();
        let at = |percent: f64| f64::from(window[(window.len() as f64 * percent / 100.0) as usize]) / 1000.0;
        let per_second = (window.len() * PIPELINE) as f64 / took.as_secs_f64();
        println!(
            "{:>9} {:>5.0} {:>10.0} {:>8.2} {:>8.2} {:>8.2} {:>8.1} {:>9} {:>9} {}",
            "",
            since.as_secs_f64(),
            per_second,
            at(50.0),
            at(99.0),
            at(99.9),
            f64::from(*window.last().unwrap()) / 1000.0,
            bytes_in(self.dir) / 1_000_000,
            resident_bytes(self.pid) / 1_000_000,
            "#".repeat((per_second / 20_000.0) as usize)
        );
    }
}

async fn send(
    client: u64,
    port: u16,
    keys: usize,
    command: Command,
    until: Instant,
    latencies: tokio::sync::mpsc::UnboundedSender<u32>,
    errors: Arc<AtomicU64>,
) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut random = Random(client.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let (mut request, mut replies) = (Vec::new(), Vec::new());
    while Instant::now() < until {
        request.clear();
        for _ in 0..PIPELINE {
            command(&mut request, &mut random, keys);
        }
        let sent = Instant::now();
        stream.write_all(&request).await.unwrap();
        replies.clear();
        let (mut seen, mut at) = (0, 0);
        while seen < PIPELINE {
            stream.read_buf(&mut replies).await.unwrap();
            while let Some(end) = reply_end(&replies, at) {
                errors.fetch_add(u64::from(replies[at] == b'-'), Ordering::Relaxed);
                (seen, at) = (seen + 1, end);
            }
        }
        let _ = latencies.send(sent.elapsed().as_micros() as u32);
    }
}

/// Where the reply that begins at `at` ends: a line, or a bulk string.
fn reply_end(replies: &[u8], at: usize) -> Option<usize> {
    let line = replies.get(at..)?.windows(2).position(|pair| pair == b"\r\n")? + at + 2;
    if replies[at] != b'$' {
        return Some(line);
    }
    let len: usize = std::str::from_utf8(&replies[at + 1..line - 2]).ok()?.parse().ok()?;
    (replies.len() >= line + len + 2).then_some(line + len + 2)
}

fn append(out: &mut Vec<u8>, parts: &[&[u8]]) {
    write!(out, "*{}\r\n", parts.len()).unwrap();
    for part in parts {
        write!(out, "${}\r\n", part.len()).unwrap();
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

const VALUE: [u8; 100] = [b'x'; 100];

fn set(out: &mut Vec<u8>, random: &mut Random, keys: usize) {
    append(out, &[b"SET", format!("key:{:012}", random.below(keys)).as_bytes(), &VALUE]);
}

/// A tenth of the keys of each type.
fn mixed(out: &mut Vec<u8>, random: &mut Random, keys: usize) {
    let (key, element) = (random.below((keys / 10).max(1)), format!("{}", random.below(100)));
    let name = |kind: &str| format!("{kind}:{key}").into_bytes();
    match random.below(10) {
        0 | 1 => append(out, &[b"SET", &name("s"), &VALUE, b"EX", b"60"]),
        2 | 3 => append(out, &[b"HSET", &name("h"), element.as_bytes(), &VALUE[..50]]),
        4 => append(out, &[b"LPUSH", &name("l"), &VALUE[..50]]),
        5 => append(out, &[b"LTRIM", &name("l"), b"0", b"9"]),
        6 => append(out, &[b"ZADD", &name("z"), element.as_bytes(), element.as_bytes()]),
        7 => append(out, &[b"XADD", &name("x"), b"MAXLEN", b"~", b"20", b"*", b"f", &VALUE[..50]]),
        8 => append(out, &[b"EXPIRE", &name("h"), b"120"]),
        _ => append(out, &[b"DEL", &name("z")]),
    }
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn resident_bytes(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
