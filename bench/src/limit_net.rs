//! Rate limits over the network at 50 connections: `THROTTLE` over RESP compared with the same command of throttlecrab and a script
//! on Redis, pipelines of 1 and 16; and a check over HTTP compared with throttlecrab's.
//!
//! The limit is never reached, so every check writes. throttlecrab and this Redis keep everything in memory; Keystead runs at
//! `memory` and at `commit`, where an acknowledged check survives the process. The servers alternate, `ROUNDS` times; the best
//! round of each is reported.

use crate::keystead::Keystead;
use crate::redis::Redis;
use crate::report::is_wanted;
use crate::resp::{Figure, ROUNDS};
use crate::throttlecrab::Throttlecrab;
use crate::{lua, resp, rest};

const LEVELS: [&str; 2] = ["memory", "commit"];
const CONNECTIONS: &str = "50";

/// Burst, units of a period, and its seconds. A key does not expire between two checks.
const NUMBERS: [&str; 3] = ["1000000", "100", "60"];

/// The fastest of throttlecrab's stores in this benchmark.
const STORE: &str = "adaptive";

/// The same limit as a policy of the server's limit API, by where its state is: in the database, or in memory.
const POLICIES: [(&str, &str); 2] = [("limit", "engine"), ("limit-memory", "memory")];

/// One request over HTTP: to the limit API, to the Upstash-compatible REST API, to throttlecrab.
const TO_LIMIT: &str =
    r#"wrk.format("POST", "/limit/bench", JSON, '{"key":"user:' .. math.random(KEYS) .. '"}')"#;
const TO_REST: &str =
    r#"wrk.format("POST", "/", JSON, '["THROTTLE","user:' .. math.random(KEYS) .. '",1000000,100,60]')"#;
const TO_THROTTLECRAB: &str = r#"wrk.format("POST", "/throttle", JSON, '{"key":"user:' .. math.random(KEYS) .. '","max_burst":1000000,"count_per_period":100,"period":60}')"#;

/// The peers that are installed.
struct Peers {
    throttlecrab: Option<Throttlecrab>,
    /// Redis, and the SHA1 of the script in it.
    redis: Option<(Redis, String)>,
}

pub(crate) fn run() {
    let throttlecrab = Throttlecrab::start(STORE);
    if throttlecrab.is_none() {
        println!("throttlecrab-server is not installed: cargo install throttlecrab-server");
    }
    let redis = Redis::start().map(|redis| {
        let digits = lua::load(redis.port);
        (redis, digits)
    });
    if redis.is_none() {
        println!("redis-server is not installed: apt-get install redis-server");
    }
    let peers = Peers { throttlecrab, redis };
    println!(
        "{:<13} {:<7} {:>4} {:>11} {:>8} {:>14} {:>8} {:>6} {:>11} {:>9} {:>6}",
        "api",
        "level",
        "pipe",
        "keystead/s",
        "p99 ms",
        "throttlecrab/s",
        "p99 ms",
        "ratio",
        "redis+lua/s",
        "p99 ms",
        "ratio"
    );
    for level in LEVELS {
        over_resp(level, &peers);
        over_http(level, &peers);
    }
}

fn over_resp(level: &str, peers: &Peers) {
    let keystead = Keystead::start(level);
    let throttle = [&["THROTTLE", "user:__rand_int__"][..], &NUMBERS].concat();
    for (pipeline, requests) in [(1, 100_000), (16, 200_000)] {
        let label = format!("resp {level} {pipeline}");
        if !is_wanted(&label) {
            continue;
        }
        let mut best = Best::default();
        for _ in 0..ROUNDS {
            best.ours(resp::measure(keystead.port, pipeline, requests, &throttle));
            if let Some(throttlecrab) = &peers.throttlecrab {
                best.throttlecrab(resp::measure(throttlecrab.port, pipeline, requests, &throttle));
            }
            if let Some((redis, digits)) = &peers.redis {
                let evalsha = [&["EVALSHA", digits, "1", "user:__rand_int__"][..], &NUMBERS, &["1"]].concat();
                best.redis(resp::measure(redis.port, pipeline, requests, &evalsha));
            }
        }
        best.print("resp", level, pipeline);
    }
}

fn over_http(level: &str, peers: &Peers) {
    if is_wanted(&format!("rest {level} 1")) {
        http_row("rest", level, &Keystead::start(level), TO_REST, peers);
    }
    for (api, store) in POLICIES {
        if !is_wanted(&format!("{api} {level} 1")) {
            continue;
        }
        let policy = format!(
            "[limit.bench]\nkind = \"gcra\"\nlimit = 100\nperiodMs = \"60s\"\nburst = 1000000\nfail = \"closed\"\nstore = \"{store}\"\n"
        );
        match Keystead::start_with(level, &policy) {
            Some(keystead) => http_row(api, level, &keystead, TO_LIMIT, peers),
            None => println!("{api:<13} {level:<7} this server has no policies in its settings"),
        }
    }
}

fn http_row(api: &str, level: &str, keystead: &Keystead, request: &str, peers: &Peers) {
    let measure = |port, request| rest::measure(port, CONNECTIONS, request, 1.0);
    let mut best = Best::default();
    for _ in 0..ROUNDS {
        best.ours(measure(keystead.http_port, request));
        if let Some(throttlecrab) = &peers.throttlecrab {
            best.throttlecrab(measure(throttlecrab.http_port, TO_THROTTLECRAB));
        }
    }
    best.print(api, level, 1);
}

/// The best round of each.
#[derive(Default)]
struct Best {
    ours: Figure,
    throttlecrab: Option<Figure>,
    redis: Option<Figure>,
}

impl Best {
    fn ours(&mut self, figure: Figure) {
        self.ours = self.ours.better(figure);
    }

    fn throttlecrab(&mut self, figure: Figure) {
        self.throttlecrab = Some(self.throttlecrab.unwrap_or_default().better(figure));
    }

    fn redis(&mut self, figure: Figure) {
        self.redis = Some(self.redis.unwrap_or_default().better(figure));
    }

    fn print(&self, api: &str, level: &str, pipeline: u32) {
        let of = |peer: Option<Figure>| match peer {
            Some(peer) => {
                let ratio = format!("{:.2}x", self.ours.per_second / peer.per_second);
                [format!("{:.0}", peer.per_second), format!("{:.2}", peer.p99_ms), ratio]
            }
            None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
        };
        let ([crab, crab_p99, crab_ratio], [redis, redis_p99, redis_ratio]) =
            (of(self.throttlecrab), of(self.redis));
        println!(
            "{api:<13} {level:<7} {pipeline:>4} {:>11.0} {:>8.2} {crab:>14} {crab_p99:>8} {crab_ratio:>6} {redis:>11} \
             {redis_p99:>9} {redis_ratio:>6}",
            self.ours.per_second, self.ours.p99_ms
        );
    }
}
