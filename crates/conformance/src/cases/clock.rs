//! The store passes the injected time to the step, even if it jumps back: no key reappears, nothing is over-admitted.

use keystead_core::{Millis, Ttl};

use super::{Case, Need};
use crate::failure::{Checked, expect_eq};
use crate::scene::Scene;
use crate::setup::START;
use crate::steps::{FixedCount, increment, read_time};

const CLOCK: &[Need] = &[Need::InjectedClock];
const HOUR_MS: u64 = 3_600_000;

pub(super) const CASES: &[Case] = &[
    Case { name: "a_step_gets_the_injected_time", needs: CLOCK, run: |s| Box::pin(injected_time(s)) },
    Case { name: "a_jump_back_keeps_what_is_there", needs: CLOCK, run: |s| Box::pin(keeps(s)) },
    Case { name: "a_jump_back_revives_nothing", needs: CLOCK, run: |s| Box::pin(revives_nothing(s)) },
    Case { name: "a_jump_back_admits_no_more", needs: CLOCK, run: |s| Box::pin(admits_no_more(s)) },
    Case { name: "a_ttl_begun_in_the_past_lasts", needs: CLOCK, run: |s| Box::pin(begun_in_the_past(s)) },
];

fn earlier(ms: u64) -> Millis {
    Millis(START.0 - ms)
}

async fn injected_time(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    for moment in [START, START.plus_ms(1), START.plus_ms(HOUR_MS), START, earlier(HOUR_MS), START] {
        scene.clock().set(moment);
        expect_eq("the time that a step gets", scene.apply(&key, &read_time()).await?, moment)?;
    }
    Ok(())
}

async fn keeps(scene: &Scene) -> Checked {
    let (lasting, expiring) = (scene.key("lasting")?, scene.key("expiring")?);
    scene.put(&lasting, 1u64, Ttl::Never).await?;
    scene.put(&expiring, 1u64, Ttl::Ms(100)).await?;
    scene.clock().set(earlier(HOUR_MS));
    scene.expect_count("a key that never expires", &lasting, Some(1)).await?;
    scene.expect_count("a key that expires later", &expiring, Some(1)).await?;
    expect_eq("count", scene.apply(&expiring, &increment(Ttl::Same)).await?, 2)?;
    scene.clock().set(START.plus_ms(99));
    scene.expect_count("before its moment", &expiring, Some(2)).await?;
    scene.clock().set(START.plus_ms(100));
    scene.expect_count("at its moment", &expiring, None).await
}

/// Once a key was reported as absent, it does not reappear when the clock jumps back.
async fn revives_nothing(scene: &Scene) -> Checked {
    let (looked, counted, reset) = (scene.key("looked")?, scene.key("counted")?, scene.key("reset")?);
    for key in [&looked, &counted, &reset] {
        scene.put(key, 7u64, Ttl::Ms(10)).await?;
    }
    scene.clock().set(START.plus_ms(10));
    scene.expect_count("expired", &looked, None).await?;
    expect_eq("a fresh count", scene.apply(&counted, &increment(Ttl::Never)).await?, 1)?;
    expect_eq("reset of an expired key", scene.reset(&reset).await?, false)?;
    scene.clock().set(START);
    scene.expect_count("read while it was expired", &looked, None).await?;
    scene.expect_count("counted anew", &counted, Some(1)).await?;
    scene.expect_count("reset while it was expired", &reset, None).await
}

async fn admits_no_more(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    let limit = FixedCount { limit: 5, window_ms: 1000 };
    let mut admitted = 0;
    for jump in [0, 500, HOUR_MS, 999, 1] {
        scene.clock().set(earlier(jump));
        for _ in 0..10 {
            admitted += u32::from(scene.apply(&key, &limit).await?);
        }
    }
    expect_eq("admitted in one window", admitted, 5)?;
    scene.clock().set(START.plus_ms(999));
    expect_eq("at the end of the window", scene.apply(&key, &limit).await?, false)?;
    scene.clock().set(START.plus_ms(1000));
    expect_eq("in the next window", scene.apply(&key, &limit).await?, true)
}

/// What reclaims space has seen a later time; it must not expire a younger key by it.
async fn begun_in_the_past(scene: &Scene) -> Checked {
    let other = scene.key("other")?;
    scene.clock().set(START.plus_ms(10 * HOUR_MS));
    for i in 0..50 {
        scene.put(&scene.key(format!("before {i}"))?, 1u64, Ttl::Ms(i)).await?;
    }
    scene.clock().set(START);
    for ttl_ms in [1u64, 10, 1000, HOUR_MS] {
        let key = scene.key(format!("for {ttl_ms}"))?;
        scene.put(&key, 1u64, Ttl::Ms(ttl_ms)).await?;
        scene.put(&other, 1u64, Ttl::Ms(1)).await?;
        scene.clock().advance_ms(ttl_ms - 1);
        scene.expect_count("before its moment", &key, Some(1)).await?;
        scene.clock().advance_ms(1);
        scene.expect_count("at its moment", &key, None).await?;
    }
    Ok(())
}
