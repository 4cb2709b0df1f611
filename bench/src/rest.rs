//! The Upstash-compatible REST API compared with webdis in front of a real redis-server, with wrk: GET and SET of random keys and
//! pipelines of 20 commands, at 1 and 50 connections.
//!
//! webdis has no request of several commands, and 20 pipelined HTTP requests make it slower (22 instead of 45 thousand a second), so
//! our pipelines are compared with its single requests. Its Redis stores nothing on disk, while Keystead runs at `fsync` as well as at
//! `memory`. The servers alternate, `ROUNDS` times; the best round of each is reported.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::keystead::Keystead;
use crate::redis::Redis;
use crate::report::is_wanted;
use crate::resp::Figure;

const KEYS: usize = 100_000;
const ROUNDS: usize = 3;
const SECONDS: &str = "2";
const PIPELINE: usize = 20;

/// A row: its name, and the Lua expression of one request for each server.
type Row = (&'static str, f64, &'static str, &'static str);

const ROWS: [Row; 4] = [
    (
        "get",
        1.0,
        r#"wrk.format("GET", "/get/key:" .. math.random(KEYS))"#,
        r#"wrk.format("GET", "/GET/key:" .. math.random(KEYS))"#,
    ),
    (
        "set",
        1.0,
        r#"wrk.format("POST", "/", nil, '["SET","key:' .. math.random(KEYS) .. '","xxx"]')"#,
        r#"wrk.format("GET", "/SET/key:" .. math.random(KEYS) .. "/xxx")"#,
    ),
    (
        "get x20",
        PIPELINE as f64,
        r#"wrk.format("POST", "/pipeline", nil, many('["GET","key:', '"]'))"#,
        r#"wrk.format("GET", "/GET/key:" .. math.random(KEYS))"#,
    ),
    (
        "set x20",
        PIPELINE as f64,
        r#"wrk.format("POST", "/pipeline", nil, many('["SET","key:', '","xxx"]'))"#,
        r#"wrk.format("GET", "/SET/key:" .. math.random(KEYS) .. "/xxx")"#,
    ),
];

/// Requests are built before the clock starts, so that wrk's own work is small and the same for both.
const SCRIPT: &str = r#"
local KEYS, N = @KEYS, @N
local JSON = { ["Content-Type"] = "application/json" }
local function many(before, after)
  local all = {}
  for i = 1, N do all[i] = before .. math.random(KEYS) .. after end
  return "[" .. table.concat(all, ",") .. "]"
end
local made, next = {}, 0
function init() for i = 1, 5000 do made[i] = @REQUEST end end
function request() next = next % 5000 + 1; return made[next] end
function done(summary, latency)
  io.write(string.format("KEYSTEAD %f %f %d\n", summary.requests / summary.duration * 1e6,
    latency:percentile(99) / 1000, summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
"#;

pub(crate) fn run() {
    let Some(redis) = Redis::start() else { return println!("redis-server is not installed") };
    let Some(webdis) = Webdis::start(redis.port) else { return println!("webdis is not installed") };
    println!(
        "{:<8} {:>6} {:<8} {:>13} {:>13} {:>6} {:>9} {:>10}",
        "level", "conns", "", "keystead/s", "webdis/s", "ratio", "p99 ms", "webdis p99"
    );
    for level in ["fsync", "memory"] {
        let keystead = Keystead::start(level);
        for connections in ["1", "50"] {
            for (name, commands, ours, theirs) in ROWS {
                if !is_wanted(&format!("{level} {connections} {name}")) {
                    continue;
                }
                let (mut our_best, mut their_best) = (Figure::default(), Figure::default());
                for _ in 0..ROUNDS {
                    // wrk counts a response as a request: ours to a pipeline is for all its commands.
                    our_best = our_best.better(measure(keystead.http_port, connections, ours, commands));
                    their_best = their_best.better(measure(webdis.port, connections, theirs, 1.0));
                }
                println!(
                    "{level:<8} {connections:>6} {name:<8} {:>13.0} {:>13.0} {:>5.2}x {:>9.2} {:>10.2}",
                    our_best.per_second,
                    their_best.per_second,
                    our_best.per_second / their_best.per_second,
                    our_best.p99_ms,
                    their_best.p99_ms
                );
            }
        }
    }
}

/// Runs wrk for a while. `request` is the Lua expression of one request, which has this many commands.
pub(crate) fn measure(port: u16, connections: &str, request: &str, commands: f64) -> Figure {
    measure_for(SECONDS, port, connections, request, commands)
}

/// The same for so long.
pub(crate) fn measure_for(
    seconds: &str,
    port: u16,
    connections: &str,
    request: &str,
    commands: f64,
) -> Figure {
    let mut script = tempfile::NamedTempFile::new().unwrap();
    let text = SCRIPT.replace("@REQUEST", request).replace("@KEYS", &KEYS.to_string());
    script.write_all(text.replace("@N", &PIPELINE.to_string()).as_bytes()).unwrap();
    let output = Command::new("wrk")
        .args(["-t", "1", "-c", connections, "-d", seconds, "-s"])
        .arg(script.path())
        .arg(format!("http://127.0.0.1:{port}"))
        .output()
        .expect("wrk must be installed: apt-get install wrk");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures =
        text.lines().find_map(|line| line.strip_prefix("KEYSTEAD ")).expect("wrk prints its figures");
    let figures: Vec<f64> = figures.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    assert!(figures[2] < 1.0, "wrk saw errors: {text}");
    Figure { per_second: figures[0] * commands, p99_ms: figures[1] }
}

/// Debian's webdis with as many threads as there are cores, in front of a Redis.
struct Webdis {
    server: Child,
    port: u16,
    _config: tempfile::NamedTempFile,
}

impl Webdis {
    fn start(redis_port: u16) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let mut config = tempfile::NamedTempFile::new().ok()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        write!(
            config,
            r#"{{"redis_host":"127.0.0.1","redis_port":{redis_port},"http_host":"127.0.0.1","http_port":{port},
            "threads":{cores},"pool_size":20,"daemonize":false,"websockets":false,"database":0,
            "acl":[{{"enabled":["*"]}}],"verbosity":0,"logfile":"/dev/null"}}"#
        )
        .ok()?;
        let server = Command::new("webdis")
            .arg(config.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(20));
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Webdis { server, port, _config: config });
            }
        }
        None
    }
}

impl Drop for Webdis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
