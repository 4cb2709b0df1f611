//! A closed store returns an error with the outcome `NotApplied`, and never hangs.

use keystead_core::{Code, StoreExt, Ttl};

use super::Case;
use crate::failure::{Checked, Failure, expect_rejected};
use crate::scene::Scene;
use crate::steps::increment;

pub(super) const CASES: &[Case] = &[
    Case { name: "a_closed_store_returns_an_error", needs: &[], run: |s| Box::pin(fails(s)) },
    Case { name: "closing_twice_is_harmless", needs: &[], run: |s| Box::pin(twice(s)) },
];

async fn fails(scene: &Scene) -> Checked {
    let (key, store) = (scene.key("key")?, scene.store());
    scene.put(&key, 1u64, Ttl::Never).await?;
    store.close().await?;
    expect_rejected("an apply", store.apply(&key, &increment(Ttl::Never)).await, Code::StoreUnavailable)?;
    expect_rejected("a look", store.get::<u64>(&key).await, Code::StoreUnavailable)?;
    expect_rejected("a reset", store.reset(&key).await, Code::StoreUnavailable)?;
    if store.capabilities().sync {
        let result = store.apply_sync(&key, &increment(Ttl::Never));
        expect_rejected("a synchronous apply", result, Code::StoreUnavailable)?;
    }
    Ok(())
}

async fn twice(scene: &Scene) -> Checked {
    scene.store().close().await?;
    match scene.store().close().await {
        Ok(()) => Ok(()),
        Err(error) if error.code() == Code::StoreUnavailable => Ok(()),
        Err(error) => Err(Failure::from(error)),
    }
}
