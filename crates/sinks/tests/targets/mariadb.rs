//! What only MySQL does: engines, collations, unique columns, packets; and faults of the server.

use std::sync::Arc;

use keystead_core::{Code, Error};
use keystead_sinks::{Layout, Row, Sink, Written, open};
use keystead_testkit::servers::mariadb::{self, LOGIN, MARIADB, MARIADB_TLS};
use keystead_testkit::servers::{OwnServer, SharedServer, certificates, nats};
use keystead_testkit::skip::found;
use serde_json::json;

use crate::cases::{delete, fields, put, write};
use crate::faults::{self, Faulty};
use crate::target;

const T: &str = "CREATE TABLE t (`key` varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY, \
    value json, keystead_version bigint NOT NULL DEFAULT 0, keystead_batch bigint NOT NULL DEFAULT 0)";

async fn rejected_at_probe(url: &str, layout: Layout) -> Error {
    open(url, layout).unwrap().probe().await.unwrap_err()
}

fn layout() -> Layout {
    Layout::whole("s", "", "t")
}

#[tokio::test]
async fn tables_that_would_lose_or_mix_up_rows_are_rejected() {
    let Some(target) = target::mysql().await else { return };
    target.sql(&format!("{T} ENGINE=MyISAM"));
    let error = rejected_at_probe(&target.url, layout()).await;
    assert_eq!(error.code(), Code::ConfigInvalid);
    let (_, fix) = error.message().split_once("which has no transactions: run ").unwrap();
    target.sql(fix);
    open(&target.url, layout()).unwrap().probe().await.unwrap();
    target.sql("ALTER TABLE t MODIFY `key` varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci");
    let error = rejected_at_probe(&target.url, layout()).await;
    assert!(error.message().contains("takes different keys for the same"), "{error}");
    let (_, fix) = error.message().split_once("run ").unwrap();
    target.sql(fix.split_once(", or").unwrap().0);
    let sink = open(&target.url, layout()).unwrap();
    sink.probe().await.unwrap();
    // What other collations take for the same.
    let keys = ["a", "A", "ä", "a ", ""];
    assert_eq!(write(&*sink, 1, keys.map(|key| put(key, 1, json!(key))).to_vec()).await, Written::Done);
    assert_eq!(sink.keys(None, None, 9).await.unwrap(), ["", "A", "a", "a ", "ä"]);
    assert_eq!(write(&*sink, 2, vec![delete("a "), delete("A")]).await, Written::Done);
    assert_eq!(sink.keys(None, None, 9).await.unwrap(), ["", "a", "ä"]);
    target.sql("ALTER TABLE t MODIFY keystead_batch bigint");
    let error = rejected_at_probe(&target.url, layout()).await;
    let (_, fix) = error.message().split_once("may be NULL: run ").unwrap();
    target.sql(fix);
    sink.probe().await.unwrap();
    // A key of MyISAM is shorter.
    target.sql("ALTER TABLE keystead_sinks MODIFY sink varchar(100) NOT NULL, ENGINE=MyISAM");
    let error = sink.probe().await.unwrap_err();
    assert!(error.message().contains("keystead_sinks is of the engine MyISAM"), "{error}");
}

#[tokio::test]
async fn a_row_with_the_unique_value_of_another_key_is_rejected() {
    let Some(target) = target::mysql().await else { return };
    target.sql(&T.replace("value json", "email varchar(50) UNIQUE, value json"));
    let sink = target.sink(Layout { values: fields(&[("email", "email")]), ..layout() });
    let row = |key: &str, version, email: &str| put(key, version, json!({ "email": email }));
    assert_eq!(write(&*sink, 1, vec![row("a", 1, "x@y"), row("b", 1, "z@y")]).await, Written::Done);
    let rows = vec![row("c", 1, "c@y"), row("d", 1, "x@y"), row("b", 2, "b@y")];
    let Written::Rejected(rejected) = write(&*sink, 2, rows).await else { panic!("it was written") };
    assert_eq!(rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(), [1]);
    assert!(rejected[0].reason.contains("another key has a row with the same value"), "{rejected:?}");
    let all = "SELECT `key`, email, keystead_version FROM t ORDER BY 1";
    assert_eq!(target.sql(all), "a|x@y|1\nb|z@y|1", "the row of the other key is as it was");
}

#[tokio::test]
async fn nothing_is_cut_off_or_replaced() {
    let Some(target) = target::mysql().await else { return };
    let columns = "name varchar(3), small tinyint, day date, kind enum('a','b'), value json";
    target.sql(&T.replace("value json", columns));
    let names = ["name", "small", "day", "kind"].map(|name| (name, name));
    let sink = target.sink(Layout { values: fields(&names), ..layout() });
    let good = json!({"name": "äöü", "small": -128, "day": "2026-02-28", "kind": "a"});
    let bad = [
        json!({"name": "four"}),
        json!({"small": 128}),
        json!({"day": "2026-02-30"}),
        json!({"day": "0000-00-00"}),
        json!({"kind": "c"}),
        json!({"small": "1.5"}),
    ];
    let mut rows = vec![put("good", 1, good.clone())];
    rows.extend(bad.iter().enumerate().map(|(at, value)| put(&format!("bad{at}"), 1, value.clone())));
    // What no target takes is found first, and the rest by the server.
    for expected in [vec![6], vec![1, 2, 3, 4, 5]] {
        let Written::Rejected(rejected) = write(&*sink, 1, rows.clone()).await else {
            panic!("it was written")
        };
        assert_eq!(
            rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(),
            expected,
            "{rejected:?}"
        );
        rejected.iter().rev().for_each(|rejection| drop(rows.remove(rejection.row)));
    }
    assert_eq!(write(&*sink, 1, rows.clone()).await, Written::Done);
    assert_eq!(target.sql("SELECT `key`, name, small, day, kind FROM t"), "good|äöü|-128|2026-02-28|a");
    assert_eq!(sink.differing(&rows).await.unwrap(), [""; 0]);
    target.sql("UPDATE t SET name = 'ÄÖÜ'");
    assert_eq!(sink.differing(&rows).await.unwrap(), ["good"], "texts are compared byte by byte");
}

#[tokio::test]
async fn a_batch_is_larger_than_a_packet() {
    let Some(server) = found("mariadb", OwnServer::start(&MARIADB).await) else { return };
    let sql = |statement: &str| mariadb::sql(server.site(), "mysql", statement).unwrap();
    sql("SET GLOBAL max_allowed_packet = 1048576");
    sql("CREATE DATABASE d");
    sql(&T.replace("TABLE t", "TABLE d.t"));
    let sink = sink_of(server.site().port(), "");
    let text = |bytes: usize| json!("x".repeat(bytes));
    let mut rows: Vec<Row> = (0..30).map(|n| put(&format!("k{n}"), 1, text(200_000))).collect();
    rows.insert(7, put("large", 1, text(1_100_000)));
    let Written::Rejected(rejected) = write(&*sink, 1, rows.clone()).await else { panic!("it was written") };
    assert_eq!(rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(), [7]);
    assert!(rejected[0].reason.contains("max_allowed_packet of the server leaves"), "{rejected:?}");
    rows.remove(7);
    rows.push(put("fits", 1, text(900_000)));
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    let sizes = "SELECT count(*), sum(length(value)) FROM d.t";
    assert_eq!(sql(sizes), format!("31|{}", 30 * 200_002 + 900_002));
}

fn sink_of(port: u16, parameters: &str) -> Arc<dyn Sink> {
    let [user, password] = LOGIN;
    open(&format!("mysql://{user}:{password}@127.0.0.1:{port}/d{parameters}"), layout()).unwrap()
}

#[tokio::test]
async fn logins_that_fail_say_what_to_do() {
    let Some(server) = found("mariadb", SharedServer::get(&MARIADB).await) else { return };
    let port = server.site().port();
    let [user, password] = LOGIN;
    let foreign = found("nats", SharedServer::get(&nats::NATS).await);
    let foreign = foreign.as_ref().map_or(1, |server| server.site().port());
    for (url, expected) in [
        (format!("mysql://{user}:wrong-secret@127.0.0.1:{port}/d"), "rejected the user name or password"),
        (format!("mariadb://{user}:{password}@127.0.0.1:{port}/nowhere"), "no database 'nowhere': create it"),
        (format!("mysql://{user}:{password}@127.0.0.1:{port}/d?tls=true"), "no TLS connection"),
        (format!("mysql://{user}:{password}@127.0.0.1:{foreign}/d?deadline=2s"), "127.0.0.1"),
    ] {
        let error = rejected_at_probe(&url, layout()).await;
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.message().contains(expected), "{error}");
        assert!(!error.message().contains("secret") && !error.message().contains(password), "{error}");
    }
}

async fn faulty() -> Option<Faulty> {
    let server = found("mariadb", OwnServer::start(&MARIADB).await)?;
    mariadb::sql(server.site(), "mysql", "CREATE DATABASE d").unwrap();
    mariadb::sql(server.site(), "d", T).unwrap();
    Some(Faulty {
        server,
        sink: sink_of,
        sql: |site, text| mariadb::sql(site, "d", text).unwrap(),
        pauses: true,
    })
}

#[tokio::test]
async fn lost_replies_and_a_slow_server_are_unknown_and_then_settled() {
    let Some(target) = faulty().await else { return };
    faults::lost_replies(target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_the_middle_of_batches_lose_and_repeat_nothing() {
    let Some(target) = faulty().await else { return };
    faults::kills(target).await;
}

#[tokio::test]
async fn tls_is_checked() {
    // Which certificates are trusted is a matter of the process: this is the one that trusts the server.
    if let Ok(port) = std::env::var("KEYSTEAD_TEST_TRUSTED_PORT") {
        let error = sink_of(port.parse().unwrap(), "?tls=true").probe().await.unwrap_err();
        assert!(error.message().contains("has no database 'd'"), "{error}");
        return;
    }
    let Some(server) = found("mariadb-tls", OwnServer::start(&MARIADB_TLS).await) else { return };
    let port = server.site().port();
    let error = sink_of(port, "?tls=true").probe().await.unwrap_err();
    assert!(error.message().contains("is not trusted"), "{error}");
    let error = sink_of(port, "").probe().await.unwrap_err();
    assert!(error.message().contains("or it takes TLS only"), "{error}");
    let authority = server.site().dir.join(certificates::AUTHORITY);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "mariadb::tls_is_checked"]);
    child.env("SSL_CERT_FILE", authority).env("KEYSTEAD_TEST_TRUSTED_PORT", port.to_string());
    let output = child.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
}
