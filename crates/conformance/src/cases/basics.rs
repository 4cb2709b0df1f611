//! A step's result is stored under its key, and only there.

use keystead_core::Ttl;

use super::Case;
use crate::failure::{Checked, Failure, expect_eq};
use crate::scene::Scene;
use crate::steps::{delete, increment, swap};

pub(super) const CASES: &[Case] = &[
    Case { name: "persists_and_mutates", needs: &[], run: |s| Box::pin(persists_and_mutates(s)) },
    Case { name: "isolates_keys", needs: &[], run: |s| Box::pin(isolates_keys(s)) },
    Case {
        name: "reset_clears_and_returns_whether",
        needs: &[],
        run: |s| Box::pin(reset_clears_and_returns_whether(s)),
    },
    Case { name: "a_step_deletes", needs: &[], run: |s| Box::pin(a_step_deletes(s)) },
    Case { name: "a_recreated_key_starts_fresh", needs: &[], run: |s| Box::pin(recreated_fresh(s)) },
];

async fn persists_and_mutates(scene: &Scene) -> Checked {
    let key = scene.key("count")?;
    scene.expect_count("before the first step", &key, None).await?;
    for want in 1..=5 {
        expect_eq("the reply", scene.apply(&key, &increment(Ttl::Never)).await?, want)?;
        scene.expect_count("the state", &key, Some(want)).await?;
    }
    let key = scene.key("text")?;
    for (before, text) in [(None, "first"), (Some("first"), ""), (Some(""), "third")] {
        let replaced = scene.apply(&key, &swap(text.to_owned())).await?;
        expect_eq("the replaced state", replaced.as_deref(), before)?;
    }
    Ok(())
}

async fn isolates_keys(scene: &Scene) -> Checked {
    const KEYS: u64 = 100;
    for i in 0..KEYS {
        scene.put(&scene.key(format!("key {i}"))?, i, Ttl::Never).await?;
    }
    for i in (0..KEYS).step_by(3) {
        scene.reset(&scene.key(format!("key {i}"))?).await?;
    }
    for i in 0..KEYS {
        let want = (i % 3 != 0).then_some(i);
        let got = scene.get::<u64>(&scene.key(format!("key {i}"))?).await?;
        expect_eq(format_args!("key {i}, after every third was reset"), got, want)?;
    }
    Ok(())
}

async fn reset_clears_and_returns_whether(scene: &Scene) -> Checked {
    let (key, other) = (scene.key("key")?, scene.key("other")?);
    expect_eq("reset of a key that never was", scene.reset(&key).await?, false)?;
    scene.put(&key, 7u64, Ttl::Never).await?;
    scene.put(&other, 8u64, Ttl::Never).await?;
    expect_eq("reset of a key that is there", scene.reset(&key).await?, true)?;
    scene.expect_count("after reset", &key, None).await?;
    expect_eq("reset once more", scene.reset(&key).await?, false)?;
    scene.expect_count("the other key", &other, Some(8)).await
}

async fn a_step_deletes(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    expect_eq("deleting a key that never was", scene.apply(&key, &delete::<u64>()).await?, None)?;
    expect_eq("reset after that", scene.reset(&key).await?, false)?;
    scene.put(&key, 7u64, Ttl::Never).await?;
    expect_eq("deleting", scene.apply(&key, &delete::<u64>()).await?, Some(7))?;
    scene.expect_count("after deleting", &key, None).await?;
    expect_eq("reset of a deleted key", scene.reset(&key).await?, false)
}

async fn recreated_fresh(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    for round in 0..3 {
        let check = async {
            expect_eq("first", scene.apply(&key, &increment(Ttl::Never)).await?, 1)?;
            expect_eq("second", scene.apply(&key, &increment(Ttl::Never)).await?, 2)?;
            match round % 2 {
                0 => expect_eq("deleted", scene.apply(&key, &delete::<u64>()).await?, Some(2)),
                _ => expect_eq("reset", scene.reset(&key).await?, true),
            }
        };
        check.await.map_err(|f: Failure| f.context(format_args!("round {round}")))?;
    }
    Ok(())
}
