//! Event logs: what every target with one must do.

use std::collections::BTreeMap;
use std::sync::Arc;

use keystead_core::{Code, Error, Millis, Revision, ShardId, Version};
use keystead_sinks::log::{Event, Keep, Kind, Seq, compact, events, extent, states};
use keystead_sinks::{Layout, LogTarget, Row, Sink, Written};
use serde_json::{Value, json};

use crate::cases::{batch, write};
use crate::target::Target;

const ALL: usize = usize::MAX;

fn event(seq: u64, key: &str, kind: Kind, of: &str, value: Value) -> Event {
    Event {
        seq: Seq(seq),
        shard: ShardId(0),
        revision: Revision(seq * 10),
        key: key.to_owned(),
        version: Version(seq),
        kind,
        of: (!of.is_empty()).then(|| of.to_owned()),
        value: (!of.is_empty()).then_some(value),
        expires_at: None,
        time: Millis(seq * 1_000),
    }
}

pub(crate) fn put(seq: u64, key: &str) -> Event {
    event(seq, key, Kind::Put, "json", json!({ "n": seq }))
}

fn mark(seq: u64, kind: Kind) -> Event {
    event(seq, "", kind, "", Value::Null)
}

fn rows(events: &[Event]) -> Vec<Row> {
    events.iter().cloned().map(Event::into_row).collect()
}

fn open(target: &Target) -> Arc<dyn Sink> {
    target.sink(Layout::events("s", "", "t"))
}

async fn seqs(log: &dyn LogTarget, prefix: &str, since: u64) -> Result<Vec<u64>, Error> {
    let page = events(log, prefix, Seq(since), ALL, ALL).await?;
    Ok(page.events.iter().map(|event| event.seq.0).collect())
}

/// The keys at an event, with their values; those that are not known have none.
async fn state(log: &dyn LogTarget, at: u64) -> Result<BTreeMap<String, Option<Value>>, Error> {
    let page = states(log, "", Some(Seq(at)), None, ALL, ALL).await?;
    assert_eq!((page.at, &page.next), (Seq(at), &None));
    Ok(page.keys.into_iter().map(|(key, state)| (key, state.map(|state| state.json()))).collect())
}

pub(crate) async fn events_and_position_arrive_together(target: &Target) {
    let sink = open(target);
    sink.probe().await.unwrap();
    let log = sink.log().unwrap();
    let mut first = put(2, "ü");
    first.expires_at = Some(Millis::NEVER);
    let mut second = event(3, "k", Kind::Expire, "", Value::Null);
    second.expires_at = Some(Millis(1 << 41));
    let mut null = event(4, "k", Kind::Put, "json", Value::Null);
    null.shard = ShardId(7);
    let all = [mark(1, Kind::Begin), first, second, null];
    assert_eq!(write(&*sink, 1, rows(&all)).await, Written::Done);
    assert_eq!(events(log, "", Seq(0), ALL, ALL).await.unwrap().events, all);
    assert_eq!(extent(log).await.unwrap().last, Seq(4));
    // A late, repeated or foreign batch appends nothing.
    assert_eq!(write(&*sink, 1, rows(&[put(5, "late")])).await, Written::Fenced);
    assert_eq!(write(&*sink, 3, rows(&[put(5, "early")])).await, Written::Fenced);
    assert_eq!(extent(log).await.unwrap().last, Seq(4));
    // An event is never replaced by another one of the same number.
    let Written::Rejected(rejected) = write(&*sink, 2, rows(&[put(5, "a"), put(4, "b")])).await else {
        panic!("it was replaced")
    };
    assert_eq!(rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(), [1]);
    assert_eq!(sink.position().await.unwrap().unwrap().batch, 1, "the position is not ahead of the events");
    // Another handle goes on where the first one was, and finds the tables as they are.
    let other = open(target);
    assert_eq!(write(&*other, 2, rows(&[put(5, "a")])).await, Written::Done);
    assert_eq!(seqs(other.log().unwrap(), "", 2).await.unwrap(), [3, 4, 5]);
    let beyond = events(log, "", Seq(6), ALL, ALL).await.unwrap_err();
    assert_eq!(
        (beyond.code(), beyond.message()),
        (Code::BadRequest, "event 6 does not exist yet, the last is 5")
    );
    assert!(target.sink(Layout::whole("s", "", "t")).log().is_none(), "of another mode");
}

pub(crate) async fn pages_of_a_log_are_bounded_and_only_of_a_prefix(target: &Target) {
    let sink = open(target);
    let log = sink.log().unwrap();
    let mut all = vec![mark(1, Kind::Begin), mark(2, Kind::Complete)];
    for seq in 3..=400 {
        all.push(put(seq, ["user:a", "user:b", "user;", "use", "user:ü"][seq as usize % 5]));
    }
    assert_eq!(write(&*sink, 1, rows(&all)).await, Written::Done);
    let (mut since, mut found, mut pages) = (Seq(0), Vec::new(), 0);
    while since < Seq(400) {
        let page = events(log, "user:", since, 150, ALL).await.unwrap();
        assert!(page.events.len() <= 150 && page.next > since && page.last == Seq(400));
        (since, pages) = (page.next, pages + 1);
        found.extend(page.events);
    }
    let wanted = all.iter().filter(|event| event.kind.is_mark() || event.key.starts_with("user:")).cloned();
    assert_eq!(found, wanted.collect::<Vec<_>>(), "marks are of every prefix");
    assert_eq!(pages, 2);
    assert_eq!(
        events(log, "", Seq(0), ALL, 1).await.unwrap().events.len(),
        16,
        "one slice is over the bytes"
    );
    let (mut after, mut keys) = (None, Vec::new());
    loop {
        let page = states(log, "user:", None, after.as_deref(), 2, ALL).await.unwrap();
        keys.extend(page.keys.into_iter().map(|(key, state)| (key, state.unwrap().seq.0)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let wanted = [("user:a", 400), ("user:b", 396), ("user:ü", 399)].map(|(key, seq)| (key.to_owned(), seq));
    assert_eq!(keys, wanted);
    let page = states(log, "", None, None, 10, 1).await.unwrap();
    assert_eq!((page.keys.len(), page.next.as_deref()), (1, Some("use")), "it ends when it is large");
}

pub(crate) async fn a_rejected_event_is_repaired_in_its_place(target: &Target) {
    let sink = open(target);
    let log = sink.log().unwrap();
    let reason = json!({ "reason": "why" });
    let all = [
        mark(1, Kind::Begin),
        mark(2, Kind::Complete),
        put(3, "k"),
        event(4, "k", Kind::Rejected, "json", reason),
        put(5, "other"),
    ];
    assert_eq!(write(&*sink, 1, rows(&all)).await, Written::Done);
    assert_eq!(state(log, 5).await.unwrap()["k"], None, "a change of it is missing");
    assert_eq!(state(log, 3).await.unwrap()["k"], Some(json!({"n": 3})));
    assert_eq!(write(&*sink, 2, vec![put(4, "k").into_repair()]).await, Written::Done);
    assert_eq!(seqs(log, "", 0).await.unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(state(log, 5).await.unwrap()["k"], Some(json!({"n": 4})));
    assert_eq!(extent(log).await.unwrap().last, Seq(5));
}

pub(crate) async fn what_is_old_or_many_is_compacted(target: &Target) {
    let sink = open(target);
    let log = sink.log().unwrap();
    let mut all = vec![mark(1, Kind::Begin), mark(2, Kind::Complete)];
    // More than one step of a compaction goes through.
    all.extend((3..=12_000).map(|seq| put(seq, ["a", "b"][seq as usize % 2])));
    for (number, part) in all.chunks(4_000).enumerate() {
        assert_eq!(write(&*sink, number as u64 + 1, rows(part)).await, Written::Done);
    }
    assert_eq!(compact(log, &[]).await.unwrap(), 0);
    assert_eq!(compact(log, &[Keep::Since(Millis(3_000)), Keep::Last(20_000)]).await.unwrap(), 0);
    assert!(compact(log, &[Keep::Since(Millis(11_001_000))]).await.unwrap() > 0);
    // Of the window's first state, each key has one row.
    assert_eq!(extent(log).await.unwrap().first, Seq(11_000));
    assert_eq!(target.sql("SELECT count(*) FROM t WHERE seq <= 11000 AND kind = 'put'"), "2");
    assert_eq!(target.sql("SELECT count(*) FROM t WHERE seq > 11000"), "1000");
    assert_eq!(seqs(log, "", 11_000).await.unwrap().len(), 1_000);
    for error in [seqs(log, "", 10_999).await.unwrap_err(), state(log, 10_999).await.unwrap_err()] {
        assert_eq!(error.code(), Code::Gone);
        assert!(error.message().contains("window of the log, which begins at 11000"), "{error}");
    }
    assert!(compact(log, &[Keep::Last(10)]).await.unwrap() > 0);
    let at = state(log, 11_990).await.unwrap();
    assert_eq!(
        at,
        BTreeMap::from(
            ["a", "b"].map(|key| {
                (key.to_owned(), Some(json!({ "n": if key == "a" { 11_990 } else { 11_989 } })))
            })
        )
    );
}

/// A random sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

type Keys = BTreeMap<String, Value>;

/// What happens next to random keys, and what they then are.
fn happens(random: &mut Random, seq: u64, keys: &mut Keys, shards: &BTreeMap<String, usize>) -> Event {
    let names: Vec<&String> = shards.keys().collect();
    let key = names[random.below(names.len() as u64) as usize].as_str();
    let mut found = match (random.below(12), keys.get_mut(key)) {
        (0, Some(_)) => {
            keys.remove(key);
            event(seq, key, Kind::Delete, "", Value::Null)
        }
        (1, Some(_)) => event(seq, key, Kind::Expire, "", Value::Null),
        (2, _) if seq.is_multiple_of(3) => {
            let shard = random.below(2) as usize;
            keys.retain(|key, _| shards[key] != shard);
            Event { shard: ShardId(shard), ..mark(seq, Kind::Flush) }
        }
        (3..=8, Some(Value::Object(hash))) if key.starts_with('h') => {
            let (set, removed) = (random.below(5).to_string(), random.below(5).to_string());
            hash.remove(&removed);
            hash.insert(set.clone(), json!(seq.to_string()));
            event(
                seq,
                key,
                Kind::Change,
                "hash",
                json!({"set": {set: seq.to_string()}, "removed": [removed]}),
            )
        }
        _ if key.starts_with('h') => {
            keys.insert(key.to_owned(), json!({"0": "new"}));
            event(seq, key, Kind::Put, "hash", json!({"0": "new"}))
        }
        _ => {
            keys.insert(key.to_owned(), json!({ "n": seq }));
            put(seq, key)
        }
    };
    if !found.kind.is_mark() {
        found.shard = ShardId(shards[&found.key]);
    }
    found
}

/// The state at every event that is kept is what it was, before and after any compaction.
pub(crate) async fn any_state_of_the_window_is_rebuilt(target: &Target) {
    let sink = open(target);
    let log = sink.log().unwrap();
    let shards: BTreeMap<String, usize> = ["d1", "d2", "d3", "h1", "h2", "h3"]
        .iter()
        .enumerate()
        .map(|(n, key)| ((*key).to_owned(), n % 2))
        .collect();
    let (mut random, mut keys) = (Random(7), Keys::new());
    // What was at each event; nothing while a snapshot was written.
    let (mut all, mut was): (Vec<Event>, Vec<Option<Keys>>) = (Vec::new(), vec![None]);
    let mut number = 0;
    for round in 0..8_u64 {
        // Each third round begins with a snapshot: a key that is not in it is not there.
        let mut seq = all.len() as u64 + 1;
        if round % 3 == 0 {
            all.push(mark(seq, if round == 0 { Kind::Begin } else { Kind::Gap }));
            was.push(None);
            keys.retain(|_, _| random.below(2) == 0);
            for (key, value) in &keys {
                seq += 1;
                let of = if key.starts_with('h') { "hash" } else { "json" };
                all.push(Event {
                    shard: ShardId(shards[key]),
                    ..event(seq, key, Kind::Put, of, value.clone())
                });
                was.push(None);
            }
            all.push(mark(seq + 1, Kind::Complete));
            was.push(Some(keys.clone()));
        }
        for _ in 0..120 {
            let event = happens(&mut random, all.len() as u64 + 1, &mut keys, &shards);
            all.push(event);
            was.push(Some(keys.clone()));
        }
        let from = extent(log).await.unwrap().last.0 as usize;
        for part in all[from..].chunks(50) {
            number += 1;
            assert_eq!(sink.write(&batch(number, rows(part))).await.unwrap(), Written::Done);
        }
        check(log, &all, &was, &mut random).await;
        compact(log, &[Keep::Last(random.below(200))]).await.unwrap();
        check(log, &all, &was, &mut random).await;
    }
    assert!(extent(log).await.unwrap().first > Seq(600), "it was compacted");
    // Of what is before the window there is one row for each key at the most.
    let several = "SELECT count(*) FROM (SELECT key FROM t, keystead_logs WHERE seq <= first_seq AND key <> '' GROUP BY key HAVING count(*) > 1) AS x";
    assert_eq!(target.sql(several), "0");
}

async fn check(log: &dyn LogTarget, all: &[Event], was: &[Option<Keys>], random: &mut Random) {
    let extent = extent(log).await.unwrap();
    assert_eq!(extent.last, Seq(all.len() as u64));
    let since = events(log, "", extent.first, ALL, ALL).await.unwrap();
    assert_eq!(since.events, all[extent.first.0 as usize..], "no event of the window is missing");
    let some = (0..12).map(|_| random.below(extent.last.0 + 1)).chain([extent.first.0, extent.last.0]);
    for at in some.collect::<Vec<_>>() {
        let found = state(log, at).await;
        match (&was[at as usize], at >= extent.first.0) {
            (Some(keys), true) => {
                let keys = keys.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
                assert_eq!(found.unwrap(), keys, "at {at}");
            }
            _ => assert_eq!(found.unwrap_err().code(), Code::Gone, "at {at}"),
        }
    }
}
