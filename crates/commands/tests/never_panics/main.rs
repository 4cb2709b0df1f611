//! Random commands with random and hostile arguments, one after the other on one keyspace. Whatever is sent:
//!
//! - nothing panics, and the parts of the keyspace agree;
//! - a refusal, and a command that does not write, changes nothing;
//! - a command changes no key but those that its row tells;
//! - the recorded effects give the same keyspace elsewhere, and what is rolled back leaves no trace;
//! - every answer has a form in RESP2 and RESP3.
//!
//! A failure names its seed: `KEYSTEAD_SEED=N` walks it again, `KEYSTEAD_OPS=N` walks farther.

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

/// How many commands are sent when nobody says.
const OPS_DEFAULT: usize = 20_000;

/// How often the copy is compared.
const COMPARE_EVERY: usize = 50;

/// How many of the last commands a failure tells.
const TOLD: usize = 8;

struct Nobody;

impl Host for Nobody {
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

/// The last commands; it tells them when the test fails, by a panic of whatever depth.
struct Told {
    seed: u64,
    lines: VecDeque<String>,
}

impl Drop for Told {
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
    /// Follows the effects.
    copy: Keyspace,
    now: Millis,
    random: Random,
    hub: Hub,
    session: Session,
    requests: Requests,
    /// Every key that ever was.
    names: BTreeSet<Bytes>,
    told: Told,
    /// Answers that were no refusals, by row.
    served: BTreeMap<&'static str, usize>,
}

#[test]
fn whatever_is_sent_the_keyspace_holds() {
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
        // Removing everything is rare, or there would never be much.
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
        let hub = Hub::new(Box::new(Nobody));
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
            told: Told { seed, lines: VecDeque::new() },
            served: BTreeMap::new(),
        }
    }

    fn send(&mut self, request: &[Vec<u8>]) {
        self.now =
            self.now.plus_ms(if self.rng.below(50) == 0 { self.rng.span_ms() } else { self.rng.below(30) });
        self.tell(request);
        let command = Command::new(request);
        let Ok(spec) = dispatch::resolve(command.args()) else { return };
        // Mostly what is expired goes first, so that what is left of a refusal is seen to the last effect.
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
            assert!(wrong.is_none(), "{} answers {reply:?} and leaves {wrong:?}", spec.full_name);
        }
        if !reply.is_error() {
            *self.served.entry(spec.full_name).or_default() += 1;
        }
        self.check_keys(spec, &command, &reply, tidy);
        self.follow();
    }

    fn tell(&mut self, request: &[Vec<u8>]) {
        let words: Vec<_> = request.iter().map(|word| format!("'{}'", word.escape_ascii())).collect();
        self.told.lines.push_back(format!("{:?} {}", self.now, words.join(" ")));
        if self.told.lines.len() > TOLD {
            self.told.lines.pop_front();
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

    /// Takes out everything that is expired: the wheel what it knows to be due, a look the rest.
    fn reclaim(&mut self) {
        self.keys.reclaim(self.now, &mut { 1000 }).unwrap();
        for name in &self.names {
            self.keys.exists(name, self.now).unwrap();
        }
    }

    /// Runs a command and takes it back.
    fn run_in_vain(&mut self, spec: &'static Spec, command: &Command) {
        let (before, revision) = (self.keys.dump().unwrap(), self.keys.revision());
        self.keys.savepoint();
        self.run(spec, command);
        self.keys.rollback();
        self.keys.check().unwrap();
        assert_eq!(self.keys.revision(), revision);
        assert!(self.keys.effects().is_empty() && self.keys.dump().unwrap() == before, "rolled back in part");
    }

    /// A row tells every key that a command changes, since that is how commands find their shard.
    fn check_keys(&self, spec: &Spec, command: &Command, reply: &Reply, tidy: bool) {
        let Ok(keys) = spec.keys(command.args()) else {
            assert!(
                reply.is_error(),
                "{} answers though its keys cannot be found: {reply:?}",
                spec.full_name
            );
            return;
        };
        assert!(
            keys.iter().all(|at| *at < command.args().len()),
            "{} has no such arguments: {keys:?}",
            spec.full_name
        );
        let told = |effect: &Effect| keys.iter().any(|at| command.args().at(*at) == effect.key.as_slice());
        let wrong = self.keys.effects().iter().find(|effect| {
            effect.fact != Fact::Flushed && !told(effect) && (tidy || !is_reclaiming(&effect.fact))
        });
        assert!(wrong.is_none(), "{} does not tell the key of {wrong:?}", spec.full_name);
    }

    /// Gives the copy what was recorded.
    fn follow(&mut self) {
        let mut effects = Vec::new();
        self.keys.take_effects(&mut effects);
        for effect in &effects {
            self.copy.apply_effect(effect).unwrap();
            self.names.insert(effect.key.clone());
        }
    }

    /// A walk on which everything is refused shows nothing.
    fn check_served(&self, rows: &[(usize, &'static Spec)]) {
        let refused = rows.iter().filter(|(_, row)| !self.served.contains_key(row.full_name));
        let refused: Vec<_> = refused.map(|(_, row)| row.full_name).collect();
        let answers: usize = self.served.values().sum();
        println!("{answers} answers, {} keys; always refused: {refused:?}", self.keys.len());
        assert!(refused.len() * 5 <= rows.len(), "of {} rows were always refused: {refused:?}", rows.len());
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

/// What a look at an expired key or field leaves.
fn is_reclaiming(fact: &Fact) -> bool {
    matches!(fact, Fact::Deleted | Fact::HashFieldDeleted(_))
}
