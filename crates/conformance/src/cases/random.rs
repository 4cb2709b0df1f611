//! Random sequences compared with a model: a fixed seed, and a fresh one.

use super::{Case, Need};
use crate::failure::Checked;
use crate::rng::{fresh_seed, seed_from_env};
use crate::scene::Scene;
use crate::walk::{Plan, walk};

const CLOCK: &[Need] = &[Need::InjectedClock];

pub(super) const CASES: &[Case] = &[
    Case { name: "agrees_with_the_model", needs: CLOCK, run: |s| Box::pin(known_seed(s)) },
    Case { name: "agrees_with_the_model_on_a_fresh_seed", needs: CLOCK, run: |s| Box::pin(new_seed(s)) },
];

async fn known_seed(scene: &Scene) -> Checked {
    walk(scene, &Plan::new(1)).await
}

async fn new_seed(scene: &Scene) -> Checked {
    walk(scene, &Plan::new(seed_from_env().unwrap_or_else(fresh_seed))).await
}
