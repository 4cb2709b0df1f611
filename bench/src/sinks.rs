//! Write-behind: updates of hot documents over HTTP at `fsync`, with a PostgreSQL behind that takes 250 ms for each statement, compared with
//! the same server without a sink, and with clients that write each update to that PostgreSQL themselves.
//!
//! The servers are up for the whole run and are measured alternately, `ROUNDS` times, with nothing else beside the clients; the best round of each
//! is reported, and the figures of the target are those of all rounds. The delay is a trigger of the table, before any row is locked: it costs no processor time, and direct writers
//! of one key do not wait for each other longer than that.
//!
//! The lag is from the acknowledgement of a write until a client of the target sees it or a later one. It is measured under the same load in
//! rounds of its own, because the client that looks for it costs time. wrk and PostgreSQL must be installed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keystead_testkit::servers::postgres::{PASSWORD, POSTGRES, sql};
use keystead_testkit::servers::{OwnServer, Site};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::keystead::Keystead;
use crate::report::{Random, median};
use crate::resp::Figure;
use crate::rest;

const ROUNDS: usize = 3;
const SECONDS: &str = "8s";
const DIRECT: Duration = Duration::from_secs(8);
const CLIENTS: &str = "64";
const KEYS: usize = 100;

/// How often the target is looked at, and how often the document whose lag is measured is written.
const LOOK: Duration = Duration::from_millis(2);
const PROBE: Duration = Duration::from_millis(20);

const TABLE: &str = "CREATE TABLE t (key text PRIMARY KEY, value jsonb, keystead_version bigint NOT NULL DEFAULT 0, keystead_batch bigint NOT NULL DEFAULT 0)";
const SLOW: &str = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.25); RETURN NULL; END'";
const TRIGGER: &str =
    "CREATE TRIGGER slow BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION slow()";
const UPSERT: &str = "INSERT INTO t (key, value) VALUES ($1, $2::text::jsonb) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

const TEXT: &str = "a document of about a hundred bytes, as a cart, a presence or a score would be";

fn request() -> String {
    format!(
        r#"wrk.format("PUT", "/kv/d:" .. math.random({KEYS}), nil, '{{"n":' .. math.random(1000000) .. ',"text":"{TEXT}"}}')"#
    )
}

pub(crate) fn run() {
    let runtime = Runtime::new().unwrap();
    let Ok(postgres) = runtime.block_on(OwnServer::start(&POSTGRES)) else {
        return println!("PostgreSQL is not installed: apt-get install postgresql");
    };
    let site = postgres.site();
    for statement in [TABLE, SLOW, TRIGGER] {
        sql(site, statement).unwrap();
    }
    let target = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres", site.port());
    let settings = format!("[sink.s]\nprefix = \"d:\"\ntable = \"t\"\ntarget = \"{target}\"\n");
    let plain = Keystead::start("fsync");
    let behind = Keystead::start_with("fsync", &settings).expect("the server accepts the sink");
    let request = request();
    let (mut alone, mut with_sink) = (Figure::default(), Figure::default());
    let (mut shares, mut tails) = (Vec::new(), Vec::new());
    let before = Counts::of(behind.http_port);
    let since = Instant::now();
    let mut busy = Duration::ZERO;
    for _ in 0..ROUNDS {
        let without = rest::measure_for(SECONDS, plain.http_port, CLIENTS, &request, 1.0);
        let started = Instant::now();
        let figure = rest::measure_for(SECONDS, behind.http_port, CLIENTS, &request, 1.0);
        busy += started.elapsed();
        shares.push(figure.per_second / without.per_second);
        tails.push(figure.p99_ms / without.p99_ms);
        (alone, with_sink) = (alone.better(without), with_sink.better(figure));
    }
    let counts = Counts::of(behind.http_port);
    let (changes, rows) = (counts.changes - before.changes, counts.rows - before.rows);
    let batches = counts.batches - before.batches;
    println!(
        "{CLIENTS} clients, {KEYS} hot documents of 100 bytes, 250 ms for each statement of the target\n"
    );
    println!("{:<34} {:>12} {:>9} {:>9}", "", "writes/s", "p99 ms", "ratio");
    let direct = direct(&runtime, site);
    for (name, figure) in
        [("keystead, sink behind", with_sink), ("keystead, no sink", alone), ("direct to the target", direct)]
    {
        println!(
            "{name:<34} {:>12.0} {:>9.2} {:>8.2}x",
            figure.per_second,
            figure.p99_ms,
            with_sink.per_second / figure.per_second
        );
    }
    println!(
        "\nround by round, with a sink / without: {:.3} of the writes/s and {:.3} of the p99 (medians of {ROUNDS})",
        median(shares),
        median(tails)
    );
    println!(
        "the target: {:.0} rows/s in {:.1} batches/s while writes came, {changes} changes in {rows} rows ({:.0} changes a row), {:.0} s in all",
        rows as f64 / busy.as_secs_f64(),
        batches as f64 / busy.as_secs_f64(),
        changes as f64 / rows.max(1) as f64,
        since.elapsed().as_secs_f64()
    );
    let mut lags = lags(&runtime, site, behind.http_port, || {
        rest::measure_for(SECONDS, behind.http_port, CLIENTS, &request, 1.0);
    });
    lags.sort_by(f64::total_cmp);
    let percentile = |part: f64| lags.get((lags.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN);
    println!(
        "lag from the acknowledgement to the target: p50 {:.0} ms, p99 {:.0} ms ({} writes, flushEvery 1s)",
        percentile(0.5),
        percentile(0.99),
        lags.len()
    );
}

/// What a sink has done.
struct Counts {
    changes: u64,
    rows: u64,
    batches: u64,
}

impl Counts {
    fn of(port: u16) -> Counts {
        let body = Http::connect(port).ask("GET", "/sinks/s", "");
        let number = |name: &str| -> u64 {
            let (_, rest) = body.split_once(&format!("\"{name}\":")).expect("a count of the sink");
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        Counts { changes: number("changes"), rows: number("rows"), batches: number("batches") }
    }
}

/// A connection over which one request at a time is sent.
struct Http(BufReader<TcpStream>);

impl Http {
    fn connect(port: u16) -> Http {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Http(BufReader::new(stream))
    }

    /// The body of the response, which must be good.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n\r\n");
        self.0.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        self.0.read_line(&mut line).unwrap();
        assert!(line.contains(" 20"), "{line}");
        loop {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            match line.trim_end().to_ascii_lowercase().strip_prefix("content-length:") {
                Some(value) => length = value.trim().parse().unwrap(),
                None if line == "\r\n" => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

async fn connect(site: &Site) -> Client {
    let config =
        format!("host=127.0.0.1 port={} user=postgres password={PASSWORD} dbname=postgres", site.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs something while a document is written now and then, and returns how long each of those writes took to be in the target, in ms.
fn lags(runtime: &Runtime, site: &Site, port: u16, mut load: impl FnMut()) -> Vec<f64> {
    let (ends, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::<(u64, Instant)>::new()));
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut http = Http::connect(port);
            while !ends.load(Ordering::Relaxed) {
                let n = next.fetch_add(1, Ordering::Relaxed);
                http.ask("PUT", "/kv/d:probe", &format!("{{\"n\":{n}}}"));
                acknowledged.lock().unwrap().push((n, Instant::now()));
                std::thread::sleep(PROBE);
            }
        });
        let seen = scope.spawn(|| {
            let client = runtime.block_on(connect(site));
            let mut lags = Vec::new();
            loop {
                let ended = ends.load(Ordering::Relaxed);
                let row = runtime.block_on(
                    client.query_opt("SELECT (value->>'n')::bigint FROM t WHERE key = 'd:probe'", &[]),
                );
                let (now, there) =
                    (Instant::now(), row.unwrap().map_or(0, |row| row.get::<_, i64>(0) as u64));
                let mut waiting = acknowledged.lock().unwrap();
                waiting.retain(|(n, at)| {
                    let is_there = *n <= there;
                    if is_there {
                        lags.push((now - *at).as_secs_f64() * 1e3);
                    }
                    !is_there
                });
                if ended && waiting.is_empty() {
                    return lags;
                }
                drop(waiting);
                std::thread::sleep(LOOK);
            }
        });
        (0..ROUNDS).for_each(|_| load());
        ends.store(true, Ordering::Relaxed);
        seen.join().unwrap()
    })
}

/// As many clients write each update to the target themselves.
fn direct(runtime: &Runtime, site: &Site) -> Figure {
    let clients: u64 = CLIENTS.parse().unwrap();
    let mut latencies: Vec<f64> = runtime.block_on(async {
        let mut tasks = Vec::new();
        for seed in 0..clients {
            let client = connect(site).await;
            tasks.push(tokio::spawn(async move {
                let upsert = client.prepare(UPSERT).await.unwrap();
                let (mut random, mut latencies, since) = (Random(seed + 1), Vec::new(), Instant::now());
                while since.elapsed() < DIRECT {
                    let key = format!("d:{}", random.below(KEYS));
                    let value = format!("{{\"n\":{},\"text\":\"{TEXT}\"}}", random.below(1_000_000));
                    let started = Instant::now();
                    client.execute(&upsert, &[&key, &value]).await.unwrap();
                    latencies.push(started.elapsed().as_secs_f64() * 1e3);
                }
                latencies
            }));
        }
        let mut all = Vec::new();
        for task in tasks {
            all.append(&mut task.await.unwrap());
        }
        all
    });
    latencies.sort_by(f64::total_cmp);
    let p99_ms = latencies[(latencies.len() as f64 * 0.99) as usize];
    Figure { per_second: latencies.len() as f64 / DIRECT.as_secs_f64(), p99_ms }
}
