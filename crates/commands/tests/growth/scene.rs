//! A keyspace whose values have one size, and the time of a request on it. Changes of a request are rolled back.

use std::sync::Arc;
use std::time::Duration;

use keystead_commands::bounds::REPLY_BYTES_MAX;
use keystead_commands::conn::Conn;
use keystead_commands::hub::{Facts, Host, Hub};
use keystead_commands::meter::{self, ReplyBound};
use keystead_commands::session::Session;
use keystead_commands::spec::{Run, flag};
use keystead_commands::{Command, Ctx, Random, Reply, Spec, dispatch};
use keystead_core::{Millis, Stopwatch};
use keystead_model::keyspace::Keyspace;

const NOW: Millis = Millis(1_700_000_000_000);

struct StubHost;

impl Host for StubHost {
    fn needs_token(&self) -> bool {
        false
    }

    fn is_token(&self, _: &[u8]) -> bool {
        false
    }

    fn shards(&self) -> usize {
        1
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }
}

pub(super) struct Scene {
    size: usize,
    keys: Keyspace,
    random: Random,
    hub: Hub,
    session: Session,
}

/// The measurement of a request.
pub(super) struct Measured {
    /// Of the thread, if it is long.
    pub(super) time: Duration,
    /// Whether it succeeded.
    pub(super) served: bool,
    /// Bytes of the reply, or of as much of it as was built until it met its bound.
    pub(super) reply_bytes: usize,
}

/// The key names: each has one large value `name` and small ones `name:0`, `name:1` and so on.
pub(super) const KINDS: &[&str] = &["str", "list", "set", "zset", "hash", "stream", "json", "hll"];

impl Scene {
    pub(super) fn new(size: usize) -> Scene {
        let (hub, session) = connected(size);
        let mut scene = Scene { size, keys: Keyspace::in_memory(), random: Random::new(1), hub, session };
        scene.fill();
        scene
    }

    /// One value of each type with `size` elements, one of few elements with `size` bytes, and `size` small ones.
    fn fill(&mut self) {
        let size = self.size;
        let long = |n: usize| format!("{}{n}", "a".repeat(size));
        let member = |n: usize| format!("m{n}");
        for &kind in KINDS {
            for (key, count) in [(kind.to_owned(), size), (format!("{kind}:long"), 4)] {
                let member = |n: usize| if count == size { member(n) } else { long(n) };
                for n in 0..count {
                    self.add(kind, &key, n, &member(n));
                }
            }
            for n in 0..size {
                self.add(kind, &format!("{kind}:{n}"), n, &member(n));
            }
        }
        let text = "a".repeat(size);
        self.put(&["SET", "str", &text]);
        self.put(&["SET", "str:long", &text]);
        let numbers: Vec<_> = (0..size).map(|n| n.to_string()).collect();
        self.put(&["JSON.SET", "json", "$", &format!("{{\"a\":[{}],\"b\":{{}}}}", numbers.join(","))]);
        self.put(&["XGROUP", "CREATE", "stream", "g0", "0"]);
        self.put(&[
            "XREADGROUP",
            "GROUP",
            "g0",
            "g0",
            "COUNT",
            &(size / 2).to_string(),
            "STREAMS",
            "stream",
            ">",
        ]);
        let mut effects = Vec::new();
        self.keys.take_effects(&mut effects);
    }

    fn add(&mut self, kind: &str, key: &str, n: usize, member: &str) {
        let score = (n % 170).to_string();
        match kind {
            "str" => self.put(&["SET", key, member]),
            // Every other element is the same, so that there are many matches.
            "list" if n % 2 == 1 => self.put(&["RPUSH", key, "m0"]),
            "list" => self.put(&["RPUSH", key, member]),
            "set" => self.put(&["SADD", key, member]),
            "zset" => self.put(&["ZADD", key, &score, member]),
            "hash" => self.put(&["HSET", key, member, member]),
            "stream" => self.put(&["XADD", key, &format!("{}-1", n + 1), "f", member]),
            "json" if n == 0 => self.put(&["JSON.SET", key, "$", "{\"a\":[1,2,3],\"b\":{\"a\":\"x\"}}"]),
            "hll" => self.put(&["PFADD", key, member]),
            _ => {}
        }
    }

    fn put(&mut self, words: &[&str]) {
        let command = Command::new(words);
        let spec = dispatch::resolve(command.args()).unwrap();
        let mut ctx = Ctx::new(&mut self.keys, NOW, &mut self.random, &self.hub);
        let reply = dispatch::run_data(&mut ctx, spec, command.args());
        assert!(!reply.is_error(), "{words:?}: {reply:?}");
    }

    /// The minimum time of several rounds.
    pub(super) fn measure(&mut self, spec: &'static Spec, request: &[Vec<u8>], rounds: usize) -> Measured {
        let mut measured = Measured { time: Duration::MAX, served: false, reply_bytes: 0 };
        for _ in 0..rounds {
            // Effects on the connection or the server stay, except subscriptions.
            if spec.flags.has(flag::PUBSUB) && !matches!(spec.run, Run::Data(_)) {
                (self.hub, self.session) = connected(self.size);
            }
            let command = Command::new(request);
            self.keys.savepoint();
            let (watch, used) = (Stopwatch::start(), processor_time());
            let reply = self.run(spec, &command, ReplyBound::default());
            let mut time = watch.elapsed();
            // Other processes interrupt a long request, not a short one, so that its growth would be theirs.
            if let (true, Some(before), Some(after)) = (time > LONG, used, processor_time()) {
                time = time.min(after.saturating_sub(before));
            }
            self.keys.rollback();
            measured.time = measured.time.min(time);
            measured.served |= !reply.is_error();
            measured.reply_bytes = measured.reply_bytes.max(built_bytes(&reply));
        }
        measured
    }

    pub(super) fn run_within(&mut self, spec: &'static Spec, request: &[Vec<u8>], bytes: usize) -> Reply {
        self.keys.savepoint();
        let reply = self.run(spec, &Command::new(request), ReplyBound::new(bytes));
        self.keys.rollback();
        reply
    }

    fn run(&mut self, spec: &'static Spec, command: &Command, bound: ReplyBound) -> Reply {
        let spec = dispatch::resolve(command.args()).unwrap_or(spec);
        if !matches!(spec.run, Run::Data(_)) {
            let mut conn = Conn::new(&mut self.session, &self.hub, NOW);
            return dispatch::run_conn(&mut conn, spec, command.args());
        }
        let mut ctx = Ctx::new(&mut self.keys, NOW, &mut self.random, &self.hub);
        ctx.reply = bound;
        dispatch::run_data(&mut ctx, spec, command.args())
    }
}

/// Times from here on are times of the processor. Linux counts those in ticks of up to ten milliseconds.
const LONG: Duration = Duration::from_millis(100);

/// The time that this thread has used the processor, where the system says it.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// A connection with many subscriptions.
fn connected(size: usize) -> (Hub, Session) {
    let hub = Hub::new(Box::new(StubHost));
    let client = hub.clients.add("127.0.0.1:5000".into(), "127.0.0.1:6379".into(), NOW, 100).unwrap();
    let mut session = Session::new(Arc::clone(&client), true);
    for name in ["SUBSCRIBE", "PSUBSCRIBE"] {
        let names = (0..size).map(|n| format!("m{n}"));
        let command = Command::new(std::iter::once(name.to_owned()).chain(names));
        let spec = dispatch::resolve(command.args()).unwrap();
        dispatch::run_conn(&mut Conn::new(&mut session, &hub, NOW), spec, command.args());
    }
    (hub, session)
}

/// The bytes that were copied for a reply, also if it then met its bound and was replaced by an error.
fn built_bytes(reply: &Reply) -> usize {
    match reply {
        Reply::Error(fail) if fail.line() == meter::too_large(REPLY_BYTES_MAX).line() => REPLY_BYTES_MAX,
        reply => held_bytes(reply),
    }
}

/// The bytes of the strings in a reply. Integers and nulls have bounds of their own: arguments, or matches of a path.
pub(super) fn held_bytes(reply: &Reply) -> usize {
    match reply {
        Reply::Bulk(bytes) => bytes.len(),
        Reply::Array(parts) | Reply::Set(parts) | Reply::Push(parts) | Reply::Several(parts) => {
            parts.iter().map(held_bytes).sum()
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Dict(pairs) => {
            pairs.iter().map(|(name, value)| held_bytes(name) + held_bytes(value)).sum()
        }
        _ => 0,
    }
}
