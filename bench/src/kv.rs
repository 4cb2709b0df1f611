//! `/kv` compared with etcd's JSON gateway, both over HTTP with wrk and both durable (etcd syncs its log before it responds): read,
//! write and compare-and-set with 1, 16 and 64 clients.
//!
//! Debian's etcd-server and wrk must be installed. A compare-and-set uses the version of the previous response, on a key of the
//! client's own, so that on both sides every one succeeds; the figures say how many did.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::keystead::Keystead;
use crate::report::is_wanted;

const KEYS: usize = 10_000;
const SECONDS: &str = "3s";
const ROUNDS: usize = 2;
const CLIENTS: [usize; 3] = [1, 16, 64];

/// A row: its name, and the Lua that builds a request for Keystead and for etcd. `key()` is a random key, `b64` its form for etcd.
const ROWS: [(&str, &str, &str); 2] = [
    (
        "read",
        r#"wrk.format("GET", "/kv/" .. key())"#,
        r#"wrk.format("POST", "/v3/kv/range", nil, '{"key":"' .. b64(key()) .. '"}')"#,
    ),
    (
        "write",
        r#"wrk.format("PUT", "/kv/" .. key(), nil, '{"n":12345,"s":"abcdefgh"}')"#,
        r#"wrk.format("POST", "/v3/kv/put", nil, '{"key":"' .. b64(key()) .. '","value":"' .. b64('{"n":12345,"s":"abcdefgh"}') .. '"}')"#,
    ),
];

/// One wrk connection is one client with a key of its own: a thread for each, so that its script follows the versions.
const OUR_CAS: &str = r#"
local version, key = nil, nil
function request()
  if not key then key = "cas:@RUN:" .. id end
  if not version then return wrk.format("PUT", "/kv/" .. key, nil, '{"n":12345,"s":"abcdefgh"}') end
  return wrk.format("PUT", "/kv/" .. key .. "?ifVersion=" .. version, nil, '{"n":12345,"s":"abcdefgh"}')
end
function response(status, headers, body)
  local v = body:match('"version":(%d+)')
  if (status == 200 or status == 201) and v then version = v; good = good + 1 end
end
"#;

const THEIR_CAS: &str = r#"
local version, key, value = 0, nil, nil
function request()
  if not key then key = b64("cas:@RUN:" .. id); value = b64('{"n":12345,"s":"abcdefgh"}') end
  return wrk.format("POST", "/v3/kv/txn", nil, '{"compare":[{"key":"' .. key .. '","target":"MOD","result":"EQUAL","modRevision":"' ..
    version .. '"}],"success":[{"requestPut":{"key":"' .. key .. '","value":"' .. value .. '"}}]}')
end
function response(status, headers, body)
  if status == 200 and body:find('"succeeded":true', 1, true) then
    version = body:match('"revision":"(%d+)"'); good = good + 1
  end
end
"#;

/// Requests of a row are built before the clock starts, so that wrk's own work is small and the same for both.
const PREPARED: &str = r#"
local made, next = {}, 0
local function key() return "doc:" .. math.random(@KEYS) end
function init() for i = 1, 5000 do made[i] = @REQUEST end end
function request() next = next % 5000 + 1; return made[next] end
"#;

const COMMON: &str = r#"
local chars = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
function b64(data)
  local bits = data:gsub('.', function(x)
    local r, b = '', x:byte()
    for i = 8, 1, -1 do r = r .. (b % 2 ^ i - b % 2 ^ (i - 1) > 0 and '1' or '0') end
    return r
  end) .. '0000'
  local out = bits:gsub('%d%d%d?%d?%d?%d?', function(x)
    if #x < 6 then return '' end
    local c = 0
    for i = 1, 6 do c = c + (x:sub(i, i) == '1' and 2 ^ (6 - i) or 0) end
    return chars:sub(c + 1, c + 1)
  end)
  return out .. ({ '', '==', '=' })[#data % 3 + 1]
end
good = 0
local threads, counter = {}, 0
function setup(thread) counter = counter + 1; thread:set("id", counter); table.insert(threads, thread) end
function done(summary, latency)
  local all = 0
  for _, thread in ipairs(threads) do all = all + (thread:get("good") or 0) end
  io.write(string.format("KEYSTEAD %f %f %d %f\n", summary.requests / summary.duration * 1e6, latency:percentile(99) / 1000,
    summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.timeout, all / summary.duration * 1e6))
end
"#;

#[derive(Clone, Copy, Default)]
struct Figure {
    per_second: f64,
    p99_ms: f64,
}

pub(crate) fn run() {
    let Some(etcd) = Etcd::start() else {
        return println!("etcd is not installed: apt-get install etcd-server");
    };
    let keystead = Keystead::start("fsync");
    fill(keystead.http_port, etcd.port);
    println!(
        "{:<6} {:>7} {:>12} {:>10} {:>7} {:>9} {:>9}",
        "", "clients", "keystead/s", "etcd/s", "ratio", "p99 ms", "etcd p99"
    );
    for clients in CLIENTS {
        for (name, ours, theirs) in ROWS {
            let prepared =
                |request: &str| PREPARED.replace("@KEYS", &KEYS.to_string()).replace("@REQUEST", request);
            row(name, clients, 1, |_| (prepared(ours), prepared(theirs)), (keystead.http_port, etcd.port));
        }
        let cas = |round: usize| {
            let run = format!("{clients}-{round}");
            (OUR_CAS.replace("@RUN", &run), THEIR_CAS.replace("@RUN", &run))
        };
        row("cas", clients, clients, cas, (keystead.http_port, etcd.port));
    }
}

/// Measures both sides in turn and prints the best of each.
fn row(
    name: &str,
    clients: usize,
    threads: usize,
    scripts: impl Fn(usize) -> (String, String),
    (our_port, their_port): (u16, u16),
) {
    if !is_wanted(&format!("{name} {clients}")) {
        return;
    }
    let (mut our_best, mut their_best) = (Figure::default(), Figure::default());
    for round in 0..ROUNDS {
        let (ours, theirs) = scripts(round);
        our_best = our_best.better(measure(our_port, clients, threads, &ours));
        their_best = their_best.better(measure(their_port, clients, threads, &theirs));
    }
    println!(
        "{name:<6} {clients:>7} {:>12.0} {:>10.0} {:>6.2}x {:>9.2} {:>9.2}",
        our_best.per_second,
        their_best.per_second,
        our_best.per_second / their_best.per_second,
        our_best.p99_ms,
        their_best.p99_ms
    );
}

impl Figure {
    fn better(self, other: Figure) -> Figure {
        if other.per_second > self.per_second { other } else { self }
    }
}

/// Writes every key on both sides, so that reads find something.
fn fill(our_port: u16, their_port: u16) {
    let (ours, theirs) = (
        r#"wrk.format("PUT", "/kv/doc:" .. i, nil, '{"n":12345,"s":"abcdefgh"}')"#,
        r#"wrk.format("POST", "/v3/kv/put", nil, '{"key":"' .. b64("doc:" .. i) .. '","value":"' .. b64('{"n":12345,"s":"abcdefgh"}') .. '"}')"#,
    );
    for (port, request) in [(our_port, ours), (their_port, theirs)] {
        let script =
            PREPARED.replace("5000", &KEYS.to_string()).replace("@KEYS", "1").replace("@REQUEST", request);
        measure(port, 64, 1, &script);
    }
}

fn measure(port: u16, connections: usize, threads: usize, script: &str) -> Figure {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(COMMON.as_bytes()).unwrap();
    file.write_all(script.as_bytes()).unwrap();
    let output = Command::new("wrk")
        .args(["-t", &threads.to_string(), "-c", &connections.to_string(), "-d", SECONDS, "-s"])
        .arg(file.path())
        .arg(format!("http://127.0.0.1:{port}"))
        .output()
        .expect("wrk must be installed: apt-get install wrk");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text
        .lines()
        .find_map(|line| line.strip_prefix("KEYSTEAD "))
        .unwrap_or_else(|| panic!("wrk: {output:?}"));
    let figures: Vec<f64> = figures.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    assert!(figures[2] < 1.0, "wrk saw errors: {text}");
    // If the script counts successes, that is the figure, and it must be nearly all.
    let per_second = if figures[3] > 0.0 { figures[3] } else { figures[0] };
    assert!(per_second > figures[0] * 0.95, "too few succeeded: {text}");
    Figure { per_second, p99_ms: figures[1] }
}

/// Debian's etcd with default settings: one member, its log synced before every response.
struct Etcd {
    server: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Etcd {
    fn start() -> Option<Self> {
        let free = || Some(TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port());
        let (port, peer_port) = (free()?, free()?);
        let dir = tempfile::tempdir().ok()?;
        let (clients, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
        let server = Command::new("etcd")
            .args(["--log-level", "error", "--name", "one", "--initial-cluster", &format!("one={peers}")])
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .arg("--data-dir")
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let etcd = Etcd { server, port, _dir: dir };
        for _ in 0..300 {
            std::thread::sleep(Duration::from_millis(20));
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                // It listens before it has a leader.
                std::thread::sleep(Duration::from_secs(2));
                return Some(etcd);
            }
        }
        None
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
