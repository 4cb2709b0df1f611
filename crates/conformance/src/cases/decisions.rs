//! Limits decide on every store as they do in memory, and as the vectors say.

use super::{Case, Need};
use crate::decisions::timelines;
use crate::decisions::vectors::{self, Vectors};
use crate::failure::Checked;
use crate::rng::{fresh_seed, seed_from_env};
use crate::scene::Scene;

const CLOCK: &[Need] = &[Need::InjectedClock];

/// Timelines of each of the two cases.
const TIMELINES: u64 = 25;

pub(super) const CASES: &[Case] = &[
    Case { name: "vectors_of_gcra", needs: CLOCK, run: |s| Box::pin(of(s, &vectors::GCRA)) },
    Case { name: "vectors_of_token_bucket", needs: CLOCK, run: |s| Box::pin(of(s, &vectors::TOKEN_BUCKET)) },
    Case { name: "vectors_of_fixed_window", needs: CLOCK, run: |s| Box::pin(of(s, &vectors::FIXED_WINDOW)) },
    Case {
        name: "vectors_of_sliding_window",
        needs: CLOCK,
        run: |s| Box::pin(of(s, &vectors::SLIDING_WINDOW)),
    },
    Case {
        name: "vectors_of_sliding_window_log",
        needs: CLOCK,
        run: |s| Box::pin(of(s, &vectors::SLIDING_WINDOW_LOG)),
    },
    Case { name: "vectors_of_quota", needs: CLOCK, run: |s| Box::pin(of(s, &vectors::QUOTA)) },
    Case { name: "vectors_of_leaky_bucket", needs: CLOCK, run: |s| Box::pin(of(s, &vectors::LEAKY_BUCKET)) },
    Case { name: "agree_with_memory", needs: CLOCK, run: |s| Box::pin(from_seed(s, 1)) },
    Case {
        name: "agree_with_memory_on_a_fresh_seed",
        needs: CLOCK,
        run: |s| Box::pin(from_seed(s, seed_from_env().unwrap_or_else(fresh_seed))),
    },
];

async fn of(scene: &Scene, vectors: &Vectors) -> Checked {
    vectors::compare(scene.store(), &scene.clock(), scene.prefix(), vectors).await
}

async fn from_seed(scene: &Scene, first: u64) -> Checked {
    let seeds = (0..TIMELINES).map(|i| first.wrapping_add(i));
    timelines::compare(&**scene.store(), &scene.clock(), scene.prefix(), seeds).await
}
