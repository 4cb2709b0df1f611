//! Coalescing, types, receipts, quarantine, stopping.

use serde_json::json;

use crate::resp::Client;
use crate::{File, Fixture, OWN, Postgres, Target, common, rows, until};

#[test]
fn a_hundred_updates_are_one_row() {
    let home = common::dir();
    let file = File::new(home.path());
    let fixture = Fixture::start(&file, "flushEvery = \"1h\"", &["--shards", "2"]);
    let mut http = fixture.http();
    http.put("d:one", &json!("first"), "?flushed=20s");
    let before = http.sink();
    for n in 0..100 {
        http.put("d:one", &json!({ "n": n }), "");
    }
    http.put("other", &json!(1), "");
    http.flush();
    let after = http.sink();
    let more = |name: &str| after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
    assert_eq!((more("changes"), more("rows")), (100, 1), "{after}");
    assert_eq!(rows(&file), [("d:one".to_owned(), json!({"n": 99}), 101)]);
    assert_eq!(file.sql("SELECT count(*) FROM t"), "1", "no key of another prefix");
    let metrics = http.get("/metrics").text().to_owned();
    assert!(metrics.contains("keystead_sink_pending_rows{sink=\"s\"} 0"), "{metrics}");
    assert!(metrics.contains("keystead_sink_changes_total{sink=\"s\"} 10"), "{metrics}");
    let line = fixture.server.line("sinks");
    assert_eq!(line.as_deref(), Some("s to sqlite: all keys pending, 0 keys in quarantine"));
}

#[test]
fn all_kinds_of_values_deletions_and_expiries_arrive() {
    let home = common::dir();
    let file = File::new(home.path());
    let fixture = Fixture::start(&file, "flushEvery = \"10ms\"", &["--shards", "4"]);
    let mut http = fixture.http();
    http.run(&json!([
        ["SET", "d:string", "text"],
        ["SET", "d:text", "{\"a\":1}"],
        ["HSET", "d:hash", "f", "1", "g", "2"],
        ["RPUSH", "d:list", "a", "b"],
        ["SADD", "d:set", "b", "a"],
        ["ZADD", "d:zset", "1.5", "m"],
        ["SET", "d:gone", "1"],
        ["SET", "d:expires", "1"],
        ["SET", "other", "1"],
    ]));
    http.flush();
    assert_eq!(file.sql("SELECT count(*) FROM t"), "8");
    http.run(&json!([
        ["DEL", "d:gone"],
        ["HDEL", "d:hash", "g"],
        ["DEL", "d:string"],
        ["SET", "d:string", "again"],
        ["PEXPIRE", "d:expires", "50"]
    ]));
    until("the expired key is deleted", || file.sql("SELECT count(*) FROM t") == "6");
    http.flush();
    assert_eq!(http.verify(), 6);
    let all: Vec<_> = rows(&file).into_iter().map(|(key, value, _)| (key, value)).collect();
    let expected = [
        ("d:hash", json!({"f": "1"})),
        ("d:list", json!(["a", "b"])),
        ("d:set", json!(["a", "b"])),
        ("d:string", json!("again")),
        ("d:text", json!({"a": 1})),
        ("d:zset", json!({"m": 1.5})),
    ];
    assert_eq!(all, expected.map(|(key, value)| (key.to_owned(), value)));
    // A key that was created again has a lower version: it is newer nevertheless.
    assert_eq!(file.sql("SELECT keystead_version FROM t WHERE key = 'd:string'"), "1");
    http.run(&json!([["FLUSHALL"]]));
    until("all rows are deleted", || file.sql("SELECT count(*) FROM t") == "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_row_delays_nobody_and_can_be_repaired() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!(
        "CREATE TABLE t (key text PRIMARY KEY, value jsonb CHECK (value->>'n' <> '13'), {OWN})"
    ));
    let mut fixture = Fixture::start(&postgres, "flushEvery = \"10ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    for n in 0..50 {
        http.put(&format!("d:{n}"), &json!({"n": n.to_string()}), "");
    }
    http.run(&json!([["SET", "d:nul", "a\u{0}b"]]));
    http.flush();
    assert_eq!(postgres.sql("SELECT count(*) FROM t"), "49");
    let quarantine = http.get("/sinks/s/quarantine").json();
    let cases = quarantine["keys"].as_array().unwrap();
    assert_eq!(
        (cases[0]["key"].as_str(), cases[1]["key"].as_str()),
        (Some("d:13"), Some("d:nul")),
        "{quarantine}"
    );
    assert!(cases[0]["reason"].as_str().unwrap().contains("check constraint"), "{quarantine}");
    let health = http.get("/healthz").json();
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["reasons"], json!(["sink.s: its target (postgres) rejects 2 keys"]));
    // It waits by itself: others go on, and a receipt says what is the matter.
    let receipt = http.put("d:13", &json!({"n": "13", "again": true}), "?flushed=20s");
    assert_eq!(receipt.header("keystead-flushed"), Some("quarantined"));
    assert_eq!(http.put("d:50", &json!({"n": "50"}), "?flushed=20s").header("keystead-flushed"), Some("yes"));
    assert_eq!(http.run(&json!([["DBSIZE"]]))[0]["result"], json!(52));
    // It is known after a restart, too.
    fixture.server.kill().unwrap();
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    assert!(http.sink()["quarantined"].as_u64().unwrap() > 0);
    postgres.sql("ALTER TABLE t DROP CONSTRAINT t_value_check");
    assert_eq!(http.post("/sinks/s/retry", "").json(), json!({"keys": 2}));
    until("the row is in the target", || postgres.sql("SELECT count(*) FROM t WHERE key = 'd:13'") == "1");
    until("the quarantine has one key", || http.sink()["quarantined"] == json!(1));
    assert_eq!(http.post("/sinks/s/skip?key=d%3Anul", "").json(), json!({"keys": 1}));
    assert_eq!(http.sink()["quarantined"], json!(0));
    http.run(&json!([["DEL", "d:nul"]]));
    http.flush();
    assert_eq!(http.verify(), 51);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waitsink_waits_for_the_target() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    let fixture = Fixture::start(&postgres, "flushEvery = \"1h\"", &["--shards", "4"]);
    fixture.http().flush();
    let mut client = Client::connect(&fixture.server);
    for n in 0..10 {
        // In one pipeline, on all shards.
        let sets: Vec<String> = (0..8).map(|key| format!("SET d:{key} {n}")).collect();
        let lines: Vec<&str> = sets.iter().map(String::as_str).chain(["WAITSINK s 20000"]).collect();
        assert_eq!(client.ask_all(lines).last().unwrap(), ":1");
        let equal = format!("SELECT count(*) FROM t WHERE value = '\"{n}\"'");
        assert_eq!(postgres.sql(&equal), "8", "round {n}");
    }
    postgres.locked(|| {
        let mut other = Client::connect(&fixture.server);
        assert_eq!(other.ask_all(["SET d:late 1", "WAITSINK s 50", "GET d:late"]), ["+OK", ":0", "1"]);
    });
    assert_eq!(client.ask("WAITSINK s 0"), ":1");
    assert_eq!(postgres.sql("SELECT count(*) FROM t WHERE key = 'd:late'"), "1");
    for (line, words) in [
        ("WAITSINK nobody 10", "-ERR there is no sink 'nobody'"),
        ("WAITSINK s x", "-ERR timeout is not an integer or out of range"),
        ("WAITSINK s 60001", "-ERR timeout is out of range: at most 60000 ms"),
        ("WAITSINK s", "-ERR wrong number of arguments for 'waitsink' command"),
    ] {
        assert_eq!(client.ask(line), words);
    }
    // A client that goes away, and a server that stops, do not wait for it.
    postgres.locked(|| {
        let mut gone = Client::connect(&fixture.server);
        gone.send("SET d:gone 1");
        assert_eq!(gone.receive(), "+OK");
        gone.send("WAITSINK s 60000");
        gone.half_close();
        assert!(gone.is_closed(), "it does not wait for the target");
    });
    let mut http = fixture.http();
    let batch = json!({"operations": [
        {"op": "put", "key": "d:{t}1", "value": 1}, {"op": "put", "key": "other{t}", "value": 1},
    ]});
    let response = http.post("/kv:batch?flushed=20s", &batch.to_string());
    assert_eq!(
        (response.status, response.header("keystead-flushed")),
        (200, Some("yes")),
        "{}",
        response.text()
    );
    assert_eq!(postgres.sql("SELECT count(*) FROM t WHERE key = 'd:{t}1'"), "1");
    let other = json!({"operations": [{"op": "put", "key": "other", "value": 1}]}).to_string();
    assert_eq!(http.post("/kv:batch?flushed=20s", &other).header("keystead-flushed"), Some("none"));
    assert_eq!(http.post("/kv:batch", &batch.to_string()).header("keystead-flushed"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_means_that_the_target_has_it() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    // Nothing is written unless somebody asks for it.
    let fixture = Fixture::start(&postgres, "flushEvery = \"1h\"", &["--shards", "2"]);
    let mut http = fixture.http();
    http.flush();
    for n in 0..20 {
        let response = http.put(&format!("d:{n}"), &json!({ "n": n }), "?flushed=20s");
        assert_eq!(response.header("keystead-flushed"), Some("yes"));
        assert_eq!(postgres.sql(&format!("SELECT value->>'n' FROM t WHERE key = 'd:{n}'")), n.to_string());
    }
    let response = http.ask("DELETE", "/kv/d:3?flushed=20s", &[], b"");
    assert_eq!(response.header("keystead-flushed"), Some("yes"));
    assert_eq!(postgres.sql("SELECT count(*) FROM t WHERE key = 'd:3'"), "0");
    assert_eq!(http.put("other", &json!(1), "?flushed=1s").header("keystead-flushed"), Some("none"));
    assert_eq!(http.put("d:1", &json!(1), "").header("keystead-flushed"), None);
    postgres.locked(|| {
        assert_eq!(http.put("d:1", &json!(2), "?flushed=50ms").header("keystead-flushed"), Some("pending"));
    });
    http.flush();
    assert_eq!(http.verify(), 19);
    let response = http.ask("PUT", "/kv/d:1?flushed=1h", &[], b"1");
    assert_eq!(response.status, 400, "{}", response.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writing_through_replies_when_the_target_has_it() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    let fixture = Fixture::start(&postgres, "mode = \"write-through\"", &["--shards", "2"]);
    let mut http = fixture.http();
    for n in 0..20 {
        assert_eq!(http.put("d:1", &json!({ "n": n }), "").header("keystead-flushed"), Some("yes"));
        assert_eq!(postgres.sql("SELECT value->>'n' FROM t WHERE key = 'd:1'"), n.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_go_to_typed_columns_and_only_those_that_have_changed() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, name text, age int, seen text DEFAULT 'never', {OWN})"
    ));
    let more = "key = \"id\"\nstripPrefix = true\nmode = \"dirty-fields\"\nflushEvery = \"1h\"\ncolumns = { name = \"name\", age = \"age\" }";
    let fixture = Fixture::start(&postgres, more, &["--shards", "1"]);
    let mut http = fixture.http();
    http.run(&json!([["HSET", "d:1", "name", "Ada", "age", "36"], ["HSET", "d:x", "name", "no number"]]));
    http.flush();
    let all = "SELECT id, name, age, seen, keystead_version FROM t";
    assert_eq!(postgres.sql(all), "1|Ada|36|never|1");
    // Another program owns the other columns, also one of those that are mapped, as long as it does not change here.
    postgres.sql("UPDATE t SET name = 'Countess', seen = 'today'");
    http.run(&json!([["HINCRBY", "d:1", "age", "1"], ["HINCRBY", "d:1", "age", "1"]]));
    http.flush();
    assert_eq!(postgres.sql(all), "1|Countess|38|today|3");
    let reason = http.get("/sinks/s/quarantine").json()["keys"][0]["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason, "\"x\" does not fit the column id of type integer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_writes_what_is_pending_within_its_grace() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    let mut fixture = Fixture::start(&postgres, "flushEvery = \"1h\"\ngrace = \"20s\"", &["--shards", "2"]);
    let mut http = fixture.http();
    http.put("d:0", &json!(1), "?flushed=20s");
    let commands: Vec<_> = (0..300).map(|n| json!(["SET", format!("d:{n}"), n.to_string()])).collect();
    http.run(&json!(commands));
    assert_eq!(postgres.sql("SELECT count(*) FROM t"), "1");
    assert!(fixture.server.stop().unwrap().success());
    assert_eq!(postgres.sql("SELECT count(*) FROM t"), "300");

    // A target that does not reply: the stop waits for its grace, and what is left follows after the next start.
    crate::configure(fixture.home.path(), &postgres, "flushEvery = \"1h\"\ngrace = \"200ms\"");
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.flush();
    http.run(&json!([["SET", "d:last", "1"]]));
    postgres.locked(|| assert!(fixture.server.stop().unwrap().success()));
    assert!(fixture.server.logs().contains("it follows after the next start"), "{}", fixture.server.logs());
    crate::configure(fixture.home.path(), &postgres, "flushEvery = \"10ms\"");
    fixture.server.restart().unwrap();
    until("the rest is in the target", || postgres.sql("SELECT count(*) FROM t") == "301");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_target_gets_fewer_and_larger_batches() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    postgres.sql("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.25); RETURN NULL; END'");
    postgres.sql("CREATE TRIGGER slow BEFORE INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION slow()");
    let fixture = Fixture::start(&postgres, "flushEvery = \"10ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    for n in 0..2_000u32 {
        http.put(&format!("d:{}", n % 20), &json!({ "n": n }), "");
    }
    http.flush();
    let sink = http.sink();
    let (changes, rows) = (sink["changes"].as_u64().unwrap(), sink["rows"].as_u64().unwrap());
    println!("{changes} changes were {rows} rows in {} batches", sink["batches"]);
    assert!(changes >= 5 * rows, "{sink}");
    assert_eq!(http.verify(), 20);
    assert_eq!(postgres.sql("SELECT max((value->>'n')::int) FROM t"), "1999");
}
