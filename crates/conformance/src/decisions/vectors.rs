//! Decision vectors: recorded requests with the decisions that every store must return, in `vectors/*.ndjson`.
//!
//! A line `{"policy":{..}}` begins a history with no state; the lines after it are requests as `keystead limit replay` reads them, with the
//! decision as it prints it. `vectors/make.py` calculates them from the formulas of the strategies, without any code of this workspace.

use std::sync::Arc;

use keystead_core::{ManualClock, Millis, Store};
use keystead_limit::lease::LeaseIds;
use keystead_limit::{Decision, FailMode, Limiter, Policy};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::{Checked, Failure};

/// The vectors of one strategy.
pub struct Vectors {
    /// The kind of the policies.
    pub kind: &'static str,
    /// The lines.
    pub text: &'static str,
}

/// All vectors.
pub static VECTORS: &[Vectors] =
    &[GCRA, TOKEN_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_WINDOW_LOG, QUOTA, LEAKY_BUCKET];

macro_rules! vectors {
    ($($name:ident = $kind:literal;)*) => {$(
        /// The vectors of this strategy.
        pub const $name: Vectors =
            Vectors { kind: $kind, text: include_str!(concat!("../../vectors/", $kind, ".ndjson")) };
    )*};
}

vectors! {
    GCRA = "gcra";
    TOKEN_BUCKET = "tokenBucket";
    FIXED_WINDOW = "fixedWindow";
    SLIDING_WINDOW = "slidingWindow";
    SLIDING_WINDOW_LOG = "slidingWindowLog";
    QUOTA = "quota";
    LEAKY_BUCKET = "leakyBucket";
}

/// A line of a file.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Policy { policy: Value },
    Request { now: u64, key: String, cost: u64, decision: Decision },
}

/// Runs vectors on `store`, whose clock is `clock`, under keys of `prefix`.
///
/// # Errors
/// At the first decision that differs, with its line.
pub async fn compare(
    store: &Arc<dyn Store>,
    clock: &ManualClock,
    prefix: &str,
    vectors: &Vectors,
) -> Checked {
    let mut limiter: Option<Limiter<Arc<dyn Store>>> = None;
    for (i, text) in vectors.text.lines().enumerate() {
        let place = format!("vectors/{}.ndjson:{}", vectors.kind, i + 1);
        let invalid = |error: &dyn std::fmt::Display| Failure::new(format_args!("{place}: {error}"));
        match serde_json::from_str(text).map_err(|error| invalid(&error))? {
            Line::Policy { policy } => {
                let policy = Policy::from_json_value(&policy).map_err(|error| invalid(&error))?;
                let fresh = Limiter::new(policy, Arc::clone(store), FailMode::Closed);
                limiter = Some(fresh.lease_ids(LeaseIds::of_node(0)).prefix(format!("{prefix}:{i}")));
            }
            Line::Request { now, key, cost, decision } => {
                let Some(limiter) = &limiter else { return Err(invalid(&"there is no policy before it")) };
                clock.set(Millis(now));
                let got = limiter.check(&key, cost).await?.to_json()?;
                let expected = decision.to_json()?;
                if got != expected {
                    return Err(Failure::differs(place, expected, got));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use keystead_limit::strategy::KINDS;

    use super::*;

    /// A decision of a lease contains its id, which is random.
    const WITHOUT_VECTORS: &str = "concurrency";

    #[test]
    fn every_kind_of_policy_has_vectors() {
        let has = |kind: &str| kind == WITHOUT_VECTORS || VECTORS.iter().any(|vectors| vectors.kind == kind);
        let missing: Vec<&str> = KINDS.iter().map(|kind| kind.name).filter(|kind| !has(kind)).collect();
        assert!(missing.is_empty(), "no vectors of {missing:?}");
    }

    #[test]
    fn every_file_has_histories_with_allowed_and_denied_checks_of_its_kind() {
        for vectors in VECTORS {
            let (mut policies, mut allowed, mut denied) = (0, 0, 0);
            for text in vectors.text.lines() {
                match serde_json::from_str(text).unwrap() {
                    Line::Policy { policy } => {
                        policies += 1;
                        assert_eq!(policy["kind"], vectors.kind);
                    }
                    Line::Request { decision, .. } if decision.allowed => allowed += 1,
                    Line::Request { .. } => denied += 1,
                }
            }
            assert!(
                policies >= 3 && allowed > 30 && denied > 30,
                "{}: {policies} {allowed} {denied}",
                vectors.kind
            );
        }
    }
}
