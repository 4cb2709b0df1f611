//! The slot table as one record in a store that all nodes share. Touches that store.

use std::sync::Arc;

use keystead_cluster::table::Stored;
use keystead_cluster::{ClaimStep, Claimed, NodeId, SlotTable, TableError, TableStep};
use keystead_commands::hub::endpoint;
use keystead_core::{Code, Error, Key, Result, Store, StoreExt};
use tokio::time::timeout;

use crate::bounds::CLUSTER_STORE_TIMEOUT;
use crate::stores::{self, StoreName};

/// The key of the record.
const KEY: &str = "keystead:cluster";

/// The record.
pub(crate) struct Record {
    store: Arc<dyn Store>,
}

impl Record {
    /// Opens the store of a URL. It may block; it does not connect to a server.
    ///
    /// # Errors
    /// `config_invalid` for an invalid URL, and for a store that does not fit.
    pub(crate) fn open(url: &StoreName) -> Result<Record> {
        let store = stores::open(url.as_str())?;
        let (scheme, can) = (store.scheme(), store.capabilities());
        let why = match (can.atomic, can.shared) {
            (false, _) => "its changes are not atomic",
            (_, false) => "only one process can use it at a time. On one machine use sqlite-file:PATH",
            (true, true) => return Ok(Record { store }),
        };
        let message = format!("a cluster cannot keep its slot table in {scheme}: {why}");
        Err(Error::new(Code::ConfigInvalid, message))
    }

    /// The kind of store.
    pub(crate) fn scheme(&self) -> &'static str {
        self.store.scheme()
    }

    /// The table; `None` if there is none yet.
    ///
    /// # Errors
    /// The store's error, or what is wrong with the table.
    pub(crate) async fn read(&self) -> Result<Option<SlotTable>> {
        let key = Key::new(KEY)?;
        let stored = timeout(CLUSTER_STORE_TIMEOUT, self.store.get::<Stored>(&key)).await;
        let Some(stored) = stored.map_err(|_| late())?? else { return Ok(None) };
        let table = stored.table()?;
        match table
            .nodes()
            .iter()
            .find(|node| endpoint(&node.resp).is_none() || endpoint(&node.http).is_none())
        {
            None => Ok(Some(table)),
            Some(node) => {
                let message = format!("the slot table has no valid address of node '{}'", node.id);
                Err(Error::new(Code::Corrupt, message))
            }
        }
    }

    /// Changes the table, and returns the next one.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) async fn change(
        &self,
        step: &TableStep,
    ) -> Result<std::result::Result<Arc<SlotTable>, TableError>> {
        let key = Key::new(KEY)?;
        timeout(CLUSTER_STORE_TIMEOUT, self.store.apply(&key, step)).await.map_err(|_| late())?
    }

    /// Changes which server has the id of a node.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) async fn claim(
        &self,
        node: &NodeId,
        step: &ClaimStep,
    ) -> Result<std::result::Result<(), Claimed>> {
        let key = Key::new(format!("{KEY}:{node}"))?;
        timeout(CLUSTER_STORE_TIMEOUT, self.store.apply(&key, step)).await.map_err(|_| late())?
    }

    /// Closes the store.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

fn late() -> Error {
    let seconds = CLUSTER_STORE_TIMEOUT.as_secs();
    Error::unknown(Code::StoreUnavailable, format!("the store did not reply within {seconds} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_one_process_is_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        for url in ["memory:".to_owned(), format!("sqlite:{}", dir.path().join("d").display())] {
            let error = Record::open(&StoreName::new(url)).err().unwrap();
            assert_eq!(error.code(), Code::ConfigInvalid);
            assert!(error.message().ends_with("On one machine use sqlite-file:PATH"), "{error}");
        }
    }

    #[test]
    fn an_approximate_store_is_refused_with_the_reason() {
        let url = StoreName::new("workers-kv+http://s3cret@127.0.0.1:1".to_owned());
        let error = Record::open(&url).err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert_eq!(
            error.message(),
            "a cluster cannot keep its slot table in workers-kv: its changes are not atomic"
        );
        for exact in ["d1", "durable-object"] {
            Record::open(&StoreName::new(format!("{exact}+http://s3cret@127.0.0.1:1"))).unwrap();
        }
    }
}
