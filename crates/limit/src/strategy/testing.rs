//! Shared by the tests of all strategies: one key, without a store.

use keystead_core::{Change, Code, Millis, Result, Step, Ttl};

use super::{Ask, Check, Strategy};
use crate::decision::Decision;

/// One key: its state, when it expires, and its last TTL.
pub(crate) struct Lab<S: Strategy> {
    strategy: S,
    state: Option<S::State>,
    expires_at: Millis,
    ttl_ms: u64,
}

impl<S: Strategy> Lab<S> {
    pub(crate) fn new(strategy: S) -> Self {
        Lab { strategy, state: None, expires_at: Millis::NEVER, ttl_ms: 0 }
    }

    pub(crate) fn check(&mut self, now: u64, cost: u64) -> Decision {
        self.ask(now, Ask::units(cost))
    }

    pub(crate) fn acquire(&mut self, now: u64, lease_id: u64) -> Decision {
        self.ask(now, Ask { cost: 1, lease_id })
    }

    fn ask(&mut self, now: u64, ask: Ask) -> Decision {
        let step = Check { strategy: self.strategy.clone(), ask, at: None };
        let before = self.expires_at;
        let (decision, _) = self.run(now, &step);
        assert_eq!(decision.retry_after_ms == 0, decision.allowed);
        assert!(decision.allowed || self.expires_at == before, "a denial changes nothing");
        decision
    }

    pub(crate) fn run<T: Step<State = S::State>>(&mut self, now: u64, step: &T) -> T::Reply {
        let now = Millis(now);
        let state = self.state.as_ref().filter(|_| now < self.expires_at);
        match step.run(state, now) {
            Change::Keep(reply) => reply,
            Change::Delete(reply) => {
                self.state = None;
                reply
            }
            Change::Put(state, ttl, reply) => {
                self.state = Some(state);
                self.expires_at = ttl.expires_at(now, self.expires_at);
                if let Ttl::Ms(ms) = ttl {
                    self.ttl_ms = ms;
                }
                reply
            }
        }
    }

    pub(crate) fn state(&self) -> Option<&S::State> {
        self.state.as_ref()
    }

    pub(crate) fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }
}

pub(crate) fn allow(limit: u64, remaining: u64, reset_at: u64) -> Decision {
    Decision::allow(limit, remaining, reset_at)
}

pub(crate) fn deny(limit: u64, remaining: u64, reset_at: u64, retry_after_ms: u64) -> Decision {
    Decision::deny(limit, remaining, reset_at, retry_after_ms)
}

/// Asserts that a strategy is rejected, with this text in the reason.
#[track_caller]
pub(crate) fn rejected<S: std::fmt::Debug>(built: Result<S>, word: &str) {
    let error = built.unwrap_err();
    assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    assert!(error.message().contains(word), "{error}");
}
