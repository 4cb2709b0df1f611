//! One policy on one store: check, check many, peek, forecast, reset, release.
//!
//! The store supplies the time and runs the step; a limiter only builds the key, chooses the step, and fails open or closed. It
//! reads its own clock only when the store has failed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{
    Applies, Clock, Code, Error, Key, MemoryStore, Millis, Result, Step, Store, StoreExt, SystemClock,
};

use crate::bounds::{CHECK_MANY_MAX, WHOLE_MAX};
use crate::client::HiddenKeys;
use crate::decision::Decision;
use crate::fail_mode::{FailMode, is_broken, open_decision};
use crate::lease::LeaseIds;
use crate::policy::Policy;
use crate::question::Question;
use crate::reserve::ledger_key;
use crate::strategy::{AnyStrategy, Ask, Check, Forecast, Peek, Release, Strategy, with_strategy};

/// Spawns a future that runs in the background.
pub type Spawn = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync>;

/// One policy on one store.
///
/// `S` is any store, including one chosen at run time (`Arc<dyn Store>`).
pub struct Limiter<S> {
    store: S,
    policy: Policy,
    fail: FailMode,
    prefix: Box<[u8]>,
    hidden: Option<HiddenKeys>,
    clock: Arc<dyn Clock>,
    ids: LeaseIds,
    spawn: Option<Spawn>,
    owns_store: bool,
}

impl Limiter<MemoryStore> {
    /// A limiter with a store of its own in memory, which it closes.
    #[must_use]
    pub fn in_memory(policy: impl Into<Policy>, fail: FailMode) -> Self {
        Limiter { owns_store: true, ..Limiter::new(policy, MemoryStore::new(), fail) }
    }
}

impl<S: Store> Limiter<S> {
    /// A limiter on a store that others may share. `fail` applies when the store fails and the policy has no `fail` of its own.
    pub fn new(policy: impl Into<Policy>, store: S, fail: FailMode) -> Self {
        let policy = policy.into();
        Limiter {
            store,
            fail: policy.fail().unwrap_or(fail),
            policy,
            prefix: Box::from(*b"limit"),
            hidden: None,
            clock: Arc::new(SystemClock),
            ids: LeaseIds::default(),
            spawn: None,
            owns_store: false,
        }
    }

    /// The prefix of every key (default `limit`). Two policies on one store need two prefixes.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.prefix = prefix.as_ref().into();
        self
    }

    /// Stores only a keyed hash of every key.
    #[must_use]
    pub fn hide_keys(mut self, hidden: HiddenKeys) -> Self {
        self.hidden = Some(hidden);
        self
    }

    /// The clock that is read when the store has failed (default: the system's clock).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How a dropped [`Lease`](crate::Lease) is released on an asynchronous store, for example
    /// `Arc::new(|release| drop(tokio::spawn(release)))`.
    #[must_use]
    pub fn spawn_with(mut self, spawn: Spawn) -> Self {
        self.spawn = Some(spawn);
        self
    }

    /// The source of lease ids (default: random ones). They must be unique among all processes that share the store.
    #[must_use]
    pub fn lease_ids(mut self, ids: LeaseIds) -> Self {
        self.ids = ids;
        self
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.ids.next()
    }

    #[cfg(feature = "tower")]
    pub(crate) fn local_clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn spawner(&self) -> Option<&Spawn> {
        self.spawn.as_ref()
    }

    /// Checks the limit, and consumes `cost` units if the decision is to allow.
    ///
    /// # Errors
    /// `bad_request` or `too_large` for an invalid key or cost; the store's error when it fails and the limiter fails closed.
    pub async fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        // A synchronous store needs no state across an await.
        if self.store.capabilities().sync {
            return self.check_sync(key, cost);
        }
        let (key, ask) = (self.key(key.as_ref())?, self.ask(cost)?);
        self.settled(self.run(&key, ask, None).await).map(|(decision, _)| decision)
    }

    /// The same without a runtime, on a synchronous store.
    ///
    /// # Errors
    /// As [`check`](Limiter::check), and `unsupported` on an asynchronous store.
    #[inline]
    pub fn check_sync(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        let ask = self.ask(cost)?;
        // A match, because `?` would copy the key.
        match self.key(key.as_ref()) {
            Ok(ref key) => {
                with_strategy!(self.policy.strategy(), strategy => self.check_now(strategy, key, ask))
            }
            Err(error) => Err(error),
        }
    }

    /// A function for each strategy, so that each keeps only its own numbers in registers.
    #[inline(never)]
    fn check_now<T: Strategy>(&self, strategy: &T, key: &Key, ask: Ask) -> Result<Decision> {
        match self.store.apply_sync(key, &Check { strategy: strategy.clone(), ask, at: None }) {
            Ok((decision, _)) => Ok(decision),
            Err(error) => self.without_store(error).map(|(decision, _)| decision),
        }
    }

    /// Checks until it is allowed, with `sleep` in between, but waits no longer than `at_most_ms` in total: then it returns the last
    /// denial. A cost that can never be allowed returns at once.
    ///
    /// ```
    /// use keystead_limit::strategy::Gcra;
    /// use keystead_limit::{FailMode, Limiter};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # runtime.block_on(async {
    /// let limiter = Limiter::in_memory(Gcra::new(100, 1000, Some(1))?, FailMode::Closed);
    /// for _ in 0..3 {
    ///     assert!(limiter.wait("ada", 1, 5_000, tokio::time::sleep).await?.allowed);
    /// }
    /// # Ok::<(), keystead_core::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`check`](Limiter::check).
    pub async fn wait<F: Future>(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        at_most_ms: u64,
        sleep: impl Fn(Duration) -> F,
    ) -> Result<Decision> {
        let mut left_ms = at_most_ms;
        loop {
            let decision = self.check(key.as_ref(), cost).await?;
            let wait_ms = decision.retry_after_ms;
            // A shaper accepts any cost, and a lease is one slot; the other strategies never allow a cost above their limit.
            let can_pass = match self.policy.strategy() {
                AnyStrategy::LeakyBucket(_) | AnyStrategy::Concurrency(_) => true,
                strategy => cost <= strategy.limit(),
            };
            if decision.allowed || !can_pass || wait_ms > left_ms {
                return Ok(decision);
            }
            left_ms -= wait_ms;
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Checks several keys, each with its cost, at one instant. The decisions are in the order of the keys.
    ///
    /// On a store that can run steps [together](keystead_core::Together) this reads the clock once and is atomic.
    ///
    /// # Errors
    /// As [`check`](Limiter::check), and `too_large` for too many keys. Invalid keys and costs are found before anything is
    /// consumed; when a store that cannot run steps together fails half way, the first keys have been consumed.
    pub async fn check_many<K: AsRef<[u8]>>(&self, keys: &[(K, u64)]) -> Result<Vec<Decision>> {
        if keys.len() > CHECK_MANY_MAX {
            let message =
                format!("max keys of one check exceeded. Limit: {CHECK_MANY_MAX}, Actual: {}", keys.len());
            return Err(Error::new(Code::TooLarge, message));
        }
        let questions: Vec<Question> =
            keys.iter().map(|(key, cost)| self.question(key, *cost)).collect::<Result<_>>()?;
        if !questions.is_empty() {
            let result = self.many_together(&questions).await;
            if !matches!(&result, Err(error) if error.code() == Code::Unsupported) {
                return self.settle_many(result, questions.len());
            }
        }
        let count = questions.len();
        let mut decisions = Vec::with_capacity(count);
        let mut at = None;
        for question in questions {
            let question = Question { at, ..question };
            let (decision, now) = self.settled(question.check_on(&self.store).await)?;
            if decision.failed_open {
                // Each of the others could wait for the store's deadline as well.
                decisions.resize(count, decision);
                break;
            }
            at = at.or(Some(now));
            decisions.push(decision);
        }
        Ok(decisions)
    }

    async fn many_together(&self, questions: &[Question]) -> Result<Vec<Decision>> {
        let keys: Vec<Key> = questions.iter().map(|question| question.key.clone()).collect();
        let questions = questions.to_vec();
        let job = move |held: &mut dyn Applies| {
            questions.iter().map(|question| question.check(held).map(|(decision, _)| decision)).collect()
        };
        together(&self.store, &keys, job).await
    }

    fn settle_many(&self, result: Result<Vec<Decision>>, count: usize) -> Result<Vec<Decision>> {
        result.or_else(|error| self.without_store(error).map(|(open, _)| vec![open; count]))
    }

    /// The current state: whether one more unit would be allowed, and what remains. Consumes nothing.
    ///
    /// # Errors
    /// As [`check`](Limiter::check).
    pub async fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision> {
        let (key, ask) = (self.key(key.as_ref())?, self.ask(1)?);
        let result = with_strategy!(self.policy.strategy(), strategy => {
            self.store.apply(&key, &Peek { strategy: *strategy, ask }).await
        });
        self.settled(result).map(|(decision, _)| decision)
    }

    /// What [`check`](Limiter::check) would return now. Consumes nothing.
    ///
    /// # Errors
    /// As [`check`](Limiter::check).
    pub async fn forecast(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        self.forecast_in(key, cost, 0).await
    }

    /// What [`check`](Limiter::check) would return in `after_ms` milliseconds if there is no other check before. Consumes nothing.
    ///
    /// # Errors
    /// As [`check`](Limiter::check).
    pub async fn forecast_in(&self, key: impl AsRef<[u8]>, cost: u64, after_ms: u64) -> Result<Decision> {
        let (key, ask) = (self.key(key.as_ref())?, self.ask(cost)?);
        let result = with_strategy!(self.policy.strategy(), strategy => {
            self.store.apply(&key, &Forecast { strategy: *strategy, ask, after_ms }).await
        });
        let (decision, _) = self.settled(result)?;
        Ok(Decision { lease_id: None, ..decision })
    }

    /// Deletes the state of a key. Returns whether there was one.
    ///
    /// # Errors
    /// The store's error, whether the limiter fails open or closed.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = self.key(key.as_ref())?;
        // Reservations are deleted too. A key too long for a ledger has none.
        if let Ok(ledger) = ledger_key(&key) {
            self.store.reset(&ledger).await?;
        }
        self.store.reset(&key).await
    }

    /// Releases a lease of a `concurrency` policy. Returns whether it was still held.
    ///
    /// # Errors
    /// `unsupported` for another kind of policy, or the store's error. A lease that could not be released expires.
    pub async fn release(&self, key: impl AsRef<[u8]>, lease_id: u64) -> Result<bool> {
        if !matches!(self.policy.strategy(), AnyStrategy::Concurrency(_)) {
            let message = format!("a {} policy has no leases to release", self.policy.kind());
            return Err(Error::new(Code::Unsupported, message));
        }
        self.apply(&self.key(key.as_ref())?, &Release { lease_id }).await
    }

    /// Closes the store if this limiter created it; a store that was passed in stays open.
    ///
    /// # Errors
    /// The store's error.
    pub async fn close(&self) -> Result<()> {
        match self.owns_store {
            true => self.store.close().await,
            false => Ok(()),
        }
    }

    /// A check of this limiter that owns its data, to be run where the key is stored.
    ///
    /// # Errors
    /// `bad_request` or `too_large` for an invalid key or cost.
    pub fn question(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Question> {
        let (key, ask) = (self.key(key.as_ref())?, self.ask(cost)?);
        Ok(Question { strategy: *self.policy.strategy(), key, ask, at: None })
    }

    /// Runs a [question](Limiter::question) of this limiter as a check. Returns the decision and its instant.
    ///
    /// # Errors
    /// As [`check`](Limiter::check).
    pub async fn check_question(&self, question: &Question) -> Result<(Decision, Millis)> {
        self.settled(question.check_on(&self.store).await)
    }

    /// Runs a [question](Limiter::question) of this limiter as a peek. Returns the decision and its instant.
    ///
    /// # Errors
    /// As [`check`](Limiter::check).
    pub async fn peek_question(&self, question: &Question) -> Result<(Decision, Millis)> {
        self.settled(question.peek_on(&self.store).await)
    }

    /// The result of this limiter for a store's result: it fails open or closed.
    ///
    /// # Errors
    /// The error, when the limiter fails closed or the store has not failed.
    #[inline]
    pub fn settled(&self, result: Result<(Decision, Millis)>) -> Result<(Decision, Millis)> {
        match result {
            Ok(result) => Ok(result),
            Err(error) => self.without_store(error),
        }
    }

    /// The decision for a store's error, if this limiter fails open and the store has failed.
    #[must_use]
    pub fn open_for(&self, error: &Error) -> Option<(Decision, Millis)> {
        (is_broken(error) && self.fail == FailMode::Open).then(|| {
            let now = self.clock.now();
            (open_decision(self.policy.limit(), now.0), now)
        })
    }

    /// The check with the instant at which it was decided, for headers.
    pub(crate) async fn check_timed(&self, key: &Key, ask: Ask) -> Result<(Decision, Millis)> {
        self.settled(self.run(key, ask, None).await)
    }

    pub(crate) async fn run(&self, key: &Key, ask: Ask, at: Option<Millis>) -> Result<(Decision, Millis)> {
        with_strategy!(self.policy.strategy(), strategy => {
            self.store.apply(key, &Check { strategy: *strategy, ask, at }).await
        })
    }

    pub(crate) async fn apply<T: Step>(&self, key: &Key, step: &T) -> Result<T::Reply> {
        self.store.apply(key, step).await
    }

    /// The key in the store.
    #[inline]
    pub(crate) fn key(&self, key: &[u8]) -> Result<Key> {
        store_key(&self.prefix, self.hidden.as_ref(), key)
    }

    #[inline]
    pub(crate) fn ask(&self, cost: u64) -> Result<Ask> {
        let lease_id = match self.policy.strategy() {
            AnyStrategy::Concurrency(_) => self.ids.next(),
            _ => 0,
        };
        ask(cost, lease_id)
    }

    #[cold]
    fn without_store(&self, error: Error) -> Result<(Decision, Millis)> {
        self.open_for(&error).ok_or(error)
    }
}

/// Runs `job` with exclusive access to `keys`.
///
/// # Errors
/// `unsupported` on a store that runs one step at a time, or the store's error.
pub(crate) async fn together<S: Store + ?Sized, R: Send + 'static>(
    store: &S,
    keys: &[Key],
    job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static,
) -> Result<R> {
    match store.together() {
        Some(store) => store.apply_together(keys, job).await,
        None => Err(Error::new(Code::Unsupported, "this store runs one step at a time")),
    }
}

#[inline]
pub(crate) fn store_key(prefix: &[u8], hidden: Option<&HiddenKeys>, key: &[u8]) -> Result<Key> {
    match hidden {
        None => Key::join(prefix, key),
        Some(hidden) => hidden_key(prefix, hidden, key),
    }
}

#[inline(never)]
fn hidden_key(prefix: &[u8], hidden: &HiddenKeys, key: &[u8]) -> Result<Key> {
    match key {
        // An empty key is rejected before it is hashed.
        [] => Key::join(prefix, b""),
        key => Key::join(prefix, hidden.hide(key)),
    }
}

#[inline]
pub(crate) fn ask(cost: u64, lease_id: u64) -> Result<Ask> {
    match (1..=WHOLE_MAX).contains(&cost) {
        true => Ok(Ask { cost, lease_id }),
        false => Err(Error::new(
            Code::BadRequest,
            format!("cost must be a whole number from 1 to {WHOLE_MAX}, not {cost}"),
        )),
    }
}

#[cfg(test)]
mod tests;
