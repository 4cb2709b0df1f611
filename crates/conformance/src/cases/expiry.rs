//! A state is expired when `now >= expires_at`, not a millisecond earlier or later, whenever its space is reclaimed.

use std::time::Duration;

use keystead_core::{Key, Millis, Ttl};

use super::{Case, Need};
use crate::failure::{Checked, Failure, expect, expect_eq};
use crate::rng::Rng;
use crate::scene::Scene;
use crate::steps::{increment, read_time, rewrite};

const CLOCK: &[Need] = &[Need::InjectedClock];

pub(super) const CASES: &[Case] = &[
    Case { name: "expires_at_its_exact_moment", needs: CLOCK, run: |s| Box::pin(exact_moment(s)) },
    Case { name: "same_keeps_the_expiry", needs: CLOCK, run: |s| Box::pin(same_keeps(s)) },
    Case { name: "never_removes_the_expiry", needs: CLOCK, run: |s| Box::pin(never_removes(s)) },
    Case { name: "a_new_ttl_replaces_the_old", needs: CLOCK, run: |s| Box::pin(new_replaces(s)) },
    Case { name: "ttl_0_is_expired_at_once", needs: &[], run: |s| Box::pin(zero_is_expired(s)) },
    Case { name: "same_on_a_new_key_is_never", needs: CLOCK, run: |s| Box::pin(same_on_new(s)) },
    Case { name: "an_expired_key_starts_fresh", needs: CLOCK, run: |s| Box::pin(starts_fresh(s)) },
    Case {
        name: "reset_of_an_expired_key_returns_false",
        needs: CLOCK,
        run: |s| Box::pin(reset_returns_false(s)),
    },
    Case { name: "the_longest_ttl_is_never", needs: CLOCK, run: |s| Box::pin(longest(s)) },
    Case { name: "many_keys_each_at_its_moment", needs: CLOCK, run: |s| Box::pin(many_keys(s)) },
    Case {
        name: "expires_on_the_servers_clock",
        needs: &[Need::ServerClock],
        run: |s| Box::pin(servers_clock(s)),
    },
];

async fn exact_moment(scene: &Scene) -> Checked {
    for ttl_ms in [1u64, 2, 1000, 86_400_000] {
        let key = scene.key(format!("for {ttl_ms}"))?;
        scene.put(&key, 1u64, Ttl::Ms(ttl_ms)).await?;
        scene.clock().advance_ms(ttl_ms - 1);
        scene.expect_count("one millisecond before its moment", &key, Some(1)).await?;
        scene.clock().advance_ms(1);
        scene.expect_count("at its moment", &key, None).await?;
    }
    Ok(())
}

async fn same_keeps(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, 1u64, Ttl::Ms(100)).await?;
    scene.clock().advance_ms(60);
    expect_eq("count", scene.apply(&key, &increment(Ttl::Same)).await?, 2)?;
    expect("it was there to rewrite", scene.apply(&key, &rewrite::<u64>()).await?)?;
    scene.clock().advance_ms(39);
    scene.expect_count("before the first expiry", &key, Some(2)).await?;
    scene.clock().advance_ms(1);
    scene.expect_count("at the first expiry", &key, None).await
}

async fn never_removes(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, 1u64, Ttl::Ms(100)).await?;
    expect_eq("count", scene.apply(&key, &increment(Ttl::Never)).await?, 2)?;
    scene.clock().advance_ms(100);
    scene.expect_count("at the removed expiry", &key, Some(2)).await?;
    scene.clock().advance_ms(1_000_000_000);
    scene.expect_count("long after", &key, Some(2)).await?;
    expect_eq("count", scene.apply(&key, &increment(Ttl::Ms(5))).await?, 3)?;
    scene.clock().advance_ms(5);
    scene.expect_count("after a new expiry", &key, None).await
}

async fn new_replaces(scene: &Scene) -> Checked {
    let (longer, shorter) = (scene.key("longer")?, scene.key("shorter")?);
    scene.put(&longer, 1u64, Ttl::Ms(50)).await?;
    scene.put(&shorter, 1u64, Ttl::Ms(5000)).await?;
    scene.clock().advance_ms(40);
    scene.put(&longer, 2u64, Ttl::Ms(5000)).await?;
    scene.put(&shorter, 2u64, Ttl::Ms(20)).await?;
    scene.clock().advance_ms(19);
    scene.expect_count("shortened, before", &shorter, Some(2)).await?;
    scene.clock().advance_ms(1);
    scene.expect_count("shortened, at its moment", &shorter, None).await?;
    scene.expect_count("prolonged, past the old expiry", &longer, Some(2)).await?;
    scene.clock().advance_ms(4980);
    scene.expect_count("prolonged, at its moment", &longer, None).await
}

async fn zero_is_expired(scene: &Scene) -> Checked {
    let (new, held) = (scene.key("new")?, scene.key("held")?);
    expect_eq("the step still replies", scene.apply(&new, &increment(Ttl::Ms(0))).await?, 1)?;
    scene.expect_count("a new key", &new, None).await?;
    expect_eq("reset", scene.reset(&new).await?, false)?;
    scene.put(&held, 1u64, Ttl::Never).await?;
    expect_eq("the step still replies", scene.apply(&held, &increment(Ttl::Ms(0))).await?, 2)?;
    scene.expect_count("a key that was there", &held, None).await
}

async fn same_on_new(scene: &Scene) -> Checked {
    let (new, expired, deleted) = (scene.key("new")?, scene.key("expired")?, scene.key("deleted")?);
    scene.put(&expired, 9u64, Ttl::Ms(10)).await?;
    scene.put(&deleted, 9u64, Ttl::Ms(500)).await?;
    scene.clock().advance_ms(10);
    scene.reset(&deleted).await?;
    for key in [&new, &expired, &deleted] {
        expect_eq("count", scene.apply(key, &increment(Ttl::Same)).await?, 1)?;
    }
    scene.clock().advance_ms(1_000_000_000);
    scene.expect_count("a key that never was", &new, Some(1)).await?;
    scene.expect_count("a key that had expired", &expired, Some(1)).await?;
    scene.expect_count("a key that was reset", &deleted, Some(1)).await
}

async fn starts_fresh(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    for round in 1..=3 {
        for want in 1..=3 {
            let count = scene.apply(&key, &increment(Ttl::Ms(10))).await?;
            expect_eq(format_args!("count in round {round}"), count, want)?;
        }
        scene.clock().advance_ms(10);
    }
    Ok(())
}

async fn reset_returns_false(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, 1u64, Ttl::Ms(10)).await?;
    scene.clock().advance_ms(10);
    expect_eq("reset of an expired key", scene.reset(&key).await?, false)?;
    scene.expect_count("after reset", &key, None).await
}

async fn longest(scene: &Scene) -> Checked {
    let (key, near) = (scene.key("key")?, scene.key("near")?);
    scene.put(&key, 1u64, Ttl::Ms(u64::MAX)).await?;
    let far_ms = 200 * 365 * 86_400_000;
    scene.put(&near, 1u64, Ttl::Ms(far_ms)).await?;
    scene.clock().advance_ms(far_ms - 1);
    scene.expect_count("the longest, after 200 years", &key, Some(1)).await?;
    scene.expect_count("200 years, before its moment", &near, Some(1)).await?;
    scene.clock().advance_ms(1);
    scene.expect_count("200 years, at its moment", &near, None).await
}

/// Bulk removal of expired keys must not remove one early, even if time moves in large jumps.
async fn many_keys(scene: &Scene) -> Checked {
    let mut rng = Rng::new(1);
    let mut keys: Vec<(Key, Millis)> = Vec::new();
    for i in 0..200u64 {
        let ttl_ms = rng.span_ms();
        let key = scene.key(format!("key {i}"))?;
        scene.put(&key, i, Ttl::Ms(ttl_ms)).await?;
        keys.push((key, scene.now().plus_ms(ttl_ms)));
    }
    for _ in 0..20 {
        let now = scene.now();
        for (i, (key, expires_at)) in keys.iter().enumerate() {
            let want = (now < *expires_at).then_some(i as u64);
            let got = scene.get::<u64>(key).await?;
            expect_eq(format_args!("{key} at {now:?}, expires at {expires_at:?}"), got, want)?;
        }
        scene.clock().advance_ms(rng.span_ms());
    }
    Ok(())
}

/// If the time cannot be moved, a short TTL must end by itself and a long one must not.
async fn servers_clock(scene: &Scene) -> Checked {
    let (short, long) = (scene.key("short")?, scene.key("long")?);
    let now = scene.apply(&short, &read_time()).await?;
    expect(format_args!("{now:?} is a moment of this century"), now > Millis(1_577_836_800_000))?;
    scene.put(&long, 1u64, Ttl::Ms(3_600_000)).await?;
    scene.put(&short, 1u64, Ttl::Ms(50)).await?;
    for _ in 0..500 {
        if scene.get::<u64>(&short).await?.is_none() {
            return scene.expect_count("a TTL of an hour", &long, Some(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Failure::new("a TTL of 50 ms did not end within 5 s"))
}
