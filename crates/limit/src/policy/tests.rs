//! Every kind from JSON and TOML, and the exact error messages.

use super::*;
use crate::strategy::{
    Cadence, Concurrency, FixedWindow, Gcra, LeakyBucket, Quota, SlidingWindow, SlidingWindowLog, TokenBucket,
};

#[test]
fn every_kind_is_read_from_json() {
    let day = Cadence::CalendarDay;
    let week = Cadence::CalendarWeek { starts_on: 0 };
    let cases: [(&str, Policy); 13] = [
        (r#"{"limit": 5, "periodMs": 1000}"#, Gcra::new(5, 1000, None).unwrap().into()),
        (
            r#"{"kind":"gcra","limit":5,"periodMs":"1s","burst":2}"#,
            Gcra::new(5, 1000, Some(2)).unwrap().into(),
        ),
        (
            r#"{"kind":"tokenBucket","capacity":1e1,"refillPerSec":0.5}"#,
            TokenBucket::new(10, 0.5).unwrap().into(),
        ),
        (
            r#"{"kind":"fixedWindow","limit":5.0,"windowMs":"15m"}"#,
            FixedWindow::new(5, 900_000).unwrap().into(),
        ),
        (
            r#"{"kind":"slidingWindow","limit":5,"windowMs":1000}"#,
            SlidingWindow::new(5, 1000, Some(10)).unwrap().into(),
        ),
        (
            r#"{"kind":"slidingWindow","limit":5,"windowMs":1000,"buckets":1}"#,
            SlidingWindow::new(5, 1000, Some(1)).unwrap().into(),
        ),
        (
            r#"{"kind":"slidingWindowLog","limit":5,"windowMs":1000}"#,
            SlidingWindowLog::new(5, 1000).unwrap().into(),
        ),
        (
            r#"{"kind":"quota","limit":5,"resetCadence":"calendar-day","offsetMinutes":-90}"#,
            Quota::new(5, day, -90).unwrap().into(),
        ),
        (
            r#"{"kind":"quota","limit":5,"resetCadence":"calendar-week","weekStartsOn":0}"#,
            Quota::new(5, week, 0).unwrap().into(),
        ),
        (
            r#"{"kind":"quota","limit":5,"resetCadence":"fixed","periodMs":"1d","anchor":7}"#,
            Quota::new(5, Cadence::Fixed { period_ms: 86_400_000, anchor: 7 }, 0).unwrap().into(),
        ),
        (
            r#"{"kind":"quota","limit":5,"resetCadence":"calendar-month"}"#,
            Quota::new(5, Cadence::CalendarMonth, 0).unwrap().into(),
        ),
        (
            r#"{"kind":"leakyBucket","ratePerSec":2.5,"maxQueueMs":0}"#,
            LeakyBucket::new(2.5, 0).unwrap().into(),
        ),
        (r#"{"kind":"concurrency","limit":3,"leaseMs":"30s"}"#, Concurrency::new(3, 30_000).unwrap().into()),
    ];
    for (text, policy) in cases {
        assert_eq!(Policy::from_json(text).unwrap(), policy, "{text}");
    }
    let rolling = Policy::from_json(r#"{"kind":"quota","limit":5,"resetCadence":"rolling","periodMs":1000}"#);
    let rolling = rolling.unwrap();
    assert_eq!(rolling.kind(), "quota");
    assert_eq!(rolling.strategy(), &AnyStrategy::SlidingWindow(SlidingWindow::new(5, 1000, None).unwrap()));
}

#[test]
fn name_and_fail_are_read() {
    let text = r#"{"limit": 5, "periodMs": 1000, "name": "login", "fail": "closed"}"#;
    let policy = Policy::from_json(text).unwrap();
    assert_eq!((policy.name(), policy.fail()), (Some("login"), Some(FailMode::Closed)));
    assert_eq!(Policy::from_json(r#"{"limit": 5, "periodMs": 1000}"#).unwrap().fail(), None);
}

#[test]
fn invalid_policies_are_rejected_with_exact_messages() {
    for (text, words) in [
        ("", "a policy must be JSON: EOF while parsing a value at line 1 column 0"),
        ("[]", "a policy must be an object, not an array"),
        ("7", "a policy must be an object, not a number"),
        (
            r#"{"kind": "gcrra"}"#,
            "kind must be one of gcra, tokenBucket, fixedWindow, slidingWindow, slidingWindowLog, quota, leakyBucket, concurrency, not 'gcrra'",
        ),
        (r#"{"kind": 7}"#, "kind must be text, not 7"),
        (r#"{"periodMs": 1}"#, "gcra: limit is missing"),
        (
            r#"{"limit": 1, "period": "60s"}"#,
            "gcra: there is no field 'period' (there are limit, periodMs, burst, kind, name, fail)",
        ),
        (r#"{"limit": 1, "periodMs": 1, "limit": 100}"#, "'limit' is there twice"),
        (
            r#"{"limit": "5", "periodMs": 1}"#,
            "gcra: limit must be a whole number from 1 to 9007199254740991, not '5'",
        ),
        (
            r#"{"limit": 1.5, "periodMs": 1}"#,
            "gcra: limit must be a whole number from 1 to 9007199254740991, not 1.5",
        ),
        (
            r#"{"limit": -1, "periodMs": 1}"#,
            "gcra: limit must be a whole number from 1 to 9007199254740991, not -1",
        ),
        (
            r#"{"limit": null, "periodMs": 1}"#,
            "gcra: limit must be a whole number from 1 to 9007199254740991, not null",
        ),
        (
            r#"{"limit": 9007199254740992, "periodMs": 1}"#,
            "gcra: limit must be a whole number from 1 to 9007199254740991, not 9007199254740992",
        ),
        (
            r#"{"limit": 1, "periodMs": 0}"#,
            "gcra: periodMs must be from 1 to 3153600000000 milliseconds (100 years), not 0",
        ),
        (
            r#"{"limit": 1, "periodMs": "soon"}"#,
            "gcra: periodMs: 'soon' is not a duration: a whole number is missing (write for example 250ms, 90s, 15m, 1h30m, 7d)",
        ),
        (
            r#"{"limit": 1, "periodMs": 1, "brust": 2}"#,
            "gcra: there is no field 'brust' (there are limit, periodMs, burst, kind, name, fail)",
        ),
        (r#"{"limit": 1, "periodMs": 1, "fail": "maybe"}"#, "gcra: fail must be open or closed, not 'maybe'"),
        (r#"{"limit": 1, "periodMs": 1, "name": ""}"#, "gcra: name must have from 1 to 64 bytes, not 0"),
        (
            r#"{"kind":"tokenBucket","capacity":1,"refillPerSec":"2"}"#,
            "tokenBucket: refillPerSec must be a number, not '2'",
        ),
        (
            r#"{"kind":"tokenBucket","capacity":1,"refillPerSec":0}"#,
            "tokenBucket: refillPerSec must be above 0 and at most 1024000, not 0e0",
        ),
        (
            r#"{"kind":"tokenBucket","capacity":1,"refillPerSec":1e-310}"#,
            "tokenBucket: refillPerSec must be above 0 and at most 1024000, not 1e-310",
        ),
        (
            r#"{"kind":"tokenBucket","capacity":1,"refillPerSec":1e-20}"#,
            "tokenBucket: capacity: this policy takes longer than 1e15 ms to replenish",
        ),
        (
            r#"{"kind":"quota","limit":1,"resetCadence":"yearly"}"#,
            "quota: resetCadence must be calendar-month, calendar-week, calendar-day, fixed or rolling, not 'yearly'",
        ),
        (r#"{"kind":"quota","limit":1,"resetCadence":"fixed"}"#, "quota: periodMs is missing"),
        (
            r#"{"kind":"quota","limit":1,"resetCadence":"calendar-day","buckets":2}"#,
            "quota: a calendar-day quota has no field 'buckets'",
        ),
        (
            r#"{"kind":"quota","limit":1,"resetCadence":"calendar-day","offsetMinutes":900}"#,
            "quota: offsetMinutes must be from -840 to 840, not 900",
        ),
    ] {
        let error = Policy::from_json(text).unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid, "{text}");
        assert_eq!(error.to_string(), words, "{text}");
    }
}

#[test]
fn a_number_over_the_range_of_doubles_is_rejected() {
    for text in
        [r#"{"limit": 1e400, "periodMs": 1}"#, r#"{"kind":"tokenBucket","capacity":1,"refillPerSec":1e400}"#]
    {
        assert_eq!(Policy::from_json(text).unwrap_err().code(), Code::ConfigInvalid, "{text}");
    }
}

#[cfg(feature = "toml")]
#[test]
fn toml_has_the_same_names() {
    let policy =
        Policy::from_toml("kind = 'tokenBucket'\ncapacity = 10\nrefillPerSec = 0.5\nfail = 'open'").unwrap();
    assert_eq!(policy, Policy::from(TokenBucket::new(10, 0.5).unwrap()).failing(FailMode::Open));
    let policy = Policy::from_toml("limit = 100\nperiodMs = '60s'").unwrap();
    assert_eq!(policy, Gcra::new(100, 60_000, None).unwrap().into());
    for (text, words) in [
        (
            "limit = true\nperiodMs = 1",
            "gcra: limit must be a whole number from 1 to 9007199254740991, not true or false",
        ),
        (
            "limit = nan\nperiodMs = 1",
            "gcra: limit must be a whole number from 1 to 9007199254740991, not NaN",
        ),
        (
            "limit = inf\nperiodMs = 1",
            "gcra: limit must be a whole number from 1 to 9007199254740991, not inf",
        ),
        (
            "limit = 1979-05-27\nperiodMs = 1",
            "gcra: limit must be a whole number from 1 to 9007199254740991, not a date",
        ),
    ] {
        let error = Policy::from_toml(text).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (Code::ConfigInvalid, words));
    }
    assert_eq!(Policy::from_toml("limit = ").unwrap_err().code(), Code::ConfigInvalid);
}

#[test]
fn the_table_of_kinds_is_true_and_the_guide_documents_it() {
    let guide = include_str!("../../../../docs/limits.md");
    for kind in KINDS {
        let example = Policy::from_json(kind.example).unwrap();
        assert_eq!((example.kind(), example.strategy().word(), example.limit()), (kind.name, kind.name, 5));
        let error = Policy::from_json(&format!(r#"{{"kind":"{}"}}"#, kind.name)).unwrap_err();
        assert_eq!(error.message(), format!("{}: {} is missing", kind.name, kind.required[0]));
        for word in kind.required.iter().chain(kind.optional).chain([&kind.name]) {
            assert!(
                guide.contains(&format!("`{word}")),
                "docs/limits.md does not document `{word}` ({})",
                kind.name
            );
        }
        assert!(!kind.about.is_empty());
    }
}
