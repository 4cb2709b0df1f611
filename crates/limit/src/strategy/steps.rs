//! The steps that a store runs for a limiter, the same for every strategy.

use keystead_core::{Change, Millis, Script, ScriptReply, Step, Ttl};

use super::{Ask, Spent, Strategy};
use crate::decision::Decision;

/// Checks, and consumes if it is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Check<S> {
    /// The strategy.
    pub strategy: S,
    /// What is requested.
    pub ask: Ask,
    /// The instant of the check, if several share one; else the store's.
    pub at: Option<Millis>,
}

impl<S: Strategy> Step for Check<S> {
    type State = S::State;
    type Reply = (Decision, Millis);

    /// Always inlined, together with the small strategies: otherwise the decision is copied on return.
    #[inline(always)]
    fn run(&self, state: Option<&S::State>, now: Millis) -> Change<S::State, Self::Reply> {
        let now = self.at.unwrap_or(now);
        let ruling = self.strategy.decide(state, now, &self.ask);
        match ruling.put {
            Some((state, ttl_ms)) => Change::Put(state, Ttl::Ms(ttl_ms), (ruling.decision, now)),
            None => Change::Keep((ruling.decision, now)),
        }
    }

    fn script(&self) -> Option<Script> {
        Some(Script { at: self.at, ..self.strategy.script(&self.ask)? })
    }

    fn script_reply(&self, reply: &ScriptReply<'_>) -> Option<Self::Reply> {
        let (&[allowed, remaining, reset_at, retry_after_ms], others) = reply.numbers.split_first_chunk()?;
        let other = |place: usize| others.get(place).copied().unwrap_or(0);
        let decision = Decision {
            allowed: allowed == 1,
            retry_after_ms,
            delay_ms: other(0).checked_sub(1),
            lease_id: (other(1) == 1).then_some(self.ask.lease_id),
            ..Decision::allow(self.strategy.limit(), remaining, reset_at)
        };
        Some((decision, self.at.unwrap_or(reply.now)))
    }
}

/// Returns what a check would return, and consumes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Forecast<S> {
    /// The strategy.
    pub strategy: S,
    /// What would be requested.
    pub ask: Ask,
    /// In how many milliseconds from now.
    pub after_ms: u64,
}

impl<S: Strategy> Step for Forecast<S> {
    type State = S::State;
    type Reply = (Decision, Millis);

    fn run(&self, state: Option<&S::State>, now: Millis) -> Change<S::State, Self::Reply> {
        let then = now.plus_ms(self.after_ms);
        Change::Keep((self.strategy.decide(state, then, &self.ask).decision, then))
    }
}

/// Returns the current state, and consumes nothing: whether the cost would be allowed, and what remains.
#[derive(Clone, Copy, Debug)]
pub struct Peek<S> {
    /// The strategy.
    pub strategy: S,
    /// What would be requested.
    pub ask: Ask,
}

impl<S: Strategy> Step for Peek<S> {
    type State = S::State;
    type Reply = (Decision, Millis);

    fn run(&self, state: Option<&S::State>, now: Millis) -> Change<S::State, Self::Reply> {
        let decision = self.strategy.decide(state, now, &self.ask).decision;
        // A denial reports what remains; otherwise a check with a cost of 0 does.
        let current = if decision.allowed {
            self.strategy.decide(state, now, &Ask { cost: 0, ..self.ask }).decision
        } else {
            decision
        };
        Change::Keep((Decision { lease_id: None, ..current }, now))
    }
}

/// Consumes even beyond the limit: a cost that has occurred must be counted. The reply is whether this strategy has debts.
#[derive(Clone, Copy, Debug)]
pub struct Charge<S> {
    /// The strategy.
    pub strategy: S,
    /// What is consumed.
    pub ask: Ask,
}

impl<S: Strategy> Step for Charge<S> {
    type State = S::State;
    type Reply = bool;

    fn run(&self, state: Option<&S::State>, now: Millis) -> Change<S::State, bool> {
        match self.strategy.charge(state, now, &self.ask) {
            Some((state, ttl_ms)) => Change::Put(state, Ttl::Ms(ttl_ms), true),
            None => Change::Keep(false),
        }
    }
}

/// Refunds a part of what a check consumed, as far as it still counts: for a combination that lost a race, and for an estimate that
/// was too high.
#[derive(Clone, Copy, Debug)]
pub struct Refund<S> {
    /// The strategy.
    pub strategy: S,
    /// What is refunded.
    pub ask: Ask,
    /// What it is a part of.
    pub spent: Spent,
}

impl<S: Strategy> Step for Refund<S> {
    type State = S::State;
    type Reply = ();

    fn run(&self, state: Option<&S::State>, now: Millis) -> Change<S::State, ()> {
        match state.and_then(|state| self.strategy.refund(state, &self.spent, now, &self.ask)) {
            Some(state) => Change::Put(state, Ttl::Same, ()),
            None => Change::Keep(()),
        }
    }
}
