//! `keystead limit replay --store`: the same bytes from every store.

use keystead_testkit::rng::Rng;
use keystead_testkit::servers::{postgres, redis};

use crate::{right_postgres_url, run, shared};

const POLICIES: [&str; 8] = [
    r#"{"kind":"gcra","limit":3,"periodMs":1000,"burst":7}"#,
    r#"{"kind":"tokenBucket","capacity":5,"refillPerSec":0.3}"#,
    r#"{"kind":"fixedWindow","limit":5,"windowMs":1000}"#,
    r#"{"kind":"slidingWindow","limit":10,"windowMs":5000,"buckets":7}"#,
    r#"{"kind":"slidingWindowLog","limit":5,"windowMs":1000}"#,
    r#"{"kind":"quota","limit":10,"resetCadence":"calendar-week","offsetMinutes":-210}"#,
    r#"{"kind":"leakyBucket","ratePerSec":0.7,"maxQueueMs":5000}"#,
    r#"{"kind":"concurrency","limit":3,"leaseMs":1000}"#,
];

/// Requests with changing costs: first of one key whose clock jumps both ways, then of three keys whose clock jumps forward. (If a
/// key expires while others are used, and the clock jumps back then, a store may or may not have reclaimed it.)
fn timeline() -> String {
    let (mut rng, mut now) = (Rng::new(16), 1_700_000_000_000);
    let mut text = String::new();
    for i in 0..120 {
        let has_one_key = i < 60;
        now = match rng.below(12) {
            0 => now + rng.below(86_400_000),
            1 | 2 if has_one_key => now - rng.below(5_000),
            _ => now + rng.below(400),
        };
        let key = if has_one_key { 0 } else { rng.below(3) };
        let most = 1 + rng.below(4);
        let cost = 1 + rng.below(most);
        text.push_str(&format!("{{\"now\":{now},\"key\":\"user {key}\",\"cost\":{cost}}}\n"));
    }
    text
}

fn replay(policy: &str, store: Option<&str>) -> String {
    let mut arguments = vec!["limit", "replay", "--policy", policy];
    arguments.extend(store.into_iter().flat_map(|store| ["--store", store]));
    let (code, stdout, stderr) = run(&timeline(), &arguments);
    assert_eq!((code, stderr.as_str()), (0, ""), "{store:?}");
    stdout
}

#[test]
fn every_store_prints_the_bytes_of_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut stores = vec![format!("sqlite:{}?durability=memory", dir.path().display())];
    let (redis, postgres) = (shared(&redis::REDIS), shared(&postgres::POSTGRES));
    if let Some(server) = &redis {
        for atomic in ["script", "cas", "watch"] {
            stores.push(format!("redis://{}?deadline=40s&atomic={atomic}", server.site().addresses()));
        }
    }
    if let Some(server) = &postgres {
        stores.extend(["", "&atomic=lock"].map(|parameters| right_postgres_url(server.site(), parameters)));
    }
    // Kept until the end: a shared server is stopped when nobody uses it.
    let others: Vec<_> = crate::OTHERS.iter().map(|other| (other, shared(other.kind))).collect();
    for (other, server) in &others {
        stores.extend(server.iter().map(|server| (other.url)(server.site())));
    }
    for policy in POLICIES {
        let expected = replay(policy, None);
        assert_eq!(expected.lines().count(), 120);
        for word in ["\"allowed\":true", "\"allowed\":false"] {
            assert!(expected.contains(word), "{policy} never decides {word}");
        }
        for store in &stores {
            assert_eq!(replay(policy, Some(store)), expected, "{policy} on {store}");
        }
    }
}

#[test]
fn two_policies_are_compared_on_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}?durability=memory", dir.path().display());
    let both = ["limit", "replay", "--policy", POLICIES[0], "--compare", POLICIES[2]];
    let expected = run(&timeline(), &both);
    assert!(expected.1.contains("\"differ\":"), "{expected:?}");
    assert_eq!(run(&timeline(), &[&both[..], &["--store", &store]].concat()), expected);
}

#[test]
fn a_store_that_cannot_be_used_is_one_line() {
    let request = "{\"now\":1700000000000,\"key\":\"a\"}\n";
    for (url, code, words) in [
        ("redis://:hunter2@127.0.0.1:1", 1, "line 1 of the input: "),
        ("redis://localhost?clock=server", 2, "leave out clock=server"),
        ("mysql://root:hunter2@host", 2, "--store: there is no store 'mysql'"),
    ] {
        let (ended, stdout, stderr) = run(
            request,
            &["limit", "replay", "--policy", r#"{"limit":1,"periodMs":5,"fail":"open"}"#, "--store", url],
        );
        assert_eq!((ended, stdout.as_str()), (code, ""), "{stderr}");
        assert!(stderr.contains(words) && stderr.matches('\n').count() == 1, "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
}
