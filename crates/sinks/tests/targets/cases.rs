//! The cases.

use keystead_core::{Code, Revision, ShardId, Version};
use keystead_sinks::layout::{BATCH_COLUMN, VERSION_COLUMN};
use keystead_sinks::{Batch, Change, Deletes, Layout, Position, Row, Shown, Sink, Values, Written};
use serde_json::{Value, json};

pub(crate) use crate::log::{
    a_rejected_event_is_repaired_in_its_place, any_state_of_the_window_is_rebuilt,
    events_and_position_arrive_together, pages_of_a_log_are_bounded_and_only_of_a_prefix,
    what_is_old_or_many_is_compacted,
};
use crate::target::Target;

pub(crate) fn put(key: &str, version: u64, value: Value) -> Row {
    change(key, version, Change::Put { value, changed: None })
}

pub(crate) fn change(key: &str, version: u64, change: Change) -> Row {
    Row { key: key.to_owned(), version: Version(version), shard: ShardId(0), revision: Revision(1), change }
}

pub(crate) fn delete(key: &str) -> Row {
    change(key, 0, Change::Delete)
}

/// The batch with this number.
pub(crate) fn batch(number: u64, rows: Vec<Row>) -> Batch {
    let next = Position {
        database: "d1".to_owned(),
        batch: number,
        revisions: vec![Revision(number * 10)],
        resync: None,
    };
    Batch { expected: (number > 1).then(|| ("d1".to_owned(), number - 1)), next, rows }
}

pub(crate) async fn write(sink: &dyn Sink, number: u64, rows: Vec<Row>) -> Written {
    sink.write(&batch(number, rows)).await.unwrap()
}

/// Creates the table `t` with these columns beside those of every sink.
pub(crate) fn create(target: &Target, columns: &str) {
    let own = format!("{VERSION_COLUMN} bigint NOT NULL DEFAULT 0, {BATCH_COLUMN} bigint NOT NULL DEFAULT 0");
    target.sql(&format!("CREATE TABLE t (key text PRIMARY KEY, {columns}, {own})"));
}

fn whole(target: &Target) -> std::sync::Arc<dyn Sink> {
    create(target, &format!("value {}", target.json));
    target.sink(Layout::whole("s", "", "t"))
}

pub(crate) fn fields(pairs: &[(&str, &str)]) -> Values {
    Values::Fields(pairs.iter().map(|(column, path)| ((*column).to_owned(), (*path).to_owned())).collect())
}

const ALL: &str = "SELECT key, value, keystead_version, keystead_batch FROM t ORDER BY key";

pub(crate) async fn rows_and_position_arrive_together(target: &Target) {
    let sink = whole(target);
    sink.probe().await.unwrap();
    assert_eq!(sink.position().await.unwrap(), None);
    let rows = vec![put("a", 3, json!(1)), put("b", 1, json!("x"))];
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    assert_eq!(sink.position().await.unwrap(), Some(batch(1, vec![]).next));
    assert_eq!(target.sql(ALL), "a|1|3|1\nb|\"x\"|1|1");
    // Another handle finds the same.
    let other = target.sink(Layout::whole("s", "", "t"));
    assert_eq!(other.position().await.unwrap().map(|position| position.batch), Some(1));
    let mut resync = batch(2, vec![]);
    resync.next.resync = Some(2);
    assert_eq!(other.write(&resync).await.unwrap(), Written::Done);
    assert_eq!(sink.position().await.unwrap(), Some(resync.next));
}

pub(crate) async fn a_late_or_repeated_batch_changes_nothing(target: &Target) {
    let sink = whole(target);
    assert_eq!(write(&*sink, 1, vec![put("a", 1, json!(1))]).await, Written::Done);
    assert_eq!(write(&*sink, 2, vec![put("a", 2, json!(2))]).await, Written::Done);
    for number in [1, 2, 4] {
        assert_eq!(write(&*sink, number, vec![put("a", 9, json!(9))]).await, Written::Fenced, "{number}");
    }
    let mut foreign = batch(3, vec![delete("a")]);
    foreign.expected = Some(("d2".to_owned(), 2));
    assert_eq!(sink.write(&foreign).await.unwrap(), Written::Fenced, "of another database");
    assert_eq!(target.sql(ALL), "a|2|2|2");
    assert_eq!(write(&*sink, 3, vec![]).await, Written::Done, "an empty batch moves the position");
    assert_eq!(sink.position().await.unwrap().map(|position| position.batch), Some(3));
}

pub(crate) async fn a_row_of_a_later_batch_is_kept(target: &Target) {
    let sink = whole(target);
    target.sql("INSERT INTO t VALUES ('a', '1', 5, 100), ('b', '1', 5, 100), ('c', '1', 5, 0)");
    let part = Change::Put { value: json!(9), changed: Some(vec!["x".to_owned()]) };
    let rows = vec![put("a", 6, json!(9)), delete("b"), put("c", 6, json!(9))];
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    assert_eq!(write(&*sink, 2, vec![change("a", 7, part)]).await, Written::Done);
    assert_eq!(target.sql(ALL), "a|1|5|100\nb|1|5|100\nc|9|6|1");
}

pub(crate) async fn more_rows_than_a_statement_takes(target: &Target) {
    let sink = whole(target);
    let rows = (0..2_345).map(|n| put(&format!("k{n:05}"), 1, json!({ "n": n }))).collect();
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    assert_eq!(target.sql("SELECT count(*) FROM t"), "2345");
    let rows = (0..2_345).filter(|n| n % 2 == 0).map(|n| delete(&format!("k{n:05}"))).collect();
    assert_eq!(write(&*sink, 2, rows).await, Written::Done);
    assert_eq!(target.sql("SELECT count(*), min(key) FROM t"), "1172|k00001");
}

pub(crate) async fn only_changed_fields_are_written(target: &Target) {
    create(target, "a text, b bigint, other text DEFAULT 'mine'");
    let values = fields(&[("a", "a"), ("b", "b")]);
    let sink = target.sink(Layout { values, ..Layout::whole("s", "", "t") });
    assert_eq!(write(&*sink, 1, vec![put("k1", 1, json!({"a": "x", "b": 1}))]).await, Written::Done);
    target.sql("UPDATE t SET a = 'theirs', other = 'theirs'");
    let partial = |key: &str| {
        let value = json!({"a": "y", "b": "2"});
        change(key, 2, Change::Put { value, changed: Some(vec!["b".to_owned(), "unmapped".to_owned()]) })
    };
    let rows = vec![partial("k1"), partial("k2")];
    assert_eq!(write(&*sink, 2, rows).await, Written::Done);
    let all = target.sql("SELECT key, a, b, other, keystead_version FROM t ORDER BY key");
    assert_eq!(all, "k1|theirs|2|theirs|2\nk2|y|2|mine|2", "a row that is missing is written as a whole");
}

pub(crate) async fn deletes_and_tombstones(target: &Target) {
    let bool =
        if target.json == "jsonb" { "boolean NOT NULL DEFAULT FALSE" } else { "integer NOT NULL DEFAULT 0" };
    create(target, &format!("value {}, keystead_deleted {bool}", target.json));
    let sink = target.sink(Layout { deletes: Deletes::Tombstone, ..Layout::whole("s", "", "t") });
    let rows = vec![put("a", 1, json!(1)), put("b", 1, json!(1))];
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    assert_eq!(write(&*sink, 2, vec![delete("a"), delete("never there")]).await, Written::Done);
    let dead = "SELECT key FROM t WHERE keystead_deleted ORDER BY key";
    assert_eq!(target.sql(dead), "a");
    assert_eq!(sink.keys(None, None, 10).await.unwrap(), ["b"]);
    assert_eq!(sink.differing(&[delete("a"), put("b", 1, json!(1))]).await.unwrap(), [""; 0]);
    assert_eq!(sink.differing(&[put("a", 1, json!(1))]).await.unwrap(), ["a"]);
    // The key is created again, and its versions begin again.
    assert_eq!(write(&*sink, 3, vec![put("a", 1, json!(2))]).await, Written::Done);
    assert_eq!(target.sql(dead), "");
    assert_eq!(target.sql("SELECT value, keystead_version FROM t WHERE key = 'a'"), "2|1");
}

pub(crate) async fn a_rejected_row_is_named_and_keeps_the_batch_out(target: &Target) {
    create(target, "a text, b bigint CHECK (b < 100)");
    let sink =
        target.sink(Layout { values: fields(&[("a", "a"), ("b", "b")]), ..Layout::whole("s", "", "t") });
    let mut rows: Vec<Row> = (0..50).map(|n| put(&format!("k{n}"), 1, json!({"b": n}))).collect();
    rows.insert(17, put("bad", 1, json!({"b": 100})));
    let Written::Rejected(rejected) = write(&*sink, 1, rows.clone()).await else { panic!("it was written") };
    assert_eq!(rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(), [17]);
    assert!(rejected[0].reason.to_lowercase().contains("check"), "{rejected:?}");
    assert_eq!(target.sql("SELECT count(*) FROM t"), "0");
    assert_eq!(sink.position().await.unwrap(), None, "the position is not ahead of the rows");
    rows.remove(17);
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    // What no target would take is rejected without asking it.
    let Written::Rejected(rejected) = write(&*sink, 2, vec![put("k", 1, json!({"b": "many"}))]).await else {
        panic!("it was written")
    };
    assert!(rejected[0].reason.contains("\"many\" does not fit the column b"), "{rejected:?}");
    assert_eq!(write(&*sink, 2, vec![put("k", 1, json!({"b": "7"}))]).await, Written::Done);
}

pub(crate) async fn many_rejected_rows(target: &Target) {
    create(target, "b bigint CHECK (b < 100)");
    let sink = target.sink(Layout { values: fields(&[("b", "b")]), ..Layout::whole("s", "", "t") });
    let mut rows: Vec<Row> = (0..300).map(|n| put(&format!("k{n}"), 1, json!({ "b": n }))).collect();
    for _ in 0..5 {
        match write(&*sink, 1, rows.clone()).await {
            Written::Rejected(mut rejected) => {
                rejected.sort_by_key(|rejection| std::cmp::Reverse(rejection.row));
                assert!(!rejected.is_empty());
                rejected.iter().for_each(|rejection| drop(rows.remove(rejection.row)));
            }
            written => {
                assert_eq!(written, Written::Done);
                assert_eq!(target.sql("SELECT count(*), max(b) FROM t"), "100|99");
                return;
            }
        }
    }
    panic!("{} rows are left", rows.len());
}

pub(crate) async fn fields_are_typed_columns(target: &Target) {
    create(target, "name text, email text, age bigint, score double precision, tags text");
    let values = fields(&[
        ("name", "name"),
        ("email", "contact.email"),
        ("age", "age"),
        ("score", "score"),
        ("tags", "tags"),
    ]);
    let layout =
        Layout { values, strip_prefix: true, prefix: "user:".to_owned(), ..Layout::whole("s", "", "t") };
    let sink = target.sink(layout);
    let document =
        json!({"name": "O'Hara \"x\" ü", "contact": {"email": "a@b"}, "age": 7, "score": 0.1, "tags": ["a"]});
    let hash = json!({"name": "h", "age": "-8", "score": "2.5"});
    let rows = vec![put("user:1", 1, document.clone()), put("user:2", 1, hash.clone())];
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    let all = target.sql("SELECT key, name, email, age, score, tags FROM t ORDER BY key");
    assert_eq!(all, "1|O'Hara \"x\" ü|a@b|7|0.1|[\"a\"]\n2|h||-8|2.5|");
    let rows = [put("user:1", 1, document), put("user:2", 1, hash)];
    assert_eq!(sink.differing(&rows).await.unwrap(), [""; 0]);
    assert_eq!(sink.keys(None, None, 10).await.unwrap(), ["user:1", "user:2"]);
}

pub(crate) async fn differences_are_found(target: &Target) {
    let sink = whole(target);
    let value = json!({"a": [1, 2.5, "x"], "b": null});
    let keys = ["same", "value", "version", "gone", "back"];
    let rows = keys.map(|key| put(key, 2, value.clone())).to_vec();
    assert_eq!(write(&*sink, 1, rows.clone()).await, Written::Done);
    target.sql("UPDATE t SET value = '{}' WHERE key = 'value'");
    target.sql("UPDATE t SET keystead_version = 1 WHERE key = 'version'");
    target.sql("DELETE FROM t WHERE key = 'gone'");
    let mut asked = rows;
    asked[4] = delete("back");
    asked.push(delete("nowhere"));
    let mut found = sink.differing(&asked).await.unwrap();
    found.sort();
    assert_eq!(found, ["back", "gone", "value", "version"]);
}

pub(crate) async fn rows_are_shown(target: &Target) {
    create(target, "name text, n bigint");
    let values = fields(&[("name", "name"), ("n", "n")]);
    let layout =
        Layout { values, prefix: "u:".to_owned(), strip_prefix: true, ..Layout::whole("s", "", "t") };
    let sink = target.sink(layout);
    let rows = vec![put("u:1", 3, json!({"name": "Ö'Hara", "n": 7})), put("u:2", 1, json!({"n": 1}))];
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    let mut shown = sink.look(&["u:1", "u:2", "u:3"].map(str::to_owned)).await.unwrap();
    shown.sort_by(|one, other| one.key.cmp(&other.key));
    let of =
        |key: &str, version, value: Value| Shown { key: key.to_owned(), version, value: value.to_string() };
    let first = of("u:1", 3, json!({"name": "Ö'Hara", "n": "7"}));
    assert_eq!(shown, [first, of("u:2", 1, json!({"name": null, "n": "1"}))]);
    // More keys than a statement takes.
    let many: Vec<String> = (0..2_000).map(|n| format!("u:{n}")).collect();
    assert_eq!(sink.look(&many).await.unwrap().len(), 2);
}

pub(crate) async fn keys_are_listed(target: &Target) {
    let sink = whole(target);
    target.sql("INSERT INTO t (key) VALUES ('of somebody else')");
    for (number, key) in [(1, "b"), (2, "A"), (3, "ü")] {
        assert_eq!(write(&*sink, number, vec![put(key, 1, json!(1))]).await, Written::Done);
    }
    assert_eq!(sink.keys(None, None, 2).await.unwrap(), ["A", "b"]);
    assert_eq!(sink.keys(Some("b"), None, 2).await.unwrap(), ["ü"]);
    assert_eq!(sink.keys(None, Some(3), 10).await.unwrap(), ["A", "b"]);
}

pub(crate) async fn a_layout_that_does_not_fit_is_rejected(target: &Target) {
    let probe = async |layout: Layout| target.sink(layout).probe().await.unwrap_err();
    let error = probe(Layout::whole("s", "", "t")).await;
    assert_eq!(error.code(), Code::ConfigInvalid);
    let (_, create_table) = error.message().split_once("create it with ").unwrap();
    // The suggestion works.
    target.sql(create_table);
    let sink = target.sink(Layout::whole("s", "", "t"));
    sink.probe().await.unwrap();
    assert_eq!(write(&*sink, 1, vec![put("a", 1, json!(1))]).await, Written::Done);
    let wrong = Layout { values: Values::Whole("vlaue".to_owned()), ..Layout::whole("s", "", "t") };
    let error = probe(wrong.clone()).await;
    assert!(error.message().contains("no column vlaue, only key, value"), "{error}");
    let (_, add) = error.message().split_once(", or run ").unwrap();
    target.sql(add);
    target.sink(wrong).probe().await.unwrap();
    target.sql("CREATE TABLE other (key text, value text, need text NOT NULL, keystead_version bigint, keystead_batch bigint)");
    let error = probe(Layout::whole("s", "", "other")).await;
    assert!(error.message().contains("is not unique by itself"), "{error}");
    target.sql("CREATE UNIQUE INDEX one ON other (key)");
    let error = probe(Layout::whole("s", "", "other")).await;
    assert!(error.message().contains("need of other is NOT NULL without a default"), "{error}");
}

pub(crate) async fn two_sinks_share_a_target(target: &Target) {
    let one = whole(target);
    target.sql("CREATE TABLE u AS SELECT * FROM t");
    target.sql("CREATE UNIQUE INDEX u_key ON u (key)");
    let other = target.sink(Layout::whole("s2", "", "u"));
    assert_eq!(write(&*one, 1, vec![put("a", 1, json!(1))]).await, Written::Done);
    assert_eq!(write(&*one, 2, vec![put("a", 2, json!(2))]).await, Written::Done);
    assert_eq!(write(&*other, 1, vec![put("a", 1, json!(3))]).await, Written::Done);
    assert_eq!(target.sql("SELECT value FROM t"), "2");
    assert_eq!(target.sql("SELECT value FROM u"), "3");
    assert_eq!(one.position().await.unwrap().map(|position| position.batch), Some(2));
}
