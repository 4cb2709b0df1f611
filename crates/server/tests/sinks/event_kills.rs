//! Random changes while the server and the real PostgreSQL are killed at random moments: the log has each of them once and in order, and the
//! state at any event is what it was.

use std::collections::BTreeMap;

use keystead_commands::Random;
use serde_json::{Value, json};

use crate::client::Http;
use crate::events::{EVENTS, State};
use crate::kills::{number, seed};
use crate::{Fixture, Postgres, Target};

/// What a client has done to a key: the version, and the value if it has one afterwards.
type History = BTreeMap<String, Vec<(u64, Option<Value>)>>;

const KEYS: u64 = 12;

/// A change of a random key, which is acknowledged.
fn change(http: &mut Http, random: &mut Random, n: u64, history: &mut History) {
    let key = format!("d:{}", random.next() % KEYS);
    let of_key = history.entry(key.clone()).or_default();
    let (version, value) = of_key.last().cloned().unwrap_or((0, None));
    // A deletion has a version of its own, and a key that is created again begins at 1.
    let next = if value.is_some() { version + 1 } else { 1 };
    if value.is_some() && random.next().is_multiple_of(5) {
        http.delete(&key);
        return of_key.push((next, None));
    }
    if key.ends_with(['1', '2', '3']) {
        let field = (random.next() % 3).to_string();
        http.run(&json!([["HSET", key, field, n.to_string()]]));
        let mut hash = value.unwrap_or_else(|| json!({}));
        hash[field] = json!(n.to_string());
        return of_key.push((next, Some(hash)));
    }
    let value = json!({ "n": n, "text": "x".repeat((n % 50) as usize) });
    let put = http.put(&key, &value, "").json();
    assert_eq!(put["version"], json!(next), "{put}");
    of_key.push((next, Some(value)));
}

/// The log has exactly what was done to each key, in order; and the state at some events is what it was there.
fn check(http: &mut Http, history: &History, random: &mut Random) {
    let events = http.all_events("d:", 0);
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "there is no hole");
    let mut found: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.get("key").is_some()) {
        found.entry(event["key"].as_str().unwrap()).or_default().push(event);
    }
    let (mut last, mut at): (State, Vec<State>) = (State::new(), vec![State::new()]);
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &events {
        if let Some(key) = event["key"].as_str() {
            let place = places.entry(key).or_default();
            let (version, value) = &history[key].get(*place).unwrap_or_else(|| panic!("too many: {event}"));
            *place += 1;
            assert_eq!(event["version"], json!(version), "{event}");
            match (event["kind"].as_str().unwrap(), value) {
                ("delete", None) => drop(last.remove(key)),
                ("put" | "change", Some(value)) => drop(last.insert(key.to_owned(), value.clone())),
                _ => panic!("{event}, and not {value:?}"),
            }
        }
        at.push(last.clone());
    }
    for (key, of_key) in history {
        assert_eq!(found.get(key.as_str()).map_or(0, Vec::len), of_key.len(), "events of {key}");
        let revisions: Vec<u64> =
            found[key.as_str()].iter().map(|event| event["revision"].as_u64().unwrap()).collect();
        assert!(revisions.is_sorted_by(|one, next| one < next), "{key}: {revisions:?}");
    }
    let complete = events.iter().rposition(|event| event["kind"] == "complete").unwrap() + 1;
    for _ in 0..20 {
        let seq = complete + (random.next() as usize % (at.len() - complete));
        assert_eq!(http.state("d:", Some(seq as u64), 5).1, at[seq], "at {seq}");
    }
}

/// `KEYSTEAD_KILLS=N` kills more often, `KEYSTEAD_SEED=N` repeats a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_in_the_log_one_time_and_in_order() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let (rounds, seed) = (number("KEYSTEAD_KILLS", 20), seed());
    println!("KEYSTEAD_SEED={seed} KEYSTEAD_KILLS={rounds}");
    let (mut random, mut history, mut n) = (Random::new(seed), History::new(), 0);
    let more = format!("{EVENTS}\nflushRows = 7\ngrace = \"1ms\"");
    let mut fixture = Fixture::start(&postgres, &more, &["--shards", "2", "--durability", "commit"]);
    // Before the first kill, so that no snapshot is interrupted.
    fixture.http().wait_for_log();
    for round in 0..rounds {
        let mut http = fixture.http();
        let mut some = |http: &mut Http, random: &mut Random, count| {
            for _ in 0..count {
                n += 1;
                change(http, random, n, &mut history);
            }
        };
        let count = 20 + random.next() % 100;
        some(&mut http, &mut random, count);
        tokio::time::sleep(std::time::Duration::from_millis(random.next() % 20)).await;
        if round % 5 == 4 {
            postgres.0.kill().unwrap();
            some(&mut http, &mut random, 30);
            postgres.0.restart().await.unwrap();
        } else {
            fixture.server.kill().unwrap();
            fixture.server.restart().unwrap();
        }
    }
    let mut http = fixture.http();
    http.flush();
    check(&mut http, &history, &mut random);
    http.verify();
    let sink = http.sink();
    assert_eq!((&sink["gaps"], &sink["quarantined"]), (&json!(0), &json!(0)), "{sink}");
    println!("{n} changes in {} events: {sink}", postgres.sql("SELECT count(*) FROM t"));
}
