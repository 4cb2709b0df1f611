//! Concurrent steps on one key behave as if they ran one after the other.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use keystead_core::{Change, StoreExt, Ttl, step_fn};

use super::{Case, Need};
use crate::failure::{Checked, expect, expect_eq};
use crate::scene::{Scene, together};
use crate::steps::{FixedCount, increment, put_if_absent, swap};

const ATOMIC: &[Need] = &[Need::Atomic];
const CROWD: usize = 200;

pub(super) const CASES: &[Case] = &[
    Case { name: "200_applies_read_back_200", needs: ATOMIC, run: |s| Box::pin(applies(s)) },
    Case { name: "200_checks_at_limit_50_admit_50", needs: ATOMIC, run: |s| Box::pin(checks(s)) },
    Case { name: "a_step_reruns_without_harm", needs: ATOMIC, run: |s| Box::pin(reruns(s)) },
    Case { name: "interleaved_keys_are_each_exact", needs: ATOMIC, run: |s| Box::pin(interleaved(s)) },
    Case { name: "one_of_many_creates_the_key", needs: ATOMIC, run: |s| Box::pin(one_creates(s)) },
    Case { name: "swaps_form_one_chain", needs: ATOMIC, run: |s| Box::pin(one_chain(s)) },
    Case { name: "one_of_many_resets_returns_true", needs: ATOMIC, run: |s| Box::pin(one_reset(s)) },
    Case { name: "a_dropped_apply_blocks_no_other", needs: &[], run: |s| Box::pin(dropped(s)) },
];

async fn applies(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let replies = together(CROWD, |_| {
        let (store, key) = (Arc::clone(scene.store()), key.clone());
        async move { Ok(store.apply(&key, &increment(Ttl::Never)).await?) }
    })
    .await?;
    scene.expect_count("after 200 applies", &key, Some(200)).await?;
    expect_eq("distinct replies", replies.into_iter().collect::<BTreeSet<_>>().len(), CROWD)
}

async fn checks(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let limit = FixedCount { limit: 50, window_ms: 3_600_000 };
    let admitted = together(CROWD, |_| {
        let (store, key) = (Arc::clone(scene.store()), key.clone());
        async move { Ok(store.apply(&key, &limit).await?) }
    })
    .await?;
    expect_eq("admitted of 200", admitted.into_iter().filter(|&yes| yes).count(), 50)?;
    scene.expect_count("counted", &key, Some(50)).await
}

/// The counter is a side effect that no real step may have; here it shows how often a step ran.
async fn reruns(scene: &Scene) -> Checked {
    const TASKS: usize = 8;
    const ROUNDS: usize = 25;
    let key = scene.key("key")?;
    let runs = Arc::new(AtomicU64::new(0));
    together(TASKS, |_| {
        let (store, key, runs) = (Arc::clone(scene.store()), key.clone(), Arc::clone(&runs));
        let step = step_fn(move |count: Option<&u64>, _now| {
            runs.fetch_add(1, Ordering::Relaxed);
            Change::Put(count.copied().unwrap_or(0) + 1, Ttl::Never, ())
        });
        async move {
            for _ in 0..ROUNDS {
                store.apply(&key, &step).await?;
            }
            Ok(())
        }
    })
    .await?;
    let (applies, runs) = ((TASKS * ROUNDS) as u64, runs.load(Ordering::Relaxed));
    expect(format_args!("{runs} runs for {applies} applies"), runs >= applies)?;
    scene.expect_count("after all applies", &key, Some(applies)).await
}

async fn interleaved(scene: &Scene) -> Checked {
    const KEYS: usize = 16;
    const ROUNDS: usize = 12;
    together(KEYS * 2, |task| {
        let store = Arc::clone(scene.store());
        // Half of the tasks visit the keys in the opposite order, so that they contend.
        let keys: Checked<Vec<_>> = (0..KEYS)
            .map(|i| scene.key(format!("key {}", if task % 2 == 0 { i } else { KEYS - 1 - i })))
            .collect();
        async move {
            let keys = keys?;
            for _ in 0..ROUNDS {
                for key in &keys {
                    store.apply(key, &increment(Ttl::Never)).await?;
                }
            }
            Ok(())
        }
    })
    .await?;
    for i in 0..KEYS {
        let want = (KEYS * 2 * ROUNDS) as u64;
        scene.expect_count("a key", &scene.key(format!("key {i}"))?, Some(want)).await?;
    }
    Ok(())
}

/// A row that does not exist yet cannot be locked: the classic race of stores on SQL.
async fn one_creates(scene: &Scene) -> Checked {
    for round in 0..10 {
        let key = scene.key(format!("round {round}"))?;
        let created = together(20, |i| {
            let (store, key) = (Arc::clone(scene.store()), key.clone());
            async move { Ok(store.apply(&key, &put_if_absent(i as u64)).await?) }
        })
        .await?;
        let winners: Vec<u64> = (0..20).filter(|&i| created[i as usize]).collect();
        expect_eq(format_args!("creators in round {round}"), winners.len(), 1)?;
        scene.expect_count("the winner's state", &key, Some(winners[0])).await?;
    }
    Ok(())
}

/// Each swap replies with what it replaced. In one order of all swaps every state is replaced exactly once.
async fn one_chain(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let mut replaced = together(CROWD, |i| {
        let (store, key) = (Arc::clone(scene.store()), key.clone());
        async move { Ok(store.apply(&key, &swap(i as u64)).await?) }
    })
    .await?;
    replaced.push(scene.get(&key).await?);
    let distinct: BTreeSet<Option<u64>> = replaced.into_iter().collect();
    expect_eq("states that were replaced or are left, and none at first", distinct.len(), CROWD + 1)
}

async fn one_reset(scene: &Scene) -> Checked {
    for round in 0..10 {
        let key = scene.key("key")?;
        scene.put(&key, 1u64, Ttl::Never).await?;
        let returned = together(20, |_| {
            let (store, key) = (Arc::clone(scene.store()), key.clone());
            async move { Ok(store.reset(&key).await?) }
        })
        .await?;
        expect_eq(format_args!("yes in round {round}"), returned.into_iter().filter(|&yes| yes).count(), 1)?;
    }
    Ok(())
}

/// The outcome of an apply that is dropped half way is unknown, but it is applied or not, and others continue.
async fn dropped(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let (mut least, mut most) = (0, 0);
    for polls in 1..=5 {
        most += 1;
        if poll_and_drop(scene, &key, polls).await? {
            least += 1;
        }
        for _ in 0..3 {
            (least, most) = (least + 1, most + 1);
            scene.apply(&key, &increment(Ttl::Never)).await?;
        }
    }
    let count = scene.get::<u64>(&key).await?.unwrap_or(0);
    expect(format_args!("{least} <= {count} <= {most}"), (least..=most).contains(&count))
}

/// Polls an apply a few times, then drops it. Returns whether it had finished.
async fn poll_and_drop(scene: &Scene, key: &keystead_core::Key, polls: u32) -> Checked<bool> {
    let step = increment(Ttl::Never);
    let mut apply = pin!(scene.apply(key, &step));
    for _ in 0..polls {
        let polled = poll_fn(|cx| Poll::Ready(apply.as_mut().poll(cx))).await;
        if let Poll::Ready(result) = polled {
            return result.map(|_| true);
        }
        tokio::task::yield_now().await;
    }
    Ok(false)
}
