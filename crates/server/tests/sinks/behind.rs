//! Targets that are away, restored, or behind by more than the journal has.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::{File, Fixture, OWN, Postgres, Target, common, rows, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_away_gets_everything_when_it_comes_back() {
    let Some(mut postgres) = Postgres::start().await else { return };
    postgres.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {OWN})"));
    let mut fixture = Fixture::start(&postgres, "flushEvery = \"10ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    http.put("d:before", &json!(1), "?flushed=20s");
    postgres.0.kill().unwrap();
    for n in 0..500 {
        http.put(&format!("d:{}", n % 100), &json!({ "n": n }), "");
    }
    until("health says so", || {
        http.get("/healthz").text().contains("sink.s: its target (postgres) cannot be written")
    });
    let flush = http.post("/sinks/s/flush?timeout=50ms", "");
    assert_eq!(flush.status, 503, "{}", flush.text());
    assert!(flush.text().contains("cannot connect to"), "{}", flush.text());
    // A start without the target works, too.
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.put("d:meanwhile", &json!(1), "");
    postgres.0.restart().await.unwrap();
    http.flush();
    assert_eq!(rows(&postgres), http.documents());
    assert_eq!(http.sink()["resyncs"], json!(0), "from the journal");
    assert_eq!(http.get("/healthz").json()["status"], json!("ok"), "it is healthy again");
}

/// Writes until the journal no longer has what the sink needs, and the sink begins anew by itself.
#[test]
fn beyond_the_bound_of_the_journal_all_keys_are_written_again() {
    let home = common::dir();
    let file = File::new(home.path());
    let mut fixture =
        Fixture::start(&file, "flushEvery = \"10ms\"", &["--shards", "1", "--sink-journal", "1mb"]);
    let mut http = fixture.http();
    http.put("d:deleted", &json!(1), "?flushed=20s");
    http.put("d:kept", &json!(1), "?flushed=20s");
    // The target is away: its file is.
    let away = home.path().join("away.db");
    assert!(fixture.server.stop().unwrap().success());
    std::fs::rename(&file.0, &away).unwrap();
    std::fs::create_dir(&file.0).unwrap();
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.run(&json!([["DEL", "d:deleted"]]));
    let large = "x".repeat(1 << 20);
    let journal = fixture.home.path().join("data/shard-0/journal");
    let first = oldest(&journal);
    for n in 0..400 {
        http.put(&format!("other:{}", n % 3), &json!(large), "");
        http.put(&format!("d:{}", n % 10), &json!({ "n": n }), "");
        if oldest(&journal) > first + 2 {
            break;
        }
    }
    until("segments are recycled", || oldest(&journal) > first);
    std::fs::remove_dir(&file.0).unwrap();
    std::fs::rename(&away, &file.0).unwrap();
    http.flush();
    assert_eq!(rows(&file), http.documents());
    assert_eq!(http.sink()["resyncs"], json!(1), "{}", http.sink());
    http.verify();
}

/// The first revision of the journal, by the names of its files.
pub(crate) fn oldest(journal: &Path) -> u64 {
    let names = std::fs::read_dir(journal).unwrap().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".journal")?.parse().ok()
    });
    names.min().unwrap_or(0)
}

#[test]
fn a_target_that_was_restored_to_an_older_state_catches_up() {
    let home = common::dir();
    let file = File::new(home.path());
    let fixture = Fixture::start(&file, "flushEvery = \"10ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    http.put("d:1", &json!(1), "?flushed=20s");
    http.put("d:2", &json!(1), "?flushed=20s");
    let old = home.path().join("old.db");
    std::fs::copy(&file.0, &old).unwrap();
    http.put("d:1", &json!(2), "?flushed=20s");
    http.ask("DELETE", "/kv/d:2?flushed=20s", &[], b"");
    http.put("d:3", &json!(1), "?flushed=20s");
    std::fs::copy(&old, &file.0).unwrap();
    assert_eq!(file.sql("SELECT count(*) FROM t"), "2");
    http.put("d:4", &json!(1), "");
    http.flush();
    until("it has caught up", || rows(&file) == http.documents());
    assert_eq!(http.sink()["resyncs"], json!(1), "the first copy only: the journal has the rest");
}

#[test]
fn a_database_that_was_restored_to_an_older_state_is_what_the_target_becomes() {
    let home = common::dir();
    let file = File::new(home.path());
    let mut fixture = Fixture::start(&file, "flushEvery = \"10ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    http.put("d:1", &json!(1), "?flushed=20s");
    http.put("d:2", &json!(1), "?flushed=20s");
    assert!(fixture.server.stop().unwrap().success());
    let (data, old) = (fixture.home.path().join("data"), fixture.home.path().join("old"));
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    };
    copy(&data, &old);
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.put("d:1", &json!("lost"), "?flushed=20s");
    http.put("d:3", &json!("lost"), "?flushed=20s");
    http.ask("DELETE", "/kv/d:2?flushed=20s", &[], b"");
    // A copy by files has the same id; a backup has another one, and knows where it comes from.
    let backup = fixture.home.path().join("backup");
    let taken = http.ask(
        "POST",
        "/admin/backup",
        &["Content-Type: application/json"],
        json!({ "dir": backup }).to_string().as_bytes(),
    );
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert!(fixture.server.stop().unwrap().success());
    std::fs::remove_dir_all(&data).unwrap();
    copy(&old, &data);
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    // More changes than were lost, so that revisions alone would not show it.
    for n in 0..20 {
        http.put("d:new", &json!(n), "");
    }
    http.flush();
    assert_eq!(rows(&file), http.documents());
    assert_eq!(file.sql("SELECT value FROM t WHERE key = 'd:1'"), "1");
    assert!(fixture.server.stop().unwrap().success());
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.flush();
    assert_eq!(rows(&file), http.documents());
    assert_eq!(file.sql("SELECT value FROM t WHERE key = 'd:1'"), "\"lost\"");
    assert_eq!(http.sink()["problem"], json!(null));
}
