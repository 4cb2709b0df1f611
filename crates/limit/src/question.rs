//! One check of one limit that owns its data, so that it can run where its key is stored: in a job of a store, on a shard's thread.

use keystead_core::{Applies, Key, Millis, Result, Script, ScriptArg, ScriptReply, Step, Store, StoreExt};

use crate::decision::Decision;
use crate::strategy::{AnyStrategy, Ask, Check, Forecast, Peek, Refund, Spent, Strategy, with_strategy};

/// A check of a limit: its strategy, key and cost. It owns its data, so it can be sent to where the key is stored.
#[derive(Clone, Debug)]
pub struct Question {
    pub(crate) strategy: AnyStrategy,
    pub(crate) key: Key,
    pub(crate) ask: Ask,
    pub(crate) at: Option<Millis>,
}

impl Question {
    /// The key in the store, which a job that runs the check must include.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The same question at an instant that several share, instead of the store's.
    #[must_use]
    pub fn at(self, now: Millis) -> Self {
        Question { at: Some(now), ..self }
    }

    /// The same question for a lease that is already held: a `concurrency` limit renews it.
    #[must_use]
    pub fn renewing(mut self, lease_id: u64) -> Self {
        self.ask.lease_id = lease_id;
        self
    }

    /// Checks, and consumes if it is allowed. Returns the decision and its instant.
    ///
    /// # Errors
    /// The store's error.
    pub fn check(&self, held: &mut dyn Applies) -> Result<(Decision, Millis)> {
        with_strategy!(self.strategy, strategy => {
            held.apply(&self.key, &Check { strategy, ask: self.ask, at: self.at })
        })
    }

    /// The current state. Consumes nothing.
    ///
    /// # Errors
    /// The store's error.
    pub fn peek(&self, held: &mut dyn Applies) -> Result<(Decision, Millis)> {
        with_strategy!(self.strategy, strategy => {
            held.apply(&self.key, &Peek { strategy, ask: self.ask })
        })
    }

    /// What [`check`](Question::check) would return. Consumes nothing.
    ///
    /// # Errors
    /// The store's error.
    pub fn forecast(&self, held: &mut dyn Applies) -> Result<Decision> {
        with_strategy!(self.strategy, strategy => {
            held.apply(&self.key, &Forecast { strategy, ask: self.ask, after_ms: 0 })
        })
        .map(|(decision, _)| Decision { lease_id: None, ..decision })
    }

    /// The check as a script, and its arguments with which it consumes nothing.
    pub(crate) fn script(&self) -> Option<(Script, Vec<ScriptArg>)> {
        with_strategy!(self.strategy, strategy => {
            let idle = Ask { cost: 0, ..self.ask };
            Some((strategy.script(&self.ask)?, strategy.script(&idle)?.args))
        })
    }

    /// The decision of that script.
    pub(crate) fn script_decision(&self, reply: &ScriptReply<'_>) -> Option<Decision> {
        let (decision, _) = with_strategy!(self.strategy, strategy => {
            Check { strategy, ask: self.ask, at: self.at }.script_reply(reply)
        })?;
        Some(decision)
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

    /// Refunds what was consumed, as far as it still counts.
    pub(crate) async fn refund_on<S: Store + ?Sized>(&self, store: &S, spent: Spent) -> Result<()> {
        with_strategy!(self.strategy, strategy => {
            store.apply(&self.key, &Refund { strategy, ask: self.ask, spent }).await
        })
    }

    /// What this question has consumed, according to the decision that allowed it.
    pub(crate) fn spent(&self, decision: &Decision, at: Millis) -> Spent {
        Spent { units: self.ask.cost, at, until: Millis(decision.reset_at), given_back: 0 }
    }
}
