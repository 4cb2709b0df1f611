//! A step that keeps changes nothing: no key appears, no state changes, no expiry moves.

use keystead_core::{Change, Ttl, step_fn};

use super::{Case, Need};
use crate::failure::{Checked, expect_eq};
use crate::scene::Scene;
use crate::steps::{FixedCount, look, put_if_absent};

pub(super) const CASES: &[Case] = &[
    Case { name: "creates_no_key", needs: &[], run: |s| Box::pin(creates_no_key(s)) },
    Case { name: "changes_no_state", needs: &[], run: |s| Box::pin(changes_no_state(s)) },
    Case { name: "moves_no_expiry", needs: &[Need::InjectedClock], run: |s| Box::pin(moves_no_expiry(s)) },
    Case {
        name: "recreates_no_expired_key",
        needs: &[Need::InjectedClock],
        run: |s| Box::pin(recreates_none(s)),
    },
];

async fn creates_no_key(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let denied = FixedCount { limit: 0, window_ms: 1000 };
    for _ in 0..3 {
        expect_eq("a limit of 0 admits", scene.apply(&key, &denied).await?, false)?;
    }
    expect_eq("reset, as nothing was put", scene.reset(&key).await?, false)?;
    // A state that can be null distinguishes an absent key from null.
    let seen = scene.apply(&key, &look::<Option<u64>>()).await?;
    expect_eq("the state", seen, None)
}

async fn changes_no_state(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, vec![1u64, 2, 3], Ttl::Never).await?;
    // The step changes a copy and then discards it.
    let denied = step_fn(|state: Option<&Vec<u64>>, _now| {
        let mut copy = state.cloned().unwrap_or_default();
        copy.push(4);
        Change::Keep(copy.len())
    });
    expect_eq("the reply", scene.apply(&key, &denied).await?, 4)?;
    expect_eq("put where something is", scene.apply(&key, &put_if_absent(vec![9u64])).await?, false)?;
    expect_eq("the state", scene.get::<Vec<u64>>(&key).await?, Some(vec![1, 2, 3]))
}

async fn moves_no_expiry(scene: &Scene) -> Checked {
    let (expiring, lasting) = (scene.key("expiring")?, scene.key("lasting")?);
    let once = FixedCount { limit: 1, window_ms: 100 };
    expect_eq("the first check", scene.apply(&expiring, &once).await?, true)?;
    scene.put(&lasting, 1u64, Ttl::Never).await?;
    for _ in 0..99 {
        scene.clock().advance_ms(1);
        expect_eq("a check within the window", scene.apply(&expiring, &once).await?, false)?;
        expect_eq("a check", scene.apply(&lasting, &once).await?, false)?;
    }
    scene.clock().advance_ms(1);
    scene.expect_count("at the end of the window", &expiring, None).await?;
    expect_eq("a check after the window", scene.apply(&expiring, &once).await?, true)?;
    scene.clock().advance_ms(1_000_000_000);
    scene.expect_count("a key that never expires", &lasting, Some(1)).await
}

async fn recreates_none(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, 1u64, Ttl::Ms(10)).await?;
    scene.clock().advance_ms(10);
    expect_eq("a limit of 0", scene.apply(&key, &FixedCount { limit: 0, window_ms: 9 }).await?, false)?;
    expect_eq("reset", scene.reset(&key).await?, false)?;
    scene.expect_count("after the denial", &key, None).await
}
