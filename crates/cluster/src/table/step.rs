//! A change of the table as a step, which any store applies atomically: the compare-and-set of the cluster.
//!
//! The state is the table's JSON value and not the table, so that one of another format is a typed error of this step and not
//! of the store. A rejected change writes nothing.

use std::sync::Arc;

use keystead_core::{Change, Millis, Step, Ttl};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Edit, Epoch, SlotTable, TableError};

/// What a store has under the key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stored(Value);

impl Stored {
    /// The table.
    ///
    /// # Errors
    /// What is wrong with it: see [`TableError`].
    pub fn table(&self) -> Result<SlotTable, TableError> {
        SlotTable::from_value(&self.0)
    }
}

impl From<&SlotTable> for Stored {
    fn from(table: &SlotTable) -> Self {
        Stored(table.to_value())
    }
}

/// One change of the table. The reply is the table after it.
///
/// ```
/// use keystead_cluster::{Edit, Node, NodeId, TableStep};
/// use keystead_core::{Key, MemoryStore, StoreExt};
///
/// let (store, key) = (MemoryStore::new(), Key::new("keystead:cluster")?);
/// let node = |id: &str| NodeId::new(id).map(|id| Node::new(id, "redis://127.0.0.1:6379", "http://127.0.0.1:8080"));
///
/// let init = Edit::Init { cluster: "shop".to_owned(), nodes: vec![node("a")?] };
/// let table = store.apply_sync(&key, &TableStep::from(init))??;
/// let table = store.apply_sync(&key, &TableStep::from(Edit::Add(node("b")?)).planned_at(table.epoch()))??;
/// assert_eq!((table.epoch().0, table.nodes().len()), (2, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableStep {
    edit: Edit,
    planned_at: Option<Epoch>,
}

impl TableStep {
    /// Refuses the change when the table has another epoch than the one it was planned on.
    #[must_use]
    pub fn planned_at(mut self, epoch: Epoch) -> TableStep {
        self.planned_at = Some(epoch);
        self
    }

    fn next(&self, stored: Option<&Stored>) -> Result<SlotTable, TableError> {
        let table = stored.map(Stored::table).transpose()?;
        if let (Some(planned), Some(table)) = (self.planned_at, &table)
            && planned != table.epoch()
        {
            return Err(TableError::EpochChanged { planned, current: table.epoch() });
        }
        self.edit.apply(table.as_ref())
    }
}

impl From<Edit> for TableStep {
    fn from(edit: Edit) -> Self {
        TableStep { edit, planned_at: None }
    }
}

impl Step for TableStep {
    type State = Stored;
    type Reply = Result<Arc<SlotTable>, TableError>;

    fn run(&self, state: Option<&Stored>, _now: Millis) -> Change<Stored, Self::Reply> {
        match self.next(state) {
            Ok(table) => Change::Put(Stored::from(&table), Ttl::Never, Ok(Arc::new(table))),
            Err(error) => Change::Keep(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Key, MemoryStore, StoreExt, at_once};
    use serde_json::json;

    use super::*;
    use crate::table::MigrationId;
    use crate::testing::{member, node, table};

    #[test]
    fn a_store_holds_the_table_and_only_the_next_epoch_gets_in() {
        let (store, key) = (MemoryStore::new(), Key::new("cluster").unwrap());
        let apply = |step: TableStep| store.apply_sync(&key, &step).unwrap();
        assert_eq!(apply(Edit::Add(member("a")).into()), Err(TableError::NoTable));
        let init = Edit::Init { cluster: "test".to_owned(), nodes: vec![member("a")] };
        assert_eq!(apply(init.clone().into()).unwrap().epoch(), Epoch(1));
        assert_eq!(apply(init.into()), Err(TableError::Exists(Epoch(1))));

        let add = |id: &str| TableStep::from(Edit::Add(member(id))).planned_at(Epoch(1));
        assert_eq!(apply(add("b")).unwrap().epoch(), Epoch(2));
        let late = TableError::EpochChanged { planned: Epoch(1), current: Epoch(2) };
        assert_eq!(apply(add("c")), Err(late));
        let owns = TableError::NodeOwnsSlots { node: node("a"), slots: 16_384 };
        assert_eq!(apply(Edit::Remove(node("a")).into()), Err(owns));

        let stored = at_once(store.get::<Stored>(&key)).unwrap().unwrap().table().unwrap();
        assert_eq!((stored.epoch(), stored.nodes().len()), (Epoch(2), 2));
    }

    #[test]
    fn a_table_that_cannot_be_read_stays_as_it_is() {
        for (stored, error) in [
            (json!({"format": 0}), TableError::OlderFormat(0)),
            (json!({"format": 9}), TableError::NewerFormat(9)),
        ] {
            let step = TableStep::from(Edit::Abort(MigrationId(1)));
            assert_eq!(step.run(Some(&Stored(stored)), Millis(0)), Change::Keep(Err(error)));
        }
    }

    #[test]
    fn a_repeated_finish_changes_nothing() {
        let begun =
            table(&["a", "b"]).begin(&[crate::testing::any_move(&table(&["a", "b"]), "a", "b")]).unwrap();
        let step = TableStep::from(Edit::Finish(MigrationId(1)));
        let Change::Put(after, ..) = step.run(Some(&Stored::from(&begun)), Millis(0)) else {
            panic!("rejected")
        };
        let again = step.run(Some(&after), Millis(0));
        assert_eq!(again, Change::Keep(Err(TableError::NoSuchMigration(MigrationId(1)))));
    }
}
