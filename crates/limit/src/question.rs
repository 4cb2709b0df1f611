//! One question to one limit, ready to be asked wherever its key is held: in a job of a store, on the thread of a shard.

use keystead_core::{Applies, Key, Millis, Result, Store, StoreExt};

use crate::decision::Decision;
use crate::strategy::{AnyStrategy, Ask, Check, Forecast, Peek, Refund, Spent, with_strategy};

/// A cost that is asked of a limit for a key. It owns everything, so it can go where the key is.
#[derive(Clone, Debug)]
pub struct Question {
    pub(crate) strategy: AnyStrategy,
    pub(crate) key: Key,
    pub(crate) ask: Ask,
    pub(crate) at: Option<Millis>,
}

impl Question {
    /// The key in the store: what a job that asks must hold.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The same question at an instant that several share, rather than at the store's.
    #[must_use]
    pub fn at(self, now: Millis) -> Self {
        Question { at: Some(now), ..self }
    }

    /// The same question for a lease that is held already: a `concurrency` limit renews it.
    #[must_use]
    pub fn renewing(mut self, lease_id: u64) -> Self {
        self.ask.lease_id = lease_id;
        self
    }

    /// Asks, and consumes when it is allowed. With the answer comes the instant at which it was decided.
    ///
    /// # Errors
    /// What the store says.
    pub fn check(&self, held: &mut dyn Applies) -> Result<(Decision, Millis)> {
        with_strategy!(self.strategy, strategy => {
            held.apply(&self.key, &Check { strategy, ask: self.ask, at: self.at })
        })
    }

    /// How things stand. Consumes nothing.
    ///
    /// # Errors
    /// What the store says.
    pub fn peek(&self, held: &mut dyn Applies) -> Result<(Decision, Millis)> {
        with_strategy!(self.strategy, strategy => {
            held.apply(&self.key, &Peek { strategy, ask: self.ask })
        })
    }

    /// What [`check`](Question::check) would answer. Consumes nothing.
    ///
    /// # Errors
    /// What the store says.
    pub fn forecast(&self, held: &mut dyn Applies) -> Result<Decision> {
        with_strategy!(self.strategy, strategy => {
            held.apply(&self.key, &Forecast { strategy, ask: self.ask, after_ms: 0 })
        })
        .map(|(decision, _)| Decision { lease_id: None, ..decision })
    }

    pub(crate) async fn check_on<S: Store + ?Sized>(&self, store: &S) -> Result<(Decision, Millis)> {
        with_strategy!(self.strategy, strategy => {
            store.apply(&self.key, &Check { strategy, ask: self.ask, at: self.at }).await
        })
    }

    pub(crate) async fn peek_on<S: Store + ?Sized>(&self, store: &S) -> Result<(Decision, Millis)> {
        with_strategy!(self.strategy, strategy => {
            store.apply(&self.key, &Peek { strategy, ask: self.ask }).await
        })
    }

    pub(crate) async fn forecast_on<S: Store + ?Sized>(&self, store: &S) -> Result<Decision> {
        let (decision, _) = with_strategy!(self.strategy, strategy => {
            store.apply(&self.key, &Forecast { strategy, ask: self.ask, after_ms: 0 }).await
        })?;
        Ok(Decision { lease_id: None, ..decision })
    }

    /// Gives back what was consumed, as far as it still counts.
    pub(crate) async fn refund_on<S: Store + ?Sized>(&self, store: &S, spent: Spent) -> Result<()> {
        with_strategy!(self.strategy, strategy => {
            store.apply(&self.key, &Refund { strategy, ask: self.ask, spent }).await
        })
    }

    /// What this question has consumed, by the decision that admitted it.
    pub(crate) fn spent(&self, decision: &Decision, at: Millis) -> Spent {
        Spent { units: self.ask.cost, at, until: Millis(decision.reset_at), given_back: 0 }
    }
}
