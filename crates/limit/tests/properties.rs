//! Properties of every policy, whatever its numbers, for every history, including clocks that jump.

#![allow(clippy::unwrap_used, reason = "a test may")]

use keystead_limit::strategy::KINDS;
use keystead_limit::{Policy, Replay};
use proptest::prelude::*;

/// Ordinary numbers, and malicious ones.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (1u64..100).prop_map(|n| n.to_string()),
        3 => (1u64..100_000).prop_map(|n| n.to_string()),
        1 => (0u64..=u64::MAX).prop_map(|n| n.to_string()),
        1 => any::<f64>().prop_filter("JSON has no such number", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        1 => prop::sample::select(vec![
            "0", "-1", "1e300", "1e-300", "5e-324", "1e15", "0.5", "9007199254740991", "9007199254740992", "3153600000000",
        ])
        .prop_map(str::to_string),
    ]
}

/// Whether a quota of this cadence has the field. `None`: it must have it.
fn quota_has(cadence: &str, field: &str) -> Option<bool> {
    match field {
        "periodMs" if matches!(cadence, "fixed" | "rolling") => None,
        "buckets" => Some(cadence == "rolling"),
        "anchor" => Some(cadence == "fixed"),
        "weekStartsOn" => Some(cadence == "calendar-week"),
        "offsetMinutes" => Some(cadence.starts_with("calendar")),
        _ => Some(false),
    }
}

/// A policy of any kind with any number in each of its fields; optional fields are there or not.
fn policy_text() -> impl Strategy<Value = String> {
    let cadence =
        prop::sample::select(vec!["calendar-month", "calendar-week", "calendar-day", "fixed", "rolling"]);
    let required = prop::collection::vec(number(), 3);
    let optional = prop::collection::vec(proptest::option::of(number()), 5);
    (0..KINDS.len(), cadence, required, optional).prop_map(|(kind, cadence, required, optional)| {
        let kind = &KINDS[kind];
        let mut text = format!(r#"{{"kind":"{}""#, kind.name);
        for (field, number) in kind.required.iter().zip(required.iter().cycle()) {
            match *field {
                "resetCadence" => text += &format!(r#","{field}":"{cadence}""#),
                _ => text += &format!(r#","{field}":{number}"#),
            }
        }
        for (field, number) in kind.optional.iter().zip(optional.iter().cycle()) {
            let number = match kind.name {
                "quota" => match quota_has(cadence, field) {
                    None => Some(&required[0]),
                    Some(true) => number.as_ref(),
                    Some(false) => None,
                },
                _ => number.as_ref(),
            };
            if let Some(number) = number {
                text += &format!(r#","{field}":{number}"#);
            }
        }
        text + "}"
    })
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1u64..4, 2 => 1u64..1000, 1 => 1u64..=(1 << 53) - 1]
}

/// Times of this century, jumps in both directions, and the extremes.
fn moments() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let now = prop_oneof![
        8 => 1_700_000_000_000u64..1_700_000_200_000,
        1 => 0u64..5_000_000_000_000,
        1 => prop::sample::select(vec![0, 1, (1u64 << 53) - 1, 1 << 53, u64::MAX]),
    ];
    prop::collection::vec((now, cost()), 1..60)
}

/// A small policy of every kind, with numbers that can be reached.
fn small() -> impl Strategy<Value = (String, u64, u64)> {
    (0usize..6, 1u64..20, 1u64..5000, 1u64..12).prop_map(|(kind, limit, window, buckets)| {
        let text = match kind {
            0 => format!(r#"{{"kind":"gcra","limit":{limit},"periodMs":{window}}}"#),
            1 => format!(
                r#"{{"kind":"tokenBucket","capacity":{limit},"refillPerSec":{}}}"#,
                limit as f64 * 1000.0 / window as f64
            ),
            2 => format!(r#"{{"kind":"fixedWindow","limit":{limit},"windowMs":{window}}}"#),
            3 => format!(
                r#"{{"kind":"slidingWindow","limit":{limit},"windowMs":{window},"buckets":{buckets}}}"#
            ),
            4 => format!(r#"{{"kind":"slidingWindowLog","limit":{limit},"windowMs":{window}}}"#),
            _ => format!(r#"{{"kind":"quota","limit":{limit},"resetCadence":"fixed","periodMs":{window}}}"#),
        };
        (text, limit, window)
    })
}

fn history() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0u64..20_000, 1u64..4), 1..120)
}

/// Most units that such a policy may admit from one moment to another that is `ms` later, both included, less than a window apart.
fn most_within(text: &str, limit: u64, window: u64, ms: u64) -> u64 {
    let buckets =
        text.split_once(r#""buckets":"#).and_then(|(_, rest)| rest.trim_end_matches('}').parse::<u64>().ok());
    match buckets {
        // All that lies in as many buckets counts in full; what is older counts in part.
        Some(buckets) if ms * buckets <= window * (buckets - 1) => limit,
        Some(_) => 2 * limit,
        None if text.contains("slidingWindowLog") => limit,
        // A burst, and what is replenished in the meantime; the last unit may have been replenished within this millisecond.
        None if text.contains("gcra") || text.contains("tokenBucket") => {
            limit + (ms as f64 * limit as f64 / window as f64 + 1e-6) as u64
        }
        // Across a boundary.
        None => 2 * limit,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_policy_only_makes_finite_whole_decisions(text in policy_text(), history in moments()) {
        let Ok(policy) = Policy::from_json(&text) else { return Ok(()) };
        let limit = policy.limit();
        prop_assert!(policy.window_ms().is_finite() && policy.window_ms() > 0.0);
        let mut replay = Replay::new(policy).unwrap();
        for (now, cost) in history {
            let decision = replay.check(now, "k", cost).unwrap();
            prop_assert_eq!(decision.retry_after_ms == 0, decision.allowed, "{}: {:?}", &text, decision);
            prop_assert_eq!(decision.limit, limit);
            prop_assert!(decision.remaining <= limit, "{}: {:?}", &text, decision);
            let json: serde_json::Value = serde_json::from_str(&decision.to_json().unwrap()).unwrap();
            for name in ["limit", "remaining", "resetAt", "retryAfterMs"] {
                let number = json[name].as_u64();
                prop_assert!(number.is_some_and(|n| n < 1 << 53), "{text}: {json}");
            }
        }
    }

    #[test]
    fn never_more_than_the_limit_in_a_window((text, limit, window) in small(), mut history in history()) {
        history.sort_unstable();
        let start = 1_700_000_000_000;
        let mut replay = Replay::new(Policy::from_json(&text).unwrap()).unwrap();
        let mut admitted = Vec::new();
        for (at, cost) in history {
            if replay.check(start + at, "k", cost).unwrap().allowed {
                admitted.push((at, cost));
            }
        }
        for (place, (from, _)) in admitted.iter().enumerate() {
            let mut units = 0;
            for (at, cost) in admitted[place..].iter().take_while(|(at, _)| *at < from + window) {
                units += cost;
                let most = most_within(&text, limit, window, at - from);
                prop_assert!(units <= most, "{}: {} units from {} to {}", text, units, from, at);
            }
        }
        if text.contains("fixedWindow") || text.contains("quota") {
            for (from, _) in &admitted {
                let begin = (start + from) / window * window;
                let inside = admitted.iter().filter(|(at, _)| (start + at) / window * window == begin);
                prop_assert!(inside.map(|(_, cost)| cost).sum::<u64>() <= limit, "{}", text);
            }
        }
    }

    #[test]
    fn unreleased_leases_never_exceed_the_limit(
        limit in 1u64..10, lease_ms in 1u64..5000, mut history in history()
    ) {
        history.sort_unstable();
        let text = format!(r#"{{"kind":"concurrency","limit":{limit},"leaseMs":{lease_ms}}}"#);
        let mut replay = Replay::new(Policy::from_json(&text).unwrap()).unwrap();
        let mut held: Vec<u64> = Vec::new();
        for (at, _) in history {
            held.retain(|until| at < *until);
            let decision = replay.check(at, "k", 1).unwrap();
            prop_assert_eq!(decision.allowed, (held.len() as u64) < limit, "{}: {} held at {}", &text, held.len(), at);
            if decision.allowed {
                held.push(at + lease_ms);
            }
        }
    }

    #[test]
    fn a_shaper_keeps_its_rate_and_its_longest_wait(
        rate in 1u64..100, queue in 0u64..3000, mut history in history()
    ) {
        history.sort_unstable();
        let text = format!(r#"{{"kind":"leakyBucket","ratePerSec":{rate},"maxQueueMs":{queue}}}"#);
        let mut replay = Replay::new(Policy::from_json(&text).unwrap()).unwrap();
        let mut free_at = 0.0f64;
        for (at, cost) in history {
            let decision = replay.check(at, "k", cost).unwrap();
            let wait = (free_at - at as f64).max(0.0);
            prop_assert_eq!(decision.allowed, wait <= queue as f64, "{}: {} ms at {}", &text, wait, at);
            if decision.allowed {
                prop_assert_eq!(decision.delay_ms, Some(wait.ceil() as u64));
                free_at = (at as f64).max(free_at) + cost as f64 * (1000.0 / rate as f64);
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_back_never_admits_more_and_recovers((text, limit, window) in small(), history in history()) {
        let start = 1_700_000_000_000;
        let mut replay = Replay::new(Policy::from_json(&text).unwrap()).unwrap();
        let (mut admitted, mut newest, mut forward) = (0u64, 0u64, 0u64);
        let mut last = None;
        for (at, cost) in &history {
            forward += at.saturating_sub(last.unwrap_or(*at));
            last = Some(*at);
            newest = newest.max(*at);
            // A cost that is never allowed stores nothing, not even the time; see the store's notes on clocks that jump.
            let cost = 1 + (cost - 1) % limit;
            if replay.check(start + at, "k", cost).unwrap().allowed {
                admitted += cost;
            }
        }
        // How far the clock has moved forward, which bounds what any limiter could have admitted.
        let oldest = history.iter().map(|(at, _)| *at).min().unwrap_or(0);
        let moved = if text.contains("tokenBucket") { forward } else { newest - oldest };
        let windows = moved / window + 2;
        prop_assert!(admitted <= limit * windows, "{}: {} units in {} ms", text, admitted, moved);
        // It has recovered at the latest two windows after the newest time it has seen.
        let decision = replay.check(start + newest + 2 * window + 1, "k", limit).unwrap();
        prop_assert!(decision.allowed, "{}: {:?}", text, decision);
    }
}

/// One key at its limit, and a clock that jumps back by a little or a lot: nothing is allowed until it has caught up.
#[test]
fn a_limit_that_is_reached_stays_reached_when_the_clock_jumps_back() {
    for kind in [
        r#"{"kind":"gcra","limit":5,"periodMs":1000}"#,
        r#"{"kind":"tokenBucket","capacity":5,"refillPerSec":5}"#,
        r#"{"kind":"fixedWindow","limit":5,"windowMs":1000}"#,
        r#"{"kind":"slidingWindow","limit":5,"windowMs":1000}"#,
        r#"{"kind":"slidingWindowLog","limit":5,"windowMs":1000}"#,
        r#"{"kind":"quota","limit":5,"resetCadence":"fixed","periodMs":1000}"#,
        r#"{"kind":"quota","limit":5,"resetCadence":"calendar-day"}"#,
        r#"{"kind":"leakyBucket","ratePerSec":5,"maxQueueMs":800}"#,
        r#"{"kind":"concurrency","limit":5,"leaseMs":1000}"#,
    ] {
        let mut replay = Replay::new(Policy::from_json(kind).unwrap()).unwrap();
        let start = 1_700_000_000_000;
        for _ in 0..5 {
            assert!(replay.check(start, "k", 1).unwrap().allowed, "{kind}");
        }
        for back in [0, 1, 500, 1000, 1001, 60_000, 86_400_000, 1_600_000_000_000] {
            let decision = replay.check(start - back, "k", 1).unwrap();
            assert!(!decision.allowed, "{kind}: {back} ms back");
        }
        assert!(replay.check(start + 86_400_000, "k", 1).unwrap().allowed, "{kind}: it has recovered");
    }
}
