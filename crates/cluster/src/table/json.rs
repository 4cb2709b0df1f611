//! The JSON form of a table: compact, because slots are ranges.
//!
//! ```json
//! {"format":1,"cluster":"shop","epoch":7,"nodes":[{"id":"a","resp":"redis://10.0.0.1:6379","http":"http://10.0.0.1:8080"}],
//!  "slots":[[0,16382,"a"],[16383,16383,null]],"begun":3,"migrations":[]}
//! ```
//!
//! Every slot is listed exactly one time; one that nobody owns is listed with `null`, so a table that was cut short is not taken for
//! one with unowned slots. Unknown fields are an error: they may mean something.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Epoch, FORMAT, Migration, MigrationId, NOBODY, SlotTable, TableError};
use crate::node::{Node, NodeId};
use crate::slots::SlotRange;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    cluster: String,
    epoch: Epoch,
    nodes: Vec<Node>,
    slots: Vec<(u32, u32, Option<NodeId>)>,
    begun: u64,
    migrations: Vec<Migration>,
}

impl SlotTable {
    /// The JSON text. Its fields have a fixed order, so equal tables have equal texts.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to be JSON: no maps, no floating-point numbers.
        serde_json::to_string(&self.document()).unwrap_or_default()
    }

    /// The JSON value.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self.document()).unwrap_or_default()
    }

    fn document(&self) -> Document {
        let range = |(range, node): (SlotRange, Option<&Node>)| {
            (range.first().into(), range.last().into(), node.map(|node| node.id.clone()))
        };
        Document {
            format: FORMAT,
            cluster: self.cluster.clone(),
            epoch: self.epoch,
            nodes: self.nodes.clone(),
            slots: self.ranges().map(range).collect(),
            begun: self.begun,
            migrations: self.migrations.values().cloned().collect(),
        }
    }

    /// The table of a JSON text.
    ///
    /// # Errors
    /// What is wrong with it: see [`TableError`].
    pub fn from_json(text: &str) -> Result<SlotTable, TableError> {
        let value = serde_json::from_str(text).map_err(|error| TableError::NotATable(error.to_string()))?;
        SlotTable::from_value(&value)
    }

    /// The table of a JSON value.
    ///
    /// # Errors
    /// What is wrong with it: see [`TableError`].
    pub fn from_value(value: &Value) -> Result<SlotTable, TableError> {
        // First, because another format may have other fields.
        let format = value.get("format").and_then(Value::as_u64);
        match format.and_then(|format| u32::try_from(format).ok()) {
            None => return Err(TableError::NotATable("it has no format number".to_owned())),
            Some(format) if format < FORMAT => return Err(TableError::OlderFormat(format)),
            Some(format) if format > FORMAT => return Err(TableError::NewerFormat(format)),
            Some(_) => {}
        }
        let document =
            Document::deserialize(value).map_err(|error| TableError::NotATable(error.to_string()))?;
        if document.epoch < Epoch(1) {
            return Err(TableError::NotATable("its epoch is 0".to_owned()));
        }
        let mut table = SlotTable::unassigned(document.epoch, document.cluster, document.nodes)?;
        table.fill(document.slots)?;
        table.begun = document.begun;
        for migration in document.migrations {
            let id = migration.id;
            let is_new =
                id > MigrationId(0) && id <= MigrationId(table.begun) && table.migration(id).is_none();
            if !is_new {
                return Err(TableError::MigrationIdInvalid(id));
            }
            table.insert(migration)?;
        }
        Ok(table)
    }

    fn fill(&mut self, ranges: Vec<(u32, u32, Option<NodeId>)>) -> Result<(), TableError> {
        let mut is_listed = vec![false; self.owners.len()];
        for (first, last, node) in ranges {
            let owner = match node {
                Some(node) => self.known(&node)? as u16,
                None => NOBODY,
            };
            for slot in SlotRange::new(first, last)?.iter() {
                if std::mem::replace(&mut is_listed[usize::from(slot)], true) {
                    return Err(TableError::SlotTwice(slot));
                }
                self.owners[usize::from(slot)] = owner;
            }
        }
        match is_listed.iter().position(|listed| !listed) {
            Some(slot) => Err(TableError::SlotMissing(slot as u16)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::Move;
    use crate::testing::{node, table};

    fn rejected(change: impl Fn(&mut Value)) -> TableError {
        let mut value = table(&["a", "b"]).to_value();
        change(&mut value);
        SlotTable::from_value(&value).unwrap_err()
    }

    #[test]
    fn a_table_survives_its_json() {
        let mut table = table(&["a", "b", "c"]);
        table = table.leave(&node("b")).unwrap();
        let slot = table.ranges().find(|(_, owner)| owner.unwrap().id == node("b")).unwrap().0.first();
        let moves = [Move { slots: [slot].into_iter().collect(), from: node("b"), to: node("c") }];
        table = table.begin(&moves).unwrap();
        assert_eq!(SlotTable::from_json(&table.to_json()), Ok(table));
    }

    #[test]
    fn slots_are_ranges_and_defaults_are_left_out() {
        let empty = SlotTable::init("shop", Vec::new()).unwrap();
        assert_eq!(
            empty.to_value(),
            json!({"format": 1, "cluster": "shop", "epoch": 1, "nodes": [], "slots": [[0, 16383, null]], "begun": 0, "migrations": []})
        );
        let one = table(&["a"]);
        let expected = r#"{"id":"a","resp":"redis://a:6379","http":"http://a:8080"}"#;
        assert!(one.to_json().contains(expected), "{}", one.to_json());
        assert!(one.to_json().contains(r#"[[0,16383,"a"]]"#), "{}", one.to_json());
    }

    #[test]
    fn other_formats_are_refused_before_their_fields_are_read() {
        assert_eq!(SlotTable::from_value(&json!({"format": 0})), Err(TableError::OlderFormat(0)));
        assert_eq!(SlotTable::from_value(&json!({"format": 2, "new": 1})), Err(TableError::NewerFormat(2)));
        for text in ["", "{}", "[]", "null", "{\"format\":\"1\"}", "{\"format\":1}"] {
            assert!(matches!(SlotTable::from_json(text), Err(TableError::NotATable(_))), "{text}");
        }
    }

    #[test]
    fn what_is_not_valid_is_refused() {
        let duplicate = |value: &mut Value| value["nodes"][1]["id"] = json!("a");
        assert_eq!(rejected(duplicate), TableError::DuplicateNode(node("a")));
        let slots = |slots: Value| move |value: &mut Value| value["slots"] = slots.clone();
        assert_eq!(rejected(slots(json!([[0, 16384, "a"]]))), TableError::SlotOutOfRange(16384));
        assert_eq!(rejected(slots(json!([[5, 4, "a"]]))), TableError::RangeReversed { first: 5, last: 4 });
        assert_eq!(rejected(slots(json!([[0, 9, "a"], [9, 16383, "b"]]))), TableError::SlotTwice(9));
        assert_eq!(rejected(slots(json!([[0, 9, "a"], [11, 16383, "b"]]))), TableError::SlotMissing(10));
        assert_eq!(rejected(slots(json!([[0, 16383, "z"]]))), TableError::UnknownNode(node("z")));
        assert!(matches!(rejected(|value| value["epoch"] = json!(0)), TableError::NotATable(_)));
        assert!(matches!(rejected(|value| value["more"] = json!(0)), TableError::NotATable(_)));
        assert!(matches!(rejected(|value| value["cluster"] = json!("a b")), TableError::NameInvalid(_)));
        let migration = |begun: u64| {
            move |value: &mut Value| {
                value["slots"] = json!([[0, 16383, "a"]]);
                value["begun"] = json!(begun);
                let migration = json!({"id": 1, "slots": [[0, 1]], "from": "a", "to": "b"});
                value["migrations"] = json!([migration, migration]);
            }
        };
        assert_eq!(rejected(migration(0)), TableError::MigrationIdInvalid(MigrationId(1)));
        assert_eq!(rejected(migration(1)), TableError::MigrationIdInvalid(MigrationId(1)));
    }
}
