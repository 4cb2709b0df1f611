//! A bounded store evicts keys, but never invents one, never confuses two, and stays within its bound.

use keystead_core::Ttl;

use super::{Case, Need};
use crate::failure::{Checked, expect, expect_eq};
use crate::rng::{fresh_seed, seed_from_env};
use crate::scene::Scene;
use crate::steps::increment;
use crate::walk::{Plan, walk};

const CLOCK: &[Need] = &[Need::InjectedClock];

pub(super) const CASES: &[Case] = &[
    Case { name: "a_flood_stays_within_the_bound", needs: &[], run: |s| Box::pin(flood(s)) },
    Case { name: "the_newest_key_is_there", needs: &[], run: |s| Box::pin(newest(s)) },
    Case { name: "agrees_but_for_evictions", needs: CLOCK, run: |s| Box::pin(known_seed(s)) },
    Case { name: "agrees_but_for_evictions_on_a_fresh_seed", needs: CLOCK, run: |s| Box::pin(new_seed(s)) },
];

fn bound(scene: &Scene) -> usize {
    scene.max_keys().unwrap_or(usize::MAX)
}

async fn flood(scene: &Scene) -> Checked {
    let flood = bound(scene).saturating_mul(4).min(100_000) as u64;
    for i in 0..flood {
        scene.put(&scene.key(format!("spoofed {i}"))?, i, Ttl::Never).await?;
    }
    let mut live = 0;
    for i in 0..flood {
        if let Some(state) = scene.get::<u64>(&scene.key(format!("spoofed {i}"))?).await? {
            expect_eq("a surviving key's state", state, i)?;
            live += 1;
        }
    }
    expect(format_args!("{live} keys are live, at most {}", bound(scene)), live <= bound(scene))?;
    expect("some keys are live", live > 0)
}

async fn newest(scene: &Scene) -> Checked {
    let rounds = bound(scene).saturating_mul(2).min(10_000);
    for i in 0..rounds {
        let key = scene.key(format!("key {i}"))?;
        expect_eq("first", scene.apply(&key, &increment(Ttl::Never)).await?, 1)?;
        expect_eq("second", scene.apply(&key, &increment(Ttl::Never)).await?, 2)?;
    }
    Ok(())
}

async fn known_seed(scene: &Scene) -> Checked {
    walk(scene, &Plan::new(1).bounded(bound(scene))).await
}

async fn new_seed(scene: &Scene) -> Checked {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    walk(scene, &Plan::new(seed).bounded(bound(scene))).await
}
