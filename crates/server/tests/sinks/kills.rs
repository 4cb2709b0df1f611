//! Random writes while the server and the real PostgreSQL are killed at random moments: nothing is lost, nothing goes back, and in the end
//! source and target are equal, key by key and version by version.
//!
//! `KEYSTEAD_SINK_ROUNDS=N` kills more often, `KEYSTEAD_SEED=N` repeats a run.

use std::time::Duration;

use keystead_commands::Random;
use serde_json::{Value, json};

use crate::client::Http;
use crate::{Fixture, OWN, Postgres, Target, rows, until};

/// Kills of a short run. One in seven is of PostgreSQL, which takes longer to start.
const ROUNDS: u64 = 100;

const KEYS: u64 = 40;

pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A command about a random key.
fn command(random: &mut Random, n: u64) -> Value {
    let key = format!("d:{}", random.next() % KEYS);
    match random.next() % 5 {
        0 => json!(["DEL", key]),
        1 => json!(["JSON.SET", key, "$", json!({ "n": n }).to_string(), "NX"]),
        _ => json!([
            "JSON.SET",
            key,
            "$",
            json!({ "n": n, "text": "x".repeat((n % 50) as usize) }).to_string()
        ]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_goes_back() {
    let Some(mut postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    // Every change of a row is written down by the target itself.
    postgres.sql("CREATE TABLE log (id bigserial PRIMARY KEY, key text, n bigint, batch bigint)");
    postgres.sql(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO log (key, n, batch) VALUES (NEW.key, (NEW.value->>''n'')::bigint, NEW.keystead_batch); RETURN NULL; END'",
    );
    postgres.sql("CREATE TRIGGER note AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note()");
    let (rounds, seed) = (number("KEYSTEAD_SINK_ROUNDS", ROUNDS), number("KEYSTEAD_SEED", 1));
    println!("KEYSTEAD_SEED={seed} KEYSTEAD_SINK_ROUNDS={rounds}");
    let mut random = Random::new(seed);
    // At `commit` an acknowledged write survives a kill, and a round is short.
    let more = "flushEvery = \"5ms\"\nflushRows = 7\ngrace = \"1ms\"";
    let mut fixture = Fixture::start(&postgres, more, &["--shards", "2", "--durability", "commit"]);
    let mut n = 0;
    for round in 0..rounds {
        let mut http = fixture.http();
        let commands = 20 + random.next() % 200;
        for _ in 0..commands {
            n += 1;
            let response = http.post("/pipeline", &json!([command(&mut random, n)]).to_string());
            assert_eq!(response.status, 200, "{}", response.text());
        }
        tokio::time::sleep(Duration::from_millis(random.next() % 20)).await;
        if round % 7 == 6 {
            postgres.0.kill().unwrap();
            write_meanwhile(&mut http, &mut random, &mut n);
            postgres.0.restart().await.unwrap();
        } else {
            fixture.server.kill().unwrap();
            fixture.server.restart().unwrap();
        }
    }
    let mut http = fixture.http();
    http.flush();
    assert_eq!(rows(&postgres), http.documents());
    http.verify();
    // Values only grow, so a row that went back would be here.
    let back = "SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY key ORDER BY id) AS back FROM log) AS steps WHERE back";
    assert_eq!(postgres.sql(back), "0", "a row went back");
    let metrics = http.sink();
    println!(
        "{n} commands, {} row changes in the target: {metrics}",
        postgres.sql("SELECT count(*) FROM log")
    );
}

/// The target is away, and clients do not notice.
fn write_meanwhile(http: &mut Http, random: &mut Random, n: &mut u64) {
    for _ in 0..50 {
        *n += 1;
        let response = http.post("/pipeline", &json!([command(random, *n)]).to_string());
        assert_eq!(response.status, 200, "{}", response.text());
    }
}

/// The same batch twice, and a process that comes back late: the position in the target keeps both out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_with_one_database_do_not_both_write() {
    let Some(postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    let fixture = Fixture::start(&postgres, "flushEvery = \"10ms\"", &["--shards", "1"]);
    let mut http = fixture.http();
    http.put("d:1", &json!({"n": 1}), "?flushed=20s");
    // A server of another database, with the same settings by mistake.
    let other = Fixture::start(&postgres, "flushEvery = \"10ms\"", &["--shards", "1"]);
    let mut foreign = other.http();
    foreign.put("d:1", &json!({"n": "foreign"}), "");
    until("the other server says so", || {
        let problem = foreign.sink()["problem"]["message"].as_str().unwrap_or_default().to_owned();
        problem.contains("belongs to another database") && problem.contains("keystead sink resync s")
    });
    http.put("d:1", &json!({"n": 2}), "?flushed=20s");
    assert_eq!(postgres.sql("SELECT value->>'n' FROM t"), "2");
    // On request it takes the target over, and the first one notices.
    assert_eq!(foreign.post("/sinks/s/resync", "").status, 202);
    until("the other has written all keys", || postgres.sql("SELECT value->>'n' FROM t") == "foreign");
    http.put("d:1", &json!({"n": 3}), "");
    until("the first server says so", || {
        http.sink()["problem"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("belongs to another"))
    });
    assert_eq!(postgres.sql("SELECT value->>'n' FROM t"), "foreign");
}
