//! `concurrency`: how many requests may run at the same time. A check acquires a lease, and the client releases it at the end.
//!
//! The state is the leases by id, each with its expiry, so that a client that crashed cannot hold its slot for ever. The caller
//! chooses the id before the check, so the lease of a request that is cancelled half way can still be released.

use keystead_core::{Change, Millis, Result, Script, Step, Ttl};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{AnyStrategy, Ask, Kind, Ruling, Spent, Strategy, script};
use crate::bounds::{LEASES_MAX, SCRIPT_ENTRIES_MAX, WHOLE_MAX};
use crate::decision::Decision;
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "concurrency",
    required: &["limit", "leaseMs"],
    optional: &[],
    about: "how many at the same time; a lease each, released or expired",
    example: r#"{"kind":"concurrency","limit":5,"leaseMs":1000}"#,
    build,
};

/// `limit` leases at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Concurrency {
    limit: u64,
    lease_ms: u64,
}

/// The leases that are held: (id, expiry), in the order in which they were granted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Leases {
    held: SmallVec<[(u64, u64); 8]>,
}

impl Leases {
    fn live(&self, now: Millis) -> impl Iterator<Item = &(u64, u64)> {
        self.held.iter().filter(move |(_, expires_at)| now.0 < *expires_at)
    }
}

impl Concurrency {
    /// `limit` leases at the same time, each for at most `lease_ms`.
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range.
    pub fn new(limit: u64, lease_ms: u64) -> Result<Self> {
        let limit = check::up_to("limit", limit, LEASES_MAX)?;
        Ok(Concurrency { limit, lease_ms: check::span_ms("leaseMs", lease_ms)? })
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    Ok(AnyStrategy::Concurrency(Concurrency::new(fields.whole("limit")?, fields.span_ms("leaseMs")?)?))
}

impl Strategy for Concurrency {
    type State = Leases;

    fn limit(&self) -> u64 {
        self.limit
    }

    /// A lease is one slot, whatever the cost. A check with the id of a lease that is held renews it, even if the limit has been lowered
    /// in the meantime: its holder is already running.
    fn decide(&self, state: Option<&Leases>, now: Millis, ask: &Ask) -> Ruling<Leases> {
        let now = Millis(now.0.min(WHOLE_MAX));
        let mut held: SmallVec<[(u64, u64); 8]> = SmallVec::new();
        let asks = ask.cost > 0;
        if let Some(leases) = state {
            held.extend(leases.live(now).filter(|(id, _)| !asks || *id != ask.lease_id).copied());
        }
        let taken = held.len() as u64;
        let renews = asks && state.is_some_and(|leases| leases.live(now).any(|(id, _)| *id == ask.lease_id));
        let last_expiry =
            |held: &[(u64, u64)]| held.iter().map(|lease| lease.1).max().unwrap_or(now.0).min(WHOLE_MAX);
        if asks && !renews && taken >= self.limit {
            let first_expiry = held.iter().map(|lease| lease.1).min().unwrap_or(now.0);
            return Ruling::deny(Decision::deny(
                self.limit,
                self.limit.saturating_sub(taken),
                last_expiry(&held),
                first_expiry.saturating_sub(now.0).min(WHOLE_MAX),
            ));
        }
        if asks {
            held.push((ask.lease_id, now.plus_ms(self.lease_ms).0));
        }
        let reset_at = last_expiry(&held);
        let mut decision =
            Decision::allow(self.limit, self.limit.saturating_sub(held.len() as u64), reset_at);
        decision.lease_id = asks.then_some(ask.lease_id);
        let ttl_ms = held.iter().map(|lease| lease.1).max().unwrap_or(now.0).saturating_sub(now.0).max(1);
        Ruling::allow(decision, Leases { held }, ttl_ms)
    }

    fn refund(&self, state: &Leases, _spent: &Spent, _now: Millis, ask: &Ask) -> Option<Leases> {
        let mut leases = state.clone();
        leases.held.retain(|(id, _)| *id != ask.lease_id);
        Some(leases)
    }

    fn charge(&self, _state: Option<&Leases>, _now: Millis, _ask: &Ask) -> Option<(Leases, u64)> {
        None
    }

    fn window_ms(&self) -> f64 {
        self.lease_ms as f64
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("concurrency.lua")];
        let args = [ask.cost.into(), self.limit.into(), self.lease_ms.into(), ask.lease_id.into()];
        (self.limit <= SCRIPT_ENTRIES_MAX).then(|| script("concurrency", SOURCE, args))
    }
}

/// Releases a lease. The reply is whether it was still held: a second release of the same lease frees nothing.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// The lease.
    pub lease_id: u64,
}

impl Step for Release {
    type State = Leases;
    type Reply = bool;

    fn run(&self, state: Option<&Leases>, now: Millis) -> Change<Leases, bool> {
        let Some(leases) = state.filter(|leases| leases.live(now).any(|(id, _)| *id == self.lease_id)) else {
            return Change::Keep(false);
        };
        let others = leases.live(now).filter(|(id, _)| *id != self.lease_id);
        let held: SmallVec<[(u64, u64); 8]> = others.copied().collect();
        match held.is_empty() {
            true => Change::Delete(true),
            false => Change::Put(Leases { held }, Ttl::Same, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::testing::{Lab, allow, deny, rejected};

    fn lease(lease_id: u64, decision: Decision) -> Decision {
        Decision { lease_id: Some(lease_id), ..decision }
    }

    #[test]
    fn leases_are_granted_released_once_and_expire() {
        let mut lab = Lab::new(Concurrency::new(2, 1000).unwrap());
        assert_eq!(lab.acquire(5000, 11), lease(11, allow(2, 1, 6000)));
        assert_eq!(lab.acquire(5400, 12), lease(12, allow(2, 0, 6400)));
        assert_eq!(lab.acquire(5500, 13), deny(2, 0, 6400, 500), "until the first expires");
        assert!(lab.run(5500, &Release { lease_id: 12 }));
        assert!(!lab.run(5500, &Release { lease_id: 12 }), "exactly once");
        assert!(!lab.run(5500, &Release { lease_id: 99 }));
        assert_eq!(lab.acquire(5500, 13), lease(13, allow(2, 0, 6500)));
        assert_eq!(lab.acquire(6000, 14), lease(14, allow(2, 0, 7000)), "11 was never released and expired");
        assert!(!lab.run(6000, &Release { lease_id: 11 }), "an expired lease is not freed again");
        assert!(lab.run(6000, &Release { lease_id: 13 }));
        assert!(lab.run(6000, &Release { lease_id: 14 }));
        assert_eq!(lab.state(), None);
    }

    #[test]
    fn the_same_id_is_the_same_lease() {
        let mut lab = Lab::new(Concurrency::new(1, 1000).unwrap());
        assert_eq!(lab.acquire(5000, 11), lease(11, allow(1, 0, 6000)));
        assert_eq!(lab.acquire(5900, 11), lease(11, allow(1, 0, 6900)), "renewed");
        assert_eq!(lab.acquire(6500, 12), deny(1, 0, 6900, 400));
    }

    #[test]
    fn a_lease_that_is_held_is_renewed_even_under_a_lower_limit() {
        let mut lab = Lab::new(Concurrency::new(3, 1000).unwrap());
        for lease_id in 1..=3 {
            assert!(lab.acquire(5000, lease_id).allowed);
        }
        let lower = Concurrency::new(1, 1000).unwrap();
        let renewed = lower.decide(lab.state(), Millis(5500), &Ask { cost: 1, lease_id: 2 });
        assert_eq!(renewed.decision, lease(2, allow(1, 0, 6500)));
        assert!(!lower.decide(lab.state(), Millis(5500), &Ask { cost: 1, lease_id: 4 }).decision.allowed);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        rejected(Concurrency::new(0, 1000), "limit must be");
        rejected(Concurrency::new(20_001, 1000), "limit must be");
        rejected(Concurrency::new(1, 0), "leaseMs must be");
        rejected(Concurrency::new(1, u64::MAX), "leaseMs must be");
    }
}
