//! A random walk: the same operations on a store and on an obviously correct model, compared after each.
//!
//! A failure names its seed; `KEYSTEAD_SEED=N` repeats it, `KEYSTEAD_OPS=N` makes walks longer.
//!
//! The contract leaves one thing open: if a key expired and was not accessed before the clock jumped back, it may exist or not,
//! because its space may or may not have been reclaimed. The model calls such a key *doubtful* and accepts either result of the
//! first access; after that the result must not change.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use keystead_core::{Change, Clock, Code, Key, Millis, Step, StoreExt, Ttl};

use crate::failure::{Checked, Failure, expect, expect_eq, expect_rejected};
use crate::rng::{Rng, SEED_VARIABLE};
use crate::scene::Scene;
use crate::setup::START;

/// The parameters of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The number of operations.
    pub ops: usize,
    /// The number of keys.
    pub keys: usize,
    /// The most keys that the store keeps. A bounded store may have evicted a key, and never has more.
    pub max_keys: Option<usize>,
}

impl Plan {
    /// A walk over a few keys, so that operations interact.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let ops = std::env::var("KEYSTEAD_OPS").ok().and_then(|ops| ops.trim().parse().ok());
        Plan { seed, ops: ops.unwrap_or(3000), keys: 24, max_keys: None }
    }

    /// The same on a store that keeps at most `max_keys`, over enough keys to make it evict.
    #[must_use]
    pub fn bounded(self, max_keys: usize) -> Self {
        Plan { keys: max_keys.saturating_mul(3).min(1000), max_keys: Some(max_keys), ..self }
    }
}

/// Runs a walk.
///
/// # Errors
/// At the first result that differs from the model's, with the seed and the last operations.
pub async fn walk(scene: &Scene, plan: &Plan) -> Checked {
    let mut walker = Walker::new(scene, plan)?;
    for _ in 0..plan.ops {
        let op = walker.choose();
        walker.history.push_back(format!("{op} at {:?}", scene.now()));
        if walker.history.len() > 12 {
            walker.history.pop_front();
        }
        let done = walker.perform(op).await;
        done.map_err(|failure| walker.explain(failure))?;
    }
    let all = walker.look_at_all().await;
    all.map_err(|failure| walker.explain(failure))
}

/// One operation of the walk.
#[derive(Clone, Copy, Debug)]
enum Op {
    Apply(usize, Act),
    WrongType(usize),
    Reset(usize),
    Advance(u64),
    JumpBack(u64),
    LookAtAll,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Apply(key, act) => write!(f, "apply {act:?} to key {key}"),
            Op::WrongType(key) => write!(f, "read key {key} as text"),
            Op::Reset(key) => write!(f, "reset key {key}"),
            Op::Advance(ms) => write!(f, "advance by {ms} ms"),
            Op::JumpBack(ms) => write!(f, "jump back by {ms} ms"),
            Op::LookAtAll => f.write_str("read all keys"),
        }
    }
}

/// The step of the walk. The model runs it too, so its results cannot differ.
#[derive(Clone, Copy, Debug)]
enum Act {
    Read,
    Add(Ttl),
    Put(u64, Ttl),
    /// Adds to an odd count, denies an even one.
    AddIfOdd(Ttl),
    DeleteIfEven,
    Delete,
}

/// What a step saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Saw {
    state: Option<u64>,
    now: Millis,
}

impl Step for Act {
    type State = u64;
    type Reply = Saw;

    fn run(&self, state: Option<&u64>, now: Millis) -> Change<u64, Saw> {
        let saw = Saw { state: state.copied(), now };
        let count = saw.state.unwrap_or(0);
        match *self {
            Act::Read => Change::Keep(saw),
            Act::Add(ttl) => Change::Put(count.wrapping_add(1), ttl, saw),
            Act::Put(new, ttl) => Change::Put(new, ttl, saw),
            Act::AddIfOdd(ttl) if !count.is_multiple_of(2) => Change::Put(count.wrapping_add(1), ttl, saw),
            Act::DeleteIfEven if count.is_multiple_of(2) => Change::Delete(saw),
            Act::AddIfOdd(_) | Act::DeleteIfEven => Change::Keep(saw),
            Act::Delete => Change::Delete(saw),
        }
    }
}

/// The model's state of a key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    state: u64,
    expires_at: Millis,
    /// It was past its expiry once and was not accessed then.
    doubtful: bool,
}

struct Walker<'a> {
    scene: &'a Scene,
    plan: &'a Plan,
    rng: Rng,
    keys: Vec<Key>,
    model: BTreeMap<usize, Entry>,
    history: VecDeque<String>,
}

impl<'a> Walker<'a> {
    fn new(scene: &'a Scene, plan: &'a Plan) -> Checked<Self> {
        let keys = (0..plan.keys).map(|i| scene.key(format!("walk {i}"))).collect::<Checked<_>>()?;
        let (model, history) = (BTreeMap::new(), VecDeque::new());
        Ok(Walker { scene, plan, rng: Rng::new(plan.seed), keys, model, history })
    }

    fn explain(&self, failure: Failure) -> Failure {
        let path: Vec<&str> = self.history.iter().map(String::as_str).collect();
        let seed = self.plan.seed;
        failure
            .context(format_args!("{SEED_VARIABLE}={seed}, after\n  {}\n", path.join("\n  ")))
            .with_seed(seed)
    }

    fn choose(&mut self) -> Op {
        let key = self.rng.below(self.keys.len() as u64) as usize;
        match self.rng.below(100) {
            0..70 => Op::Apply(key, self.choose_act()),
            70..75 => Op::WrongType(key),
            75..82 => Op::Reset(key),
            82..94 => Op::Advance(self.rng.span_ms()),
            94..99 => Op::JumpBack(self.rng.span_ms()),
            _ => Op::LookAtAll,
        }
    }

    fn choose_act(&mut self) -> Act {
        let ttl = match self.rng.below(10) {
            0..3 => Ttl::Never,
            3..6 => Ttl::Same,
            _ => Ttl::Ms(self.rng.span_ms()),
        };
        match self.rng.below(10) {
            0..2 => Act::Read,
            2..5 => Act::Add(ttl),
            5..7 => Act::Put(self.rng.next_u64(), ttl),
            7 => Act::AddIfOdd(ttl),
            8 => Act::DeleteIfEven,
            _ => Act::Delete,
        }
    }

    async fn perform(&mut self, op: Op) -> Checked {
        match op {
            Op::Apply(key, act) => self.apply(key, act).await,
            Op::WrongType(key) => self.wrong_type(key).await,
            Op::Reset(key) => self.reset(key).await,
            Op::LookAtAll => self.look_at_all().await,
            Op::Advance(ms) => {
                self.move_to(self.scene.now().plus_ms(ms));
                Ok(())
            }
            Op::JumpBack(ms) => {
                // Far enough from 0 for further jumps.
                self.move_to(Millis(self.scene.now().0.saturating_sub(ms).max(START.0 / 2)));
                Ok(())
            }
        }
    }

    fn move_to(&mut self, now: Millis) {
        self.scene.clock().set(now);
        for entry in self.model.values_mut() {
            entry.doubtful |= now >= entry.expires_at;
        }
    }

    /// The model's current state of a key, given the result of the store. An expired key is removed: from now on the store has reported
    /// that it does not exist.
    fn settle(&mut self, key: usize, there: bool) -> Option<Entry> {
        let may_be_lost = self.plan.max_keys.is_some();
        let entry = *self.model.get(&key)?;
        let expired = self.scene.clock().now() >= entry.expires_at;
        if expired || (!there && (entry.doubtful || may_be_lost)) {
            self.model.remove(&key);
            return None;
        }
        Some(entry)
    }

    async fn apply(&mut self, key: usize, act: Act) -> Checked {
        let saw = self.scene.apply(&self.keys[key], &act).await?;
        let entry = self.settle(key, saw.state.is_some());
        let want = Saw { state: entry.map(|e| e.state), now: self.scene.now() };
        expect_eq(format_args!("what {act:?} saw at key {key}"), saw, want)?;
        match act.run(want.state.as_ref(), want.now) {
            Change::Keep(_) => {}
            Change::Delete(_) => {
                self.model.remove(&key);
            }
            Change::Put(state, ttl, _) => {
                let before = entry.map_or(Millis::NEVER, |e| e.expires_at);
                let expires_at = ttl.expires_at(want.now, before);
                let before_was_doubtful = ttl == Ttl::Same && entry.is_some_and(|e| e.doubtful);
                let doubtful = before_was_doubtful || want.now >= expires_at;
                self.model.insert(key, Entry { state, expires_at, doubtful });
                if want.now < expires_at {
                    let stays = self.scene.get::<u64>(&self.keys[key]).await?;
                    expect_eq(format_args!("key {key} right after {act:?}"), stays, Some(state))?;
                }
            }
        }
        Ok(())
    }

    async fn wrong_type(&mut self, key: usize) -> Checked {
        let result = self.scene.store().get::<String>(&self.keys[key]).await;
        match self.settle(key, result.is_err()) {
            Some(_) => expect_rejected(format_args!("key {key} as text"), result, Code::WrongType),
            None => expect_eq(format_args!("key {key} as text"), result?, None),
        }
    }

    async fn reset(&mut self, key: usize) -> Checked {
        let there = self.scene.reset(&self.keys[key]).await?;
        let want = self.settle(key, there).is_some();
        self.model.remove(&key);
        expect_eq(format_args!("reset of key {key}"), there, want)
    }

    async fn look_at_all(&mut self) -> Checked {
        let mut live = 0;
        for key in 0..self.keys.len() {
            let saw = self.scene.get::<u64>(&self.keys[key]).await?;
            let want = self.settle(key, saw.is_some()).map(|e| e.state);
            expect_eq(format_args!("key {key}"), saw, want)?;
            live += usize::from(saw.is_some());
        }
        let max = self.plan.max_keys.unwrap_or(usize::MAX);
        expect(format_args!("{live} keys are live, at most {max}"), live <= max)
    }
}
