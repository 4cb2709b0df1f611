//! Follows the slot table of a cluster (`--cluster`): reads it now and then, and at once when a node has a newer one. Touches the
//! store of the table, and with `--data` the copy on disk.
//!
//! Invariant: a router never goes back to an older table, or to that of another cluster. A store that is away changes nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use keystead_cluster::{SlotTable, TableError};
use keystead_core::{Code, Error, Result};
use tokio::time::{sleep, timeout};

use super::Router;
use super::map::Map;
use crate::bounds::{CLUSTER_POLL_INTERVAL, MIGRATION_POLL_INTERVAL, ROUTER_REFRESH_PAUSE};
use crate::cluster::{Record, check_next, copy, is_away};
use crate::failure::{failure, io_words};
use crate::stores::StoreName;

/// The record of the table, and the copy on disk.
pub(super) struct Follower {
    record: Record,
    dir: Option<PathBuf>,
    /// Why the last attempt to read the table failed.
    trouble: Mutex<Option<String>>,
}

impl Follower {
    /// Opens the store, and reads the first table: that of the store, or if that is away, the copy on disk.
    ///
    /// # Errors
    /// `config_invalid` with the one line for the user.
    pub(super) async fn open(url: StoreName, dir: Option<PathBuf>) -> Result<(Follower, Arc<SlotTable>)> {
        // Opening a store may block.
        let opened = tokio::task::spawn_blocking(move || Record::open(&url)).await;
        let opened = opened.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
        let record = opened.map_err(|error| {
            failure(format_args!("--cluster: {}", error.message()), "see docs/cluster.md")
        })?;
        let follower = Follower { record, dir, trouble: Mutex::default() };
        let table = follower.first_table().await?;
        Ok((follower, table))
    }

    async fn first_table(&self) -> Result<Arc<SlotTable>> {
        let copy = match &self.dir {
            None => None,
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|error| {
                    let what = format!("--data: {} cannot be created: {}", dir.display(), io_words(&error));
                    failure(what, "choose another directory")
                })?;
                let advice = format!("{} is what this router has seen last", dir.join(copy::FILE).display());
                copy::load(dir).map_err(|error| failure(error, advice))?
            }
        };
        match (self.record.read().await, copy) {
            (Ok(Some(table)), copy) => {
                if let Some(copy) = &copy {
                    let advice = "the directory of --data has the table of another time or cluster";
                    check_next(copy, &table).map_err(|error| failure(error, advice))?;
                }
                let table = Arc::new(table);
                self.save(&table).await?;
                Ok(table)
            }
            (Err(error), Some(copy)) if is_away(&error) => {
                self.report(Some(format!("the slot table cannot be read: {}", error.message())));
                Ok(Arc::new(copy))
            }
            (Ok(None), _) => Err(failure(TableError::NoTable, "see docs/cluster-nodes.md")),
            (Err(error), _) => {
                let what = format!("--cluster: the slot table cannot be read: {}", error.message());
                Err(failure(what, "check the URL and the store; with --data, a router keeps a copy"))
            }
        }
    }

    async fn save(&self, table: &Arc<SlotTable>) -> Result<()> {
        let Some(dir) = self.dir.clone() else { return Ok(()) };
        let table = Arc::clone(table);
        let saved = tokio::task::spawn_blocking(move || copy::save(&dir, &table)).await;
        saved.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
    }

    /// Why the table could not be read the last time.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn poll(&self, router: &Arc<Router>) {
        let trouble = match self.record.read().await {
            Err(error) => Some(format!("the slot table cannot be read: {}", error.message())),
            Ok(None) => Some("the store has no slot table any more".to_owned()),
            Ok(Some(table)) => self.learn(router, table).await.err().map(|error| error.message().to_owned()),
        };
        self.report(trouble);
    }

    async fn learn(&self, router: &Arc<Router>, table: SlotTable) -> Result<()> {
        let map = router.map();
        if let Some(current) = &map.table {
            check_next(current, &table)?;
            if **current == table {
                return Ok(());
            }
        }
        let table = Arc::new(table);
        // Without the copy the router works as well; the trouble is reported.
        let saved = self.save(&table).await;
        let epoch = table.epoch().0;
        router.learn(Map::of_table(&table, Some(&map)));
        tracing::info!(epoch, "follows a new slot table");
        saved
    }

    /// Remembers the trouble of the last attempt, and logs it when it changes.
    fn report(&self, trouble: Option<String>) {
        let mut last = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &trouble {
            Some(why) if last.as_ref() != Some(why) => {
                tracing::warn!("{why}; this router goes on with the last one");
            }
            None if last.is_some() => tracing::warn!("the slot table can be read again"),
            _ => {}
        }
        *last = trouble;
    }
}

/// Follows the table for as long as the router runs.
pub(super) async fn follow(router: Arc<Router>) {
    let Some(follower) = &router.follower else { return };
    loop {
        let is_moving = router.map().table.as_ref().is_some_and(|table| table.migrations().len() > 0);
        let interval = if is_moving { MIGRATION_POLL_INTERVAL } else { CLUSTER_POLL_INTERVAL };
        let _ = timeout(interval, router.maps.wanted()).await;
        follower.poll(&router).await;
        // However many requests are redirected, the store is asked a bounded number of times.
        sleep(ROUTER_REFRESH_PAUSE).await;
    }
}
