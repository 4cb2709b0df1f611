//! Several handles on the same data of a shared store, and reopening a durable one.

use std::sync::Arc;

use keystead_core::{StoreExt, Ttl};

use super::{Case, Need};
use crate::failure::{Checked, expect_eq};
use crate::scene::{Scene, together};
use crate::steps::increment;

pub(super) const CASES: &[Case] = &[
    Case { name: "two_handles_share_a_key", needs: &[Need::Shared], run: |s| Box::pin(share(s)) },
    Case {
        name: "two_handles_count_exactly",
        needs: &[Need::Shared, Need::Atomic],
        run: |s| Box::pin(count_exactly(s)),
    },
    Case {
        name: "what_was_answered_survives_closing",
        needs: &[Need::Durable],
        run: |s| Box::pin(survives(s)),
    },
];

async fn share(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let other = scene.open_again().await?;
    scene.put(&key, 1u64, Ttl::Never).await?;
    expect_eq("seen through the other handle", other.get::<u64>(&key).await?, Some(1))?;
    other.close().await?;
    scene.expect_count("after the other handle closed", &key, Some(1)).await
}

async fn count_exactly(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let other = scene.open_again().await?;
    together(200, |i| {
        let store = Arc::clone(if i % 2 == 0 { scene.store() } else { &other });
        let key = key.clone();
        async move { Ok(store.apply(&key, &increment(Ttl::Never)).await?) }
    })
    .await?;
    scene.expect_count("after 200 applies through two handles", &key, Some(200)).await
}

async fn survives(scene: &Scene) -> Checked {
    const KEYS: u64 = 100;
    for i in 0..KEYS {
        scene.put(&scene.key(format!("key {i}"))?, i, Ttl::Never).await?;
    }
    scene.store().close().await?;
    let reopened = scene.open_again().await?;
    for i in 0..KEYS {
        let got = reopened.get::<u64>(&scene.key(format!("key {i}"))?).await?;
        expect_eq(format_args!("key {i} after reopening"), got, Some(i))?;
    }
    Ok(reopened.close().await?)
}
