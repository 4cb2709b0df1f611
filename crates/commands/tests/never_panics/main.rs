//! Random commands with random and hostile arguments, one after the other on one keyspace. Whatever is sent:
//!
//! - nothing panics, and the parts of the keyspace agree;
//! - an error, and a command that does not write, changes nothing;
//! - a command changes no key but those that its row declares;
//! - the recorded effects produce the same keyspace elsewhere, and a rollback leaves no trace;
//! - every reply can be encoded in RESP2 and RESP3.
//!
//! A failure prints its seed: `KEYSTEAD_SEED=N` repeats it, `KEYSTEAD_OPS=N` runs longer.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test that fails is read by people")]

mod pools;
mod syntax;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keystead_commands::conn::Conn;
use keystead_commands::hub::{Facts, Host, Hub};
use keystead_commands::session::Session;
use keystead_commands::spec::Run;
use keystead_commands::{Command, Ctx, Random, Reply, Spec, dispatch, table, wire};
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact};
use keystead_model::keyspace::Keyspace;
use keystead_testkit::rng::{Rng, SEED_VARIABLE, fresh_seed, seed_from_env};

use syntax::Requests;

const START: Millis = Millis(1_700_000_000_000);

/// The default number of commands.
const OPS_DEFAULT: usize = 20_000;

/// How often the copy is compared.
const COMPARE_EVERY: usize = 50;

/// How many of the last commands a failure prints.
const HISTORY_MAX: usize = 8;

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

/// The last commands; printed when the test fails, also by a panic.
struct History {
    seed: u64,
    lines: VecDeque<String>,
}

impl Drop for History {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines: Vec<_> = self.lines.iter().map(String::as_str).collect();
            eprintln!("{SEED_VARIABLE}={} walks again; last came\n  {}", self.seed, lines.join("\n  "));
        }
    }
}

struct Walk {
    rng: Rng,
    keys: Keyspace,
    /// A copy that applies the effects.
    copy: Keyspace,
    now: Millis,
    random: Random,
    hub: Hub,
    session: Session,
    requests: Requests,
    /// All keys that ever existed.
    names: BTreeSet<Bytes>,
    history: History,
    /// Replies that were not errors, by row.
    served: BTreeMap<&'static str, usize>,
}

#[test]
fn the_keyspace_stays_consistent_whatever_is_sent() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let ops = std::env::var("KEYSTEAD_OPS").ok().and_then(|ops| ops.trim().parse().ok());
    let rows: Vec<(usize, &'static Spec)> = (table::FAMILIES.iter().enumerate())
        .flat_map(|(family, (_, rows))| rows.iter().map(move |row| (family, row)))
        .flat_map(|(family, row)| match row.run {
            Run::Within(rows) => rows.iter().map(|row| (family, row)).collect(),
            Run::Control(_) => Vec::new(),
            _ => vec![(family, row)],
        })
        .collect();
    let mut walk = Walk::new(seed);
    for n in 0..ops.unwrap_or(OPS_DEFAULT) {
        let (family, row) = rows[walk.rng.below(rows.len() as u64) as usize];
        // Flushing is rare, or the keyspace would stay small.
        if row.name.starts_with("flush") && walk.rng.below(20) > 0 {
            continue;
        }
        let request = walk.requests.make(&mut walk.rng, row, family);
        walk.send(&request);
        if n % COMPARE_EVERY == 0 {
            walk.compare();
        }
    }
    walk.compare();
    walk.check_served(&rows);
}

impl Walk {
    fn new(seed: u64) -> Self {
        let hub = Hub::new(Box::new(StubHost));
        let client = hub.clients.add("127.0.0.1:5000".into(), "127.0.0.1:6379".into(), START, 100).unwrap();
        Walk {
            rng: Rng::new(seed),
            keys: Keyspace::in_memory(),
            copy: Keyspace::in_memory(),
            now: START,
            random: Random::new(seed),
            session: Session::new(client, true),
            hub,
            requests: Requests::new(),
            names: BTreeSet::new(),
            history: History { seed, lines: VecDeque::new() },
            served: BTreeMap::new(),
        }
    }

    fn send(&mut self, request: &[Vec<u8>]) {
        self.now =
            self.now.plus_ms(if self.rng.below(50) == 0 { self.rng.span_ms() } else { self.rng.below(30) });
        self.record(request);
        let command = Command::new(request);
        let Ok(spec) = dispatch::resolve(command.args()) else { return };
        // Mostly, expired keys are removed first, so that all effects of an error are seen.
        let tidy = self.rng.below(8) > 0;
        if tidy {
            self.reclaim();
        }
        self.follow();
        if self.rng.below(8) == 0 {
            self.run_in_vain(spec, &command);
        }
        let reply = self.run(spec, &command);
        self.keys.check().unwrap();
        if reply.is_error() || !spec.writes() {
            let wrong = self.keys.effects().iter().find(|effect| tidy || !is_reclaiming(&effect.fact));
            assert!(wrong.is_none(), "{} replies {reply:?} and leaves {wrong:?}", spec.full_name);
        }
        if !reply.is_error() {
            *self.served.entry(spec.full_name).or_default() += 1;
        }
        self.check_keys(spec, &command, &reply, tidy);
        self.follow();
    }

    fn record(&mut self, request: &[Vec<u8>]) {
        let words: Vec<_> = request.iter().map(|word| format!("'{}'", word.escape_ascii())).collect();
        self.history.lines.push_back(format!("{:?} {}", self.now, words.join(" ")));
        if self.history.lines.len() > HISTORY_MAX {
            self.history.lines.pop_front();
        }
    }

    fn run(&mut self, spec: &'static Spec, command: &Command) -> Reply {
        let reply = if matches!(spec.run, Run::Conn(_) | Run::Shared(_)) {
            let mut conn = Conn::new(&mut self.session, &self.hub, self.now);
            dispatch::run_conn(&mut conn, spec, command.args())
        } else {
            let mut ctx = Ctx::new(&mut self.keys, self.now, &mut self.random, &self.hub);
            ctx.woken = self.rng.below(10) == 0;
            dispatch::run_data(&mut ctx, spec, command.args())
        };
        for encode in [wire::resp2::encode, wire::resp3::encode] {
            encode(&reply, &mut Vec::new());
        }
        reply
    }

    /// Removes everything that is expired: the wheel what it knows to be due, a read the rest.
    fn reclaim(&mut self) {
        self.keys.reclaim(self.now, &mut { 1000 }).unwrap();
        for name in &self.names {
            self.keys.exists(name, self.now).unwrap();
        }
    }

    /// Runs a command and rolls it back.
    fn run_in_vain(&mut self, spec: &'static Spec, command: &Command) {
        let (before, revision) = (self.keys.dump().unwrap(), self.keys.revision());
        self.keys.savepoint();
        self.run(spec, command);
        self.keys.rollback();
        self.keys.check().unwrap();
        assert_eq!(self.keys.revision(), revision);
        assert!(self.keys.effects().is_empty() && self.keys.dump().unwrap() == before, "rolled back in part");
    }

    /// A row declares every key that a command changes, since that is how commands are routed to their shard.
    fn check_keys(&self, spec: &Spec, command: &Command, reply: &Reply, tidy: bool) {
        let Ok(keys) = spec.keys(command.args()) else {
            assert!(
                reply.is_error(),
                "{} replies though its keys cannot be found: {reply:?}",
                spec.full_name
            );
            return;
        };
        assert!(
            keys.iter().all(|at| *at < command.args().len()),
            "{} has no such arguments: {keys:?}",
            spec.full_name
        );
        let declared =
            |effect: &Effect| keys.iter().any(|at| command.args().at(*at) == effect.key.as_slice());
        let wrong = self.keys.effects().iter().find(|effect| {
            effect.fact != Fact::Flushed && !declared(effect) && (tidy || !is_reclaiming(&effect.fact))
        });
        assert!(wrong.is_none(), "{} does not declare the key of {wrong:?}", spec.full_name);
    }

    /// Applies the recorded effects to the copy.
    fn follow(&mut self) {
        let mut effects = Vec::new();
        self.keys.take_effects(&mut effects);
        for effect in &effects {
            self.copy.apply_effect(effect).unwrap();
            self.names.insert(effect.key.clone());
        }
    }

    /// A run in which everything fails shows nothing.
    fn check_served(&self, rows: &[(usize, &'static Spec)]) {
        let failing = rows.iter().filter(|(_, row)| !self.served.contains_key(row.full_name));
        let failing: Vec<_> = failing.map(|(_, row)| row.full_name).collect();
        let replies: usize = self.served.values().sum();
        println!("{replies} replies, {} keys; always failing: {failing:?}", self.keys.len());
        assert!(failing.len() * 5 <= rows.len(), "of {} rows were always failing: {failing:?}", rows.len());
    }

    fn compare(&mut self) {
        self.copy.check().unwrap();
        assert_eq!(self.copy.revision(), self.keys.revision());
        for (copied, key) in self.copy.dump().unwrap().iter().zip(&self.keys.dump().unwrap()) {
            assert_eq!(copied, key);
        }
        assert_eq!(self.copy.len(), self.keys.len());
    }
}

/// What a read of an expired key or field leaves.
fn is_reclaiming(fact: &Fact) -> bool {
    matches!(fact, Fact::Deleted | Fact::HashFieldDeleted(_))
}
