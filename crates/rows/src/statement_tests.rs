//! The statements of a dialect without a server.

use keystead_core::{Revision, ShardId, Version};
use serde_json::json;

use super::*;
use crate::param::Kind;

pub(crate) const DIALECT: Dialect = Dialect {
    quote: '"',
    grammar: Grammar::Conflict,
    params_max: 6,
    rows_max: 9,
    bytes: 1_000,
    parameter: |number, column| format!("${number}::{}", column.type_name),
    same: |one, other, _| format!("{one} IS NOT DISTINCT FROM {other}"),
    types: Types { key: "text", text: "text", json: "jsonb", integer: "bigint", bool: "boolean" },
    yes: "TRUE",
    no: "FALSE",
};

fn column(name: &str, type_name: &str, kind: Kind) -> Column {
    let (name, type_name) = (name.to_owned(), type_name.to_owned());
    Column { quoted: DIALECT.quoted(&name), name, type_name, kind }
}

fn table(deletes: Deletes) -> Table {
    let values = vec![column("a", "text", Kind::Text), column("b", "int4", Kind::Integer)];
    Table { quoted: "\"t\"".to_owned(), key: column("key", "text", Kind::Text), values, deletes }
}

fn layout() -> Layout {
    let fields = [("a", "a"), ("b", "b")].map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
    Layout { values: crate::layout::Values::Fields(fields), ..Layout::whole("s", "", "t") }
}

fn row(key: &str, change: Change) -> Row {
    let (version, revision) = (Version(5), Revision(9));
    Row { key: key.to_owned(), version, shard: ShardId(0), revision, change }
}

fn put(n: i64, changed: Option<Vec<String>>) -> Change {
    Change::Put { value: json!({"a": "x", "b": n}), changed }
}

fn written(rows: &[Row], deletes: Deletes) -> (Vec<Statement>, Vec<Rejection>) {
    let table = table(deletes);
    let sorted = prepare(&layout(), &table, rows.iter().enumerate());
    (writes(&table, &DIALECT, 7, &sorted), sorted.rejected)
}

#[test]
fn upserts_are_guarded_and_chunked_by_parameters() {
    let rows = ["k1", "k2", "k3"].map(|key| row(key, put(1, None)));
    let (statements, _) = written(&rows, Deletes::Delete);
    assert_eq!(
        statements[0].sql,
        "INSERT INTO \"t\" (\"key\", \"a\", \"b\", keystead_version, keystead_batch) VALUES ($1::text, $2::text, $3::int4, 5, 7) \
         ON CONFLICT (\"key\") DO UPDATE SET \"a\" = excluded.\"a\", \"b\" = excluded.\"b\", \
         keystead_version = excluded.keystead_version, keystead_batch = excluded.keystead_batch \
         WHERE \"t\".keystead_batch < excluded.keystead_batch"
    );
    assert_eq!(statements.len(), 3, "each within the parameters of one statement");
    assert!(statements.iter().all(|one| one.params.len() <= DIALECT.params_max));
}

#[test]
fn a_large_row_is_alone_in_its_statement() {
    let text = |bytes: usize| {
        let value = json!({"a": "x".repeat(bytes), "b": 1});
        row("k", Change::Put { value, changed: None })
    };
    let dialect = Dialect { params_max: 100, ..DIALECT };
    let sizes = |rows: &[Row]| {
        let table = table(Deletes::Delete);
        let sorted = prepare(&layout(), &table, rows.iter().enumerate());
        let statements = writes(&table, &dialect, 7, &sorted);
        statements.iter().map(|statement| statement.params.len() / 3).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[text(300), text(300), text(300), text(2_000), text(10)]), [2, 1, 1, 1]);
}

#[test]
fn mysql_assigns_the_guard_last() {
    let dialect =
        Dialect { quote: '`', grammar: Grammar::Duplicate, parameter: |_, _| "?".to_owned(), ..DIALECT };
    let table = table(Deletes::Delete);
    let part = row("k2", put(1, Some(vec!["b".to_owned()])));
    let sorted = prepare(&layout(), &table, [row("k1", put(1, None)), part].iter().enumerate());
    let statements = writes(&table, &dialect, 7, &sorted);
    assert_eq!(
        statements[0].sql.split_once(" ON ").unwrap().1,
        "DUPLICATE KEY UPDATE \"a\" = IF(keystead_batch < 7, VALUES(\"a\"), \"a\"), \
         \"b\" = IF(keystead_batch < 7, VALUES(\"b\"), \"b\"), \
         keystead_version = IF(keystead_batch < 7, VALUES(keystead_version), keystead_version), \
         keystead_batch = IF(\"key\" <=> VALUES(\"key\"), GREATEST(keystead_batch, 7), NULL)"
    );
    assert_eq!(
        statements[1].sql,
        "UPDATE \"t\" JOIN (SELECT ? AS k, 5 AS n, ? AS c1) AS v ON \"t\".\"key\" = v.k \
         SET \"b\" = v.c1, keystead_version = v.n, keystead_batch = 7 WHERE keystead_batch < 7"
    );
}

#[test]
fn deletes_are_guarded() {
    let rows = ["k1", "k2"].map(|key| row(key, Change::Delete));
    let (statements, _) = written(&rows, Deletes::Delete);
    assert_eq!(
        statements[0].sql,
        "DELETE FROM \"t\" WHERE \"key\" IN ($1::text, $2::text) AND keystead_batch < 7"
    );
    let (statements, _) = written(&rows, Deletes::Tombstone);
    assert!(
        statements[0].sql.starts_with("UPDATE \"t\" SET keystead_deleted = TRUE, keystead_batch = 7 WHERE")
    );
}

#[test]
fn only_changed_columns_are_updated_and_missing_rows_inserted() {
    let rows = [row("k1", put(1, Some(vec!["b".to_owned()])))];
    let (statements, _) = written(&rows, Deletes::Delete);
    let [Statement { sql, otherwise: Some((1, missing)), .. }] = &statements[..] else {
        panic!("{statements:?}")
    };
    assert_eq!(
        sql,
        "UPDATE \"t\" SET \"b\" = v.c1, keystead_version = v.n, keystead_batch = 7 \
         FROM (SELECT $1::text AS k, 5 AS n, $2::int4 AS c1) AS v WHERE \"t\".\"key\" = v.k AND \"t\".keystead_batch < 7"
    );
    assert!(missing.sql.ends_with("ON CONFLICT (\"key\") DO NOTHING"), "{}", missing.sql);
}

#[test]
fn a_value_that_does_not_fit_is_rejected_by_its_index() {
    let bad = Change::Put { value: json!({"b": "many"}), changed: None };
    let (statements, rejected) = written(&[row("k1", put(1, None)), row("k2", bad)], Deletes::Delete);
    assert_eq!(statements.len(), 1);
    assert_eq!(rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(), [1]);
}
