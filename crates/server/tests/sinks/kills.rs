//! Clients write while the server, the real PostgreSQL, or both are killed at random moments, and while batches arrive of which nobody learns
//! or which arrive late: nothing acknowledged is lost, nothing goes back, and in the end source and target are what the clients know, key by
//! key and version by version. A target whose position is outside of the transaction is caught by the same check.
//!
//! `KEYSTEAD_SINK_ROUNDS=N` has more faults, `KEYSTEAD_SEED=N` repeats the writes and the faults of a run.

use std::time::Duration;

use keystead_testkit::rng::{Rng, fresh_seed};
use keystead_testkit::servers::postgres::PASSWORD;
use keystead_testkit::servers::proxy::Proxy;
use serde_json::json;

use crate::writers::{Writers, Writing};
use crate::{Fixture, OWN, Postgres, Rows, Target, rows, until};

/// Faults of a short run.
const ROUNDS: u64 = 100;

/// Those of the same history at `fsync`.
const ROUNDS_AT_FSYNC: u64 = 25;

/// The most kills that the broken variant may survive.
const ROUNDS_OF_BROKEN: u64 = 60;

pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The seed that was asked for, or a new one.
pub(crate) fn seed() -> u64 {
    number(keystead_testkit::rng::SEED_VARIABLE, fresh_seed())
}

/// PostgreSQL through a proxy.
struct Proxied<'t> {
    postgres: &'t Postgres,
    port: u16,
}

impl Target for Proxied<'_> {
    fn url(&self) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres?deadline=1s", self.port)
    }

    fn sql(&self, statement: &str) -> String {
        self.postgres.sql(statement)
    }
}

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Server,
    Target,
    Both,
    /// A batch is in the target, and its acknowledgement is lost.
    Lost,
    /// A batch arrives after its deadline, when its writer has connected again.
    Late,
}

impl Fault {
    /// Mostly kills of the server, which take the least time.
    fn random(random: &mut Rng) -> Fault {
        match random.next_u64() % 20 {
            0 => Fault::Target,
            1 => Fault::Both,
            2 | 3 => Fault::Late,
            4..=7 => Fault::Lost,
            _ => Fault::Server,
        }
    }
}

/// Every change of a row is written down by the target itself.
fn create(postgres: &Postgres) {
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    postgres.sql("CREATE TABLE log (id bigserial PRIMARY KEY, key text, n bigint, batch bigint)");
    postgres.sql(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO log (key, n, batch) VALUES (NEW.key, (NEW.value->>''n'')::bigint, NEW.keystead_batch); RETURN NULL; END'",
    );
    postgres.sql("CREATE TRIGGER note AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note()");
}

async fn history(durability: &str, rounds: u64) {
    let Some(mut postgres) = Postgres::start().await else { return };
    create(&postgres);
    let proxy = Proxy::start(postgres.0.site().port()).await.unwrap();
    let seed = seed();
    println!("KEYSTEAD_SEED={seed} KEYSTEAD_SINK_ROUNDS={rounds}");
    let mut random = Rng::new(seed);
    let more = "flushEvery = \"5ms\"\nflushRows = 7\ngrace = \"1ms\"";
    let target = Proxied { postgres: &postgres, port: proxy.port() };
    let mut fixture = Fixture::start(&target, more, &["--shards", "2", "--durability", durability]);
    let writers = Writers::start(&fixture.server, Writing { clients: 4, keys: 12, seed });
    let (mut lost, mut late) = (0, 0);
    for _ in 0..rounds {
        writers.progress(20 + random.next_u64() % 100);
        match Fault::random(&mut random) {
            Fault::Server => writers.kill(&mut fixture.server),
            Fault::Target => {
                postgres.0.kill().unwrap();
                writers.progress(50);
                postgres.0.restart().await.unwrap();
            }
            Fault::Both => {
                writers.kill_with(&mut fixture.server, || postgres.0.kill().unwrap());
                writers.progress(20);
                postgres.0.restart().await.unwrap();
            }
            Fault::Lost => {
                proxy.lose_next(b"COMMIT\0");
                until("an acknowledgement is lost", || !proxy.is_to_lose());
                lost += 1;
            }
            Fault::Late => {
                proxy.hold_existing();
                writers.progress(20);
                // The deadline of a call passes.
                tokio::time::sleep(Duration::from_millis(1_200)).await;
                proxy.release();
                late += 1;
            }
        }
    }
    let wrote = writers.stop();
    let mut http = fixture.http();
    assert_eq!(http.documents(), wrote.rows, "the source is what clients know");
    http.flush();
    assert_eq!(rows(&postgres), wrote.rows, "the target is what clients know");
    http.verify();
    // Values only grow, so a row that went back would be here.
    let back = "SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY key ORDER BY id) AS back FROM log) AS steps WHERE back";
    assert_eq!(postgres.sql(back), "0", "a row went back");
    let batches = "SELECT count(DISTINCT batch), count(*) FROM log";
    println!(
        "{} writes acknowledged, {} of unknown outcome; {lost} acknowledgements of the target lost, {late} late; batches|row changes: {}",
        wrote.acknowledged,
        wrote.unknown,
        postgres.sql(batches)
    );
    assert!(wrote.unknown > 0, "no kill met a write");
    assert_eq!(http.sink()["problem"], json!(null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_goes_back() {
    history("commit", number("KEYSTEAD_SINK_ROUNDS", ROUNDS)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_goes_back_at_fsync() {
    history("fsync", number("KEYSTEAD_SINK_ROUNDS", ROUNDS_AT_FSYNC)).await;
}

/// Makes the position of this target one that goes ahead of the rows, in a transaction of its own, whatever the server asks for.
fn set_position_outside(postgres: &Postgres) {
    let port = postgres.0.site().port();
    postgres.sql("CREATE EXTENSION dblink");
    postgres.sql("ALTER TABLE keystead_sinks RENAME TO positions");
    postgres.sql("CREATE VIEW keystead_sinks AS SELECT * FROM positions");
    postgres.sql(&format!(
        "CREATE FUNCTION ahead() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN \
           PERFORM dblink_exec('host=127.0.0.1 port={port} dbname=postgres user=postgres password={PASSWORD}', \
             format('UPDATE positions SET database_id = %L, batch = %s, revisions = %L, resync = %L WHERE sink = %L', \
               NEW.database_id, NEW.batch, NEW.revisions, NEW.resync, NEW.sink)); \
           RETURN NEW; END$$"
    ));
    postgres.sql(
        "CREATE TRIGGER ahead INSTEAD OF UPDATE ON keystead_sinks FOR EACH ROW EXECUTE FUNCTION ahead()",
    );
}

/// Kills the server in rounds, and returns what the clients know and what the target has.
async fn kill_only(
    postgres: &Postgres,
    seed: u64,
    prepare: impl FnOnce(&Postgres),
    rounds: u64,
) -> (Rows, Rows) {
    create(postgres);
    // Most of the time there is a batch under way, between its position and its end.
    postgres.sql("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END'");
    postgres.sql("CREATE TRIGGER slow BEFORE INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION slow()");
    let more = "flushEvery = \"5ms\"\nflushRows = 20\ngrace = \"1ms\"";
    let mut fixture = Fixture::start(postgres, more, &["--shards", "1", "--durability", "commit"]);
    // The position is there, and no resynchronisation is interrupted.
    fixture.http().settle();
    prepare(postgres);
    // So many keys that what is lost is not written again soon.
    let writers = Writers::start(&fixture.server, Writing { clients: 4, keys: 1_000, seed });
    for _ in 0..rounds {
        writers.progress(60);
        writers.kill(&mut fixture.server);
    }
    let wrote = writers.stop();
    fixture.http().flush();
    assert_eq!(fixture.http().sink()["resyncs"], json!(0), "nothing was repaired by that");
    (wrote.rows, rows(postgres))
}

/// The same kills and the same comparison, without the fault and with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_outside_of_the_transaction_is_caught_by_kills() {
    let Some(postgres) = Postgres::start().await else { return };
    let seed = seed();
    println!("KEYSTEAD_SEED={seed}");
    let (known, found) = kill_only(&postgres, seed, |_| (), 5).await;
    assert_eq!(found, known);
    postgres.sql("DROP TABLE t, log, keystead_sinks; DROP FUNCTION note, slow");
    let (known, found) = kill_only(&postgres, seed, set_position_outside, ROUNDS_OF_BROKEN).await;
    let missing = known.iter().filter(|row| !found.contains(row)).count();
    println!("{missing} of {} rows are missing or old", known.len());
    assert!(missing > 0, "the broken variant was not caught");
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
