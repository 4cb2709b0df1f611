//! Event logs: every change in order, states at any event, compaction, gaps, rejected events.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Http, Response};
use crate::{Fixture, Postgres, Target, until};

pub(crate) const EVENTS: &str = "mode = \"events\"\nflushEvery = \"5ms\"";

/// A SQLite file that the log creates.
pub(crate) struct LogFile(std::path::PathBuf);

impl LogFile {
    pub(crate) fn new(home: &std::path::Path) -> LogFile {
        LogFile(home.join("events.db"))
    }
}

impl Target for LogFile {
    fn url(&self) -> String {
        format!("sqlite:{}", self.0.display())
    }

    fn sql(&self, statement: &str) -> String {
        crate::File(self.0.clone()).sql(statement)
    }
}

/// The keys of a state, with their values.
pub(crate) type State = BTreeMap<String, Value>;

impl Http {
    #[track_caller]
    fn log_page(&mut self, prefix: &str, query: &str) -> Response {
        let response = self.get(&format!("/events/{prefix}?{query}"));
        assert_eq!(response.status, 200, "{}", response.text());
        response
    }

    /// All events after one.
    #[track_caller]
    pub(crate) fn all_events(&mut self, prefix: &str, since: u64) -> Vec<Value> {
        let (mut all, mut since) = (Vec::new(), since);
        loop {
            let page = self.log_page(prefix, &format!("since={since}&limit=1000")).json();
            all.extend(page["events"].as_array().unwrap().iter().cloned());
            assert!(page["next"].as_u64().unwrap() >= since, "{page}");
            since = page["next"].as_u64().unwrap();
            if page["more"] == json!(false) {
                return all;
            }
        }
    }

    /// The state at an event, and that event.
    #[track_caller]
    pub(crate) fn state(&mut self, prefix: &str, at: Option<u64>, limit: usize) -> (u64, State) {
        let (mut keys, mut query) = (State::new(), at.map_or(String::new(), |at| format!("at={at}&")));
        loop {
            let page = self.log_page(prefix, &format!("{query}limit={limit}")).json();
            let at = page["at"].as_u64().unwrap();
            for key in page["keys"].as_array().unwrap() {
                assert!(key.get("unknown").is_none(), "{key}");
                let before = keys.insert(key["key"].as_str().unwrap().to_owned(), key["value"].clone());
                assert_eq!(before, None, "a key is on one page");
            }
            match page["after"].as_str() {
                Some(after) => query = format!("at={at}&after={}&", after.replace(':', "%3A")),
                None => return (at, keys),
            }
        }
    }

    #[track_caller]
    fn compact(&mut self, query: &str) -> u64 {
        let response = self.post(&format!("/sinks/s/compact{query}"), "");
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["rows"].as_u64().unwrap()
    }

    /// Waits for the snapshot at the beginning of a log.
    #[track_caller]
    pub(crate) fn wait_for_log(&mut self) {
        until("the log has begun", || {
            let sink = self.sink();
            sink["rows"].as_u64() >= Some(2) && sink["resyncing"] == json!(null)
        });
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.run(&json!([["DEL", key]]));
    }
}

#[test]
fn a_log_begins_with_a_snapshot_and_a_client_follows_from_any_state() {
    let home = crate::common::dir();
    let file = LogFile::new(home.path());
    // Keys from before the log.
    std::fs::write(home.path().join("keystead.toml"), "").unwrap();
    let data = home.path().join("data");
    let config = home.path().join("keystead.toml");
    let launch =
        crate::common::launch(&["--shards", "2"]).arg("--config").arg(&config).arg("--data").arg(&data);
    let mut before = launch.start().unwrap();
    let mut http = Http::connect(&before);
    for n in 0..700 {
        http.put(&format!("d:{n}"), &json!(n), "");
    }
    http.run(&json!([
        ["RPUSH", "d:list", "a", "b"],
        ["ZADD", "d:zset", "1.5", "m"],
        ["SADD", "d:set", "x", "y"]
    ]));
    http.run(&json!([["SET", "other", "not of the log"]]));
    assert!(before.stop().unwrap().success());
    let fixture = Fixture::start_in(home, &file, EVENTS, &["--shards", "2"]);
    let mut http = fixture.http();
    // Changes while the snapshot is written.
    for n in 0..200 {
        http.put(&format!("d:{}", n % 50), &json!({ "again": n }), "");
    }
    http.run(&json!([["LPUSH", "d:list", "z"], ["LREM", "d:list", "1", "b"], ["SREM", "d:set", "x"]]));
    http.flush();
    let (at, mut state) = http.state("d:", None, 300);
    assert_eq!(state.len(), 703);
    assert_eq!(state["d:list"], json!(["z", "a"]));
    assert_eq!((&state["d:set"], &state["d:zset"]), (&json!(["y"]), &json!({"m": 1.5})));
    assert_eq!(state["d:49"], json!({"again": 199}));
    assert_eq!(state["d:699"], json!(699));
    http.put("d:new", &json!(1), "");
    http.delete("d:0");
    http.run(&json!([["EXPIRE", "d:1", "1000"], ["SET", "d:s", "text"]]));
    http.flush();
    for event in http.all_events("d:", at) {
        let key = event["key"].as_str().unwrap().to_owned();
        match event["kind"].as_str().unwrap() {
            "put" => drop(state.insert(key, event["value"].clone())),
            "delete" => drop(state.remove(&key)),
            kind => assert_eq!((kind, event["expiresAt"].is_u64()), ("expire", true)),
        }
    }
    assert_eq!(http.state("d:", None, 1000).1, state);
    assert_eq!(http.state("d:n", None, 10).1, State::from([("d:new".to_owned(), json!(1))]));
    http.verify();
    // All keys at once.
    http.run(&json!([["FLUSHALL"], ["SET", "d:after", "1"]]));
    http.flush();
    assert_eq!(http.state("d:", None, 1000).1, State::from([("d:after".to_owned(), json!("1"))]));
    assert_eq!(http.state("d:", Some(at), 1000).1.len(), 703, "what was is still known");
    assert_eq!(http.sink()["gaps"], json!(0));
    http.verify();
    // What somebody else has changed is shown, with both sides.
    let other = rusqlite::Connection::open(&file.0).unwrap();
    other.execute("UPDATE t SET value = '\"2\"' WHERE key = 'd:after' AND value IS NOT NULL", []).unwrap();
    let found = http.post("/sinks/s/verify", "").json();
    let side = |value: &str| json!({"version": 1, "value": json!(value).to_string()});
    assert_eq!(
        found["differing"],
        json!([{"key": "d:after", "source": side("1"), "target": side("2")}]),
        "{found}"
    );
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file.0).unwrap());
    assert_eq!(mode & 0o777, 0o600, "only its owner reads a log that the server has created");
}

#[test]
fn a_compacted_log_keeps_the_last_event_of_each_key() {
    let home = crate::common::dir();
    let file = LogFile::new(home.path());
    let fixture = Fixture::start(&file, EVENTS, &["--shards", "2"]);
    let mut http = fixture.http();
    for n in 0..300 {
        http.put(&format!("d:{}", n % 3), &json!(n), "");
        http.run(&json!([["HINCRBY", "d:h", (n % 2).to_string(), "1"]]));
    }
    http.delete("d:2");
    http.flush();
    let (window, state) = http.state("d:", None, 100);
    assert_eq!(http.compact("?olderThan=1h"), 0, "all of it is younger");
    assert!(http.compact("") > 0);
    assert_eq!(http.state("d:", Some(window), 100).1, state);
    assert_eq!(state["d:h"], json!({"0": "150", "1": "150"}));
    assert_eq!(file.sql("SELECT count(*) FROM t WHERE kind IN ('put', 'change', 'expire')"), "3");
    assert_eq!(file.sql("SELECT kind FROM t WHERE key = 'd:2'"), "delete");
    for query in [format!("at={}", window - 1), "since=0".to_owned()] {
        let gone = http.get(&format!("/events/d:?{query}"));
        assert_eq!((gone.status, &gone.json()["error"]["code"]), (410, &json!("gone")), "{}", gone.text());
    }
    http.put("d:0", &json!("later"), "");
    http.flush();
    assert_eq!(http.all_events("d:", window).len(), 1);
    assert_eq!(http.state("d:", Some(window), 100).1, state);
    assert_eq!(http.state("d:", None, 100).1["d:0"], json!("later"));
    // From the command line.
    let address = fixture.server.http().unwrap().to_string();
    let arguments = ["sink", "compact", "s", "0s", "--http", &address];
    let (code, text, error) = crate::common::run_in(fixture.home.path(), &arguments, &[]);
    assert_eq!((code, text.as_str()), (0, "1 rows were removed or became whole\n"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_event_delays_nobody_and_is_repaired_in_its_place() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut fixture = Fixture::start(&postgres, EVENTS, &["--shards", "2"]);
    let mut http = fixture.http();
    http.wait_for_log();
    postgres.sql("ALTER TABLE t ADD CONSTRAINT poison CHECK (value->>'n' IS DISTINCT FROM '13')");
    for n in 10..20 {
        http.put("d:a", &json!({ "n": n }), "");
        http.put("d:b", &json!({ "n": n + 100 }), "");
    }
    // What PostgreSQL takes neither in a key nor in a value, and what has no form as JSON.
    http.run(&json!([
        ["SET", "d:nul\u{0}key", "v"],
        ["SET", "d:nul", "a\u{0}b"],
        ["XADD", "d:x", "*", "f", "v"]
    ]));
    http.flush();
    let of = |http: &mut Http, key: &str| -> Vec<(String, Value)> {
        let all = http.all_events("d:", 0).into_iter().filter(|event| event["key"] == key);
        all.map(|event| (event["kind"].as_str().unwrap().to_owned(), event["value"].clone())).collect()
    };
    assert_eq!(of(&mut http, "d:b").len(), 10, "others are not delayed");
    let a = of(&mut http, "d:a");
    assert_eq!(
        a.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(),
        ["put", "put", "put", "rejected", "put", "put", "put", "put", "put", "put"]
    );
    assert!(a[3].1["reason"].as_str().unwrap().contains("poison"), "{a:?}");
    assert_eq!(of(&mut http, "d:x")[0].1, json!({"reason": "a stream has no form as JSON"}));
    assert_eq!(of(&mut http, "d:nul\u{fffd}key")[0].0, "rejected");
    let sink = http.sink();
    assert_eq!((&sink["quarantined"], &sink["rejected"]), (&json!(3), &json!(1)), "{sink}");
    let seqs: Vec<u64> =
        http.all_events("d:", 0).iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.iter().zip(1..).all(|(seq, n)| *seq == n), "no hole: {seqs:?}");
    let unknown = http.log_page("d:nul", "").json();
    assert_eq!(unknown["keys"][0], json!({"key": "d:nul", "unknown": true}), "{unknown}");
    // Kept over a restart; when the table is repaired it gets its row.
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    postgres.sql("ALTER TABLE t DROP CONSTRAINT poison");
    let cases = http.get("/sinks/s/quarantine").json();
    let names = cases["keys"].as_array().unwrap().iter().map(|case| case["key"].as_str().unwrap().to_owned());
    let name = names.into_iter().find(|name| name.starts_with("d:a@")).unwrap();
    assert_eq!(
        http.post(&format!("/sinks/s/retry?key={}", name.replace('@', "%40").replace(':', "%3A")), "").json(),
        json!({"keys": 1})
    );
    until("it is repaired", || http.sink()["quarantined"] == json!(2));
    let repaired = of(&mut http, "d:a");
    let values: Vec<Value> = (10..20).map(|n| json!({ "n": n })).collect();
    assert_eq!(repaired.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), values);
    assert_eq!(http.post("/sinks/s/skip", "").json(), json!({"keys": 2}));
    assert_eq!(http.sink()["problem"], json!(null));
}

/// Writes until the journal no longer has what the log needs: the gap is a mark in the log, and in health and metrics.
#[test]
fn changes_that_are_missing_are_visible() {
    let home = crate::common::dir();
    let file = LogFile::new(home.path());
    let mut fixture = Fixture::start(&file, EVENTS, &["--shards", "1", "--sink-journal", "1mb"]);
    let mut http = fixture.http();
    http.put("d:deleted", &json!(1), "?flushed=20s");
    http.put("d:kept", &json!(1), "?flushed=20s");
    let (before, _) = http.state("d:", None, 10);
    let away = home.path().join("away.db");
    assert!(fixture.server.stop().unwrap().success());
    std::fs::rename(&file.0, &away).unwrap();
    std::fs::create_dir(&file.0).unwrap();
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.run(&json!([["DEL", "d:deleted"]]));
    let large = "x".repeat(1 << 20);
    let journal = fixture.home.path().join("data/shard-0/journal");
    let first = crate::behind::oldest(&journal);
    for n in 0..400 {
        http.put(&format!("other:{}", n % 3), &json!(large), "");
        http.put(&format!("d:{}", n % 10), &json!(n), "");
        if crate::behind::oldest(&journal) > first + 2 {
            break;
        }
    }
    until("segments are recycled", || crate::behind::oldest(&journal) > first);
    std::fs::remove_dir(&file.0).unwrap();
    std::fs::rename(&away, &file.0).unwrap();
    http.flush();
    let events = http.all_events("d:", before);
    assert_eq!(
        (events[0]["kind"].as_str(), events[0]["seq"].as_u64()),
        (Some("gap"), Some(before + 1)),
        "{}",
        events[0]
    );
    assert!(events[0]["value"]["reason"].as_str().unwrap().contains("journal"), "{}", events[0]);
    assert_eq!(http.sink()["gaps"], json!(1));
    assert!(http.get("/healthz").text().contains("sink.s: changes are missing in its event log"));
    assert!(http.get("/metrics").text().contains("keystead_sink_gaps_total{sink=\"s\"} 1"));
    let documents: State = http.documents().into_iter().map(|(key, value, _)| (key, value)).collect();
    assert_eq!(http.state("d:", None, 1000).1, documents, "what was deleted meanwhile is not there");
    assert_eq!(http.state("d:", Some(before), 10).1.len(), 2, "what was before the gap is still known");
    let between = http.get(&format!("/events/d:?at={}", before + 1));
    assert_eq!(between.status, 410, "{}", between.text());
    assert!(between.text().contains("a snapshot of all keys was being written"), "{}", between.text());
    http.verify();
}

#[test]
fn bad_requests_say_what_is_wrong() {
    let home = crate::common::dir();
    let file = LogFile::new(home.path());
    let fixture =
        Fixture::start(&file, EVENTS, &["--shards", "1", "--token", "secret", "--read-only-token", "reader"]);
    let mut http = fixture.http();
    let mut ask = |method: &str, path: &str, token: &str| {
        let authorization = format!("Authorization: Bearer {token}");
        let response = http.ask(method, path, &[&authorization], b"");
        (response.status, response.text().to_owned())
    };
    assert_eq!(ask("GET", "/events/d:", "wrong").0, 401);
    assert_eq!(ask("GET", "/events/d:", "reader").0, 403);
    assert_eq!(ask("POST", "/sinks/s/compact", "reader").0, 401);
    for (path, status, words) in [
        ("/events/d:?since=1&at=2", 400, "leave one of them out"),
        ("/events/d:?since=1&after=d%3A1", 400, "it goes with 'at'"),
        ("/events/d:?since=x", 400, "is not a whole number"),
        ("/events/d:?since=99999", 400, "event 99999 does not exist yet"),
        ("/events/d:?at=99999", 400, "event 99999 does not exist yet"),
        ("/events/d:?limit=0", 400, "limit is 1 to 1000"),
        ("/events/d:?limit=1001", 400, "limit is 1 to 1000"),
        ("/events/d:?until=1", 400, "the parameter 'until' is unknown"),
        ("/events/%ff", 400, "the prefix is not text"),
        ("/events/%zz", 400, "two hexadecimal digits"),
        ("/events/other", 404, "no event log has the keys that begin with 'other'"),
        ("/events/", 404, "no event log has the keys that begin with ''"),
    ] {
        let (found, text) = ask("GET", path, "secret");
        assert!(found == status && text.contains(words), "{path}: {found} {text}");
    }
    let (status, text) = ask("POST", "/sinks/s/compact?olderThan=long", "secret");
    assert!(status == 400 && text.contains("'long' is not a duration"), "{text}");
}

#[test]
fn a_log_is_compacted_as_its_settings_say() {
    let home = crate::common::dir();
    let file = LogFile::new(home.path());
    let mut fixture = Fixture::start(&file, EVENTS, &["--shards", "1"]);
    let mut http = fixture.http();
    http.wait_for_log();
    for n in 0..100 {
        http.put("d:k", &json!(n), "");
    }
    http.flush();
    assert_eq!(file.sql("SELECT count(*) FROM t WHERE key = 'd:k'"), "100");
    crate::configure(fixture.home.path(), &file, &format!("{EVENTS}\ncompactRows = 10"));
    fixture.server.restart().unwrap();
    until("it is compacted", || file.sql("SELECT count(*) FROM t WHERE key = 'd:k'") == "11");
    let mut http = fixture.http();
    assert_eq!(http.state("d:", None, 10).1["d:k"], json!(99));
    until("it is counted", || {
        http.get("/metrics").text().contains("keystead_sink_compacted_rows_total{sink=\"s\"} 89")
    });
}

/// A sink of another mode has a position, and no log.
#[test]
fn a_sink_that_gets_another_mode_begins_its_log_with_a_snapshot() {
    let home = crate::common::dir();
    let file = crate::File::new(home.path());
    let mut fixture = Fixture::start(&file, "flushEvery = \"5ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    for n in 0..20 {
        http.put(&format!("d:{n}"), &json!(n), "");
    }
    http.flush();
    file.sql("ALTER TABLE t RENAME TO before");
    crate::configure(fixture.home.path(), &file, EVENTS);
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.put("d:1", &json!("later"), "");
    http.flush();
    let (_, state) = http.state("d:", None, 100);
    assert_eq!((state.len(), &state["d:1"], &state["d:19"]), (20, &json!("later"), &json!(19)));
    assert_eq!(http.sink()["gaps"], json!(0));
    struct Webhook;
    impl Target for Webhook {
        fn url(&self) -> String {
            "https://whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5@127.0.0.1:1/".to_owned()
        }
        fn sql(&self, _: &str) -> String {
            String::new()
        }
    }
    let error = crate::start::error_of(&Webhook, EVENTS, &[]);
    assert!(error.contains("a target 'https' keeps no event log: use postgres, sqlite or mysql"), "{error}");
}
