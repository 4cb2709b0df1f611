//! The steps that a store runs for a limiter, the same for every strategy.

use keystead_core::{Change, Millis, Step, Ttl};

use super::{Ask, Spent, Strategy};
use crate::decision::Decision;

/// Asks, and consumes when it is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Check<S> {
    /// The maths.
    pub strategy: S,
    /// What is asked.
    pub ask: Ask,
    /// The instant that counts, for one of several checks at one instant; else the store's.
    pub at: Option<Millis>,
}

impl<S: Strategy> Step for Check<S> {
    type State = S::State;
    type Reply = (Decision, Millis);

    /// Always inlined, with the maths of the small strategies: else the decision is copied on its way out.
    #[inline(always)]
    fn run(&self, state: Option<&S::State>, now: Millis) -> Change<S::State, Self::Reply> {
        let now = self.at.unwrap_or(now);
        let ruling = self.strategy.decide(state, now, &self.ask);
        match ruling.put {
            Some((state, ttl_ms)) => Change::Put(state, Ttl::Ms(ttl_ms), (ruling.decision, now)),
            None => Change::Keep((ruling.decision, now)),
        }
    }
}

/// Tells what a check would be answered, and consumes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Forecast<S> {
    /// The maths.
    pub strategy: S,
    /// What would be asked.
    pub ask: Ask,
    /// How long from now, in milliseconds.
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

/// Tells how things stand, and consumes nothing: whether the cost would pass, and what is left now.
#[derive(Clone, Copy, Debug)]
pub struct Peek<S> {
    /// The maths.
    pub strategy: S,
    /// What would be asked.
    pub ask: Ask,
}

impl<S: Strategy> Step for Peek<S> {
    type State = S::State;
    type Reply = (Decision, Millis);

    fn run(&self, state: Option<&S::State>, now: Millis) -> Change<S::State, Self::Reply> {
        let asked = self.strategy.decide(state, now, &self.ask).decision;
        // A denial tells what is left already; else what a check for nothing would find.
        let stands = if asked.allowed {
            self.strategy.decide(state, now, &Ask { cost: 0, ..self.ask }).decision
        } else {
            asked
        };
        Change::Keep((Decision { lease_id: None, ..stands }, now))
    }
}

/// Consumes, whether or not the limit admits it: what has happened already must be counted. The reply is whether this kind of
/// limit can owe.
#[derive(Clone, Copy, Debug)]
pub struct Charge<S> {
    /// The maths.
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

/// Gives back some of what a check consumed, as far as it still counts: for a combination that lost a race, and for an
/// estimate that was too high.
#[derive(Clone, Copy, Debug)]
pub struct Refund<S> {
    /// The maths.
    pub strategy: S,
    /// What is given back.
    pub ask: Ask,
    /// What it is some of.
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
