//! Sustained writes at full speed, compared with Redis and its append-only file: random SETs over many keys (`sets`), and mixed types
//! with expiry (`mixed`), each at `fsync` (Redis: appendfsync always) and at `commit` (everysec). A sprint says nothing about what
//! happens when an archive, a rewrite or a full disk cache catches up.
//!
//! One process sends from 50 connections, pipelines of 16, and prints throughput and latency (of a pipeline) for every ten seconds,
//! with the size of the files and the memory of the server. A plot of both is written to `target/marathon-*.svg`. `KEYSTEAD_MINUTES`
//! (or `KEYSTEAD_SECONDS`), `KEYSTEAD_KEYS` and `KEYSTEAD_ROWS="sets fsync"` choose.

mod commands;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::keystead::Keystead;
use crate::plot::{self, Line, Panel};
use crate::redis::Redis;
use crate::report::{Random, is_wanted};

use commands::Command;

const CLIENTS: u64 = 50;
const PIPELINE: usize = 16;
const WINDOW: Duration = Duration::from_secs(10);

/// A stall that users notice.
const STALL_MS: f64 = 50.0;

const LEVELS: [(&str, &[&str]); 2] = [
    ("commit", &["--appendonly", "yes", "--appendfsync", "everysec"]),
    ("fsync", &["--appendonly", "yes", "--appendfsync", "always"]),
];

pub(crate) fn run() {
    let seconds = number("KEYSTEAD_SECONDS", number("KEYSTEAD_MINUTES", 10) * 60);
    let keys = number("KEYSTEAD_KEYS", 10_000_000) as usize;
    for (level, options) in LEVELS {
        for (name, command) in [("sets", commands::set as Command), ("mixed", commands::mixed)] {
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
            let theirs = Redis::start_with(options).map(|redis| {
                let load =
                    Load { port: redis.port, pid: redis.pid(), dir: redis.dir(), seconds, keys, command };
                load.run("redis")
            });
            print_totals(&format!("{name} {level}"), &ours, theirs.as_ref());
            plot_runs(
                &format!("{name} at {level}, {seconds} s over {keys} keys"),
                name,
                level,
                &ours,
                theirs.as_ref(),
            );
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn print_totals(label: &str, ours: &Run, theirs: Option<&Run>) {
    let words = |run: &Run| {
        let stalls = run.windows.iter().filter(|window| window.max_ms > STALL_MS).count();
        let total = &run.total;
        format!(
            "{:.0}/s, p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.1} ms, max {:.0} ms, {stalls} of {} windows with a stall above \
             {STALL_MS} ms, {} errors",
            total.per_second,
            total.p50_ms,
            total.p99_ms,
            total.p999_ms,
            total.max_ms,
            run.windows.len(),
            run.errors
        )
    };
    println!("{label}: keystead {}", words(ours));
    if let Some(theirs) = theirs {
        println!("{label}: redis    {}", words(theirs));
        println!(
            "{label}: throughput {:.2}x, p99.9 {:.2}x of redis",
            ours.total.per_second / theirs.total.per_second,
            ours.total.p999_ms / theirs.total.p999_ms
        );
    }
}

/// The name of a figure, whether its line is dashed, and its value.
type PlottedFigure<'a> = (&'a str, bool, fn(&Window) -> f64);

fn plot_runs(title: &str, name: &str, level: &str, ours: &Run, theirs: Option<&Run>) {
    let runs = [("keystead", "#1f6fb4", Some(ours)), ("redis", "#c0392b", theirs)];
    let lines = |figures: &[PlottedFigure<'_>]| {
        let mut lines = Vec::new();
        for (server, colour, run) in &runs {
            for (figure, is_dashed, of) in figures.iter().filter(|_| run.is_some()) {
                let windows = run.iter().flat_map(|run| &run.windows);
                let points = windows.map(|window| (window.since_s, of(window))).collect();
                lines.push(Line {
                    label: format!("{server} {figure}"),
                    colour,
                    is_dashed: *is_dashed,
                    points,
                });
            }
        }
        lines
    };
    let panels = [
        Panel {
            title: "requests a second",
            is_logarithmic: false,
            lines: lines(&[("", false, |window| window.per_second)]),
        },
        Panel {
            title: "latency of a pipeline of 16, ms",
            is_logarithmic: true,
            lines: lines(&[("p99.9", false, |window| window.p999_ms), ("max", true, |window| window.max_ms)]),
        },
        Panel {
            title: "files and memory, MB",
            is_logarithmic: false,
            lines: lines(&[
                ("files", false, |window| window.disk_mb as f64),
                ("memory", true, |window| window.memory_mb as f64),
            ]),
        },
    ];
    let path = plot::write(&format!("marathon-{name}-{level}"), title, &panels);
    println!("plot: {}", path.display());
}

struct Load<'a> {
    port: u16,
    pid: u32,
    dir: &'a Path,
    seconds: u64,
    keys: usize,
    command: Command,
}

/// What a run measured.
struct Run {
    windows: Vec<Window>,
    total: Window,
    errors: u64,
}

/// Ten seconds of it, or all.
struct Window {
    since_s: f64,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    disk_mb: u64,
    memory_mb: u64,
}

impl Load<'_> {
    fn run(&self, name: &str) -> Run {
        println!(
            "{name:>9} {:>5} {:>10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
            "s", "per s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "disk MB", "memory MB"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let errors = Arc::new(AtomicU64::new(0));
        let (latencies, mut measured) = tokio::sync::mpsc::unbounded_channel();
        let until = Instant::now() + Duration::from_secs(self.seconds);
        let (complete, completed) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            // Sorting, and reading the sizes of files that a server renames, would be latency if the client's thread did it.
            let measuring = scope.spawn(move || self.measure(completed));
            runtime.block_on(async {
                for client in 0..CLIENTS {
                    let (port, keys, command) = (self.port, self.keys, self.command);
                    let (latencies, errors) = (latencies.clone(), Arc::clone(&errors));
                    tokio::spawn(send(client, port, keys, command, until, latencies, errors));
                }
                drop(latencies);
                let (mut window, mut from, began) = (Vec::new(), Instant::now(), Instant::now());
                loop {
                    let us = measured.recv().await;
                    window.extend(us);
                    if from.elapsed() >= WINDOW || us.is_none() && !window.is_empty() {
                        complete
                            .send((began.elapsed(), from.elapsed(), std::mem::take(&mut window)))
                            .unwrap();
                        from = Instant::now();
                    }
                    if us.is_none() {
                        break;
                    }
                }
            });
            drop(complete);
            let (windows, mut all) = measuring.join().unwrap();
            let took = Duration::from_secs(self.seconds);
            Run { windows, total: self.window(took, took, &mut all), errors: errors.load(Ordering::Relaxed) }
        })
    }

    /// Prints every window, and returns them and all latencies.
    fn measure(&self, completed: Receiver<(Duration, Duration, Vec<u32>)>) -> (Vec<Window>, Vec<u32>) {
        let (mut windows, mut all): (Vec<Window>, Vec<u32>) = (Vec::new(), Vec::new());
        for (since, took, mut us) in completed {
            windows.push(self.window(since, took, &mut us));
            windows.last().unwrap().print();
            all.append(&mut us);
        }
        (windows, all)
    }

    fn window(&self, since: Duration, took: Duration, us: &mut [u32]) -> Window {
        us.sort_unstable();
        let at = |percent: f64| f64::from(us[(us.len() as f64 * percent / 100.0) as usize]) / 1000.0;
        Window {
            since_s: since.as_secs_f64(),
            per_second: (us.len() * PIPELINE) as f64 / took.as_secs_f64(),
            p50_ms: at(50.0),
            p99_ms: at(99.0),
            p999_ms: at(99.9),
            max_ms: f64::from(*us.last().unwrap()) / 1000.0,
            disk_mb: bytes_in(self.dir) / 1_000_000,
            memory_mb: resident_bytes(self.pid) / 1_000_000,
        }
    }
}

impl Window {
    fn print(&self) {
        println!(
            "{:>9} {:>5.0} {:>10.0} {:>8.2} {:>8.2} {:>8.2} {:>8.1} {:>9} {:>9} {}",
            "",
            self.since_s,
            self.per_second,
            self.p50_ms,
            self.p99_ms,
            self.p999_ms,
            self.max_ms,
            self.disk_mb,
            self.memory_mb,
            "#".repeat((self.per_second / 20_000.0) as usize)
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
