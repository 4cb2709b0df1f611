//! A store is synchronous exactly if it declares so; if it is not, a synchronous apply is an error and runs no step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::{Change, Code, StoreExt, Ttl, step_fn};

use super::{Case, Need};
use crate::failure::{Checked, expect_eq, expect_rejected};
use crate::scene::Scene;
use crate::steps::increment;

pub(super) const CASES: &[Case] = &[
    Case { name: "apply_sync_returns", needs: &[Need::Sync], run: |s| Box::pin(results(s)) },
    Case { name: "apply_sync_is_rejected", needs: &[Need::NoSync], run: |s| Box::pin(is_rejected(s)) },
];

async fn results(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let step = increment(Ttl::Never);
    for want in [1, 3, 5] {
        expect_eq("the synchronous reply", scene.store().apply_sync(&key, &step)?, want)?;
        expect_eq("the other reply", scene.apply(&key, &step).await?, want + 1)?;
    }
    Ok(())
}

async fn is_rejected(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let step = step_fn(move |_state: Option<&u64>, _now| {
        counted.fetch_add(1, Ordering::SeqCst);
        Change::Put(1u64, Ttl::Never, ())
    });
    expect_rejected("apply_sync", scene.store().apply_sync(&key, &step), Code::Unsupported)?;
    scene.expect_count("after the error", &key, None).await?;
    expect_eq("runs of a step that was rejected", runs.load(Ordering::SeqCst), 0)
}
