//! Joining a cluster at the start, and following its slot table while the server runs. Touches the store of the table and its copy
//! on disk.
//!
//! A store that is away changes nothing: the node goes on with the table that it has, also after a restart.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use keystead_cluster::{Claim, ClaimStep, Node, SlotTable, TableError, TableStep};
use keystead_commands::hub::Cluster;
use keystead_core::{Code, Error, Result};
use keystead_engine::Durability;
use tokio::time::{sleep, timeout};

use super::address::Addresses;
use super::copy::{self, FILE};
use super::identity;
use super::migration::Mover;
use super::record::Record;
use crate::app::App;
use crate::bounds::{CLUSTER_POLL_INTERVAL, MIGRATION_POLL_INTERVAL, PARKED_MAX, PARKED_TIMEOUT};
use crate::failure::failure;
use crate::settings::Settings;
use crate::stores::StoreName;

/// This server's membership of a cluster.
pub struct Membership {
    record: Record,
    dir: PathBuf,
    /// Why the last attempt to follow the table failed.
    trouble: Mutex<Option<String>>,
    polling: tokio::sync::Mutex<()>,
    /// Whether this server has claimed the id of its node.
    has_claimed: AtomicBool,
    /// Set when it has joined.
    mover: OnceLock<Arc<Mover>>,
    /// Requests that wait for a slot.
    parked: AtomicUsize,
}

/// A request that waits.
struct Parked<'a>(&'a AtomicUsize);

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes the server a node of the cluster of its settings, if they name one. Returns when it may serve.
///
/// # Errors
/// `config_invalid` with the one line for the user.
pub(crate) async fn join(app: &Arc<App>) -> Result<()> {
    let settings = &app.settings;
    let Some((url, me)) = node_of(settings)? else { return Ok(()) };
    // Opening a store may block.
    let opened = tokio::task::spawn_blocking(move || Record::open(&url)).await;
    let opened = opened.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
    let record = opened.map_err(|error| {
        failure(format_args!("--cluster: {}", error.message()), "see docs/cluster-nodes.md")
    })?;
    let membership = Membership {
        record,
        dir: settings.data.clone(),
        trouble: Mutex::default(),
        polling: Default::default(),
        has_claimed: AtomicBool::new(false),
        mover: OnceLock::new(),
        parked: AtomicUsize::new(0),
    };
    let table = membership.first_table(&me).await?;
    membership.claim(&me, table.cluster()).await?;
    let serving = table.slots_owned(&me.id);
    tracing::info!(node = %me.id, cluster = table.cluster(), epoch = table.epoch().0, slots = serving, "joined");
    let mover = Mover::start(app, Arc::clone(&table), me.id.clone()).await?;
    // All are set once.
    let _ = app.hub.cluster.set(Cluster::new(me, table));
    mover.announce(app).await;
    let _ = membership.mover.set(mover);
    let _ = app.cluster.set(membership);
    let app = Arc::clone(app);
    tokio::spawn(async move {
        tokio::select! {
            () = app.stopping() => {}
            never = follow(&app) => match never {},
        }
    });
    Ok(())
}

async fn follow(app: &Arc<App>) -> std::convert::Infallible {
    loop {
        let is_moving = app.hub.cluster.get().is_some_and(Cluster::is_moving);
        sleep(if is_moving { MIGRATION_POLL_INTERVAL } else { CLUSTER_POLL_INTERVAL }).await;
        let Some(membership) = app.cluster.get() else { continue };
        membership.poll(app).await;
        if is_moving
            && let Some(mover) = membership.mover.get()
            && let Err(error) = mover.tick(app).await
        {
            tracing::warn!(%error, "a migration does not go on");
        }
    }
}

/// The store and the node that the settings name, checked as far as possible without the table.
fn node_of(settings: &Settings) -> Result<Option<(StoreName, Node)>> {
    let Some(url) = settings.cluster.clone() else {
        return match (&settings.node_id, &settings.advertise) {
            (None, None) => Ok(None),
            _ => Err(failure("--node-id and --advertise have no effect", "name the cluster with --cluster")),
        };
    };
    let Some(id) = settings.node_id.clone() else {
        return Err(failure(
            "--cluster is set and --node-id is not",
            "name this node, for example --node-id a",
        ));
    };
    let Some(addresses) = &settings.advertise else {
        return Err(failure("--cluster is set and --advertise is not", super::address::FORM));
    };
    if settings.durability == Durability::Memory {
        return Err(failure(
            "a node keeps its copy of the slot table on disk, and durability memory has none",
            "use durability fsync or commit",
        ));
    }
    if settings.upstream.is_some() {
        return Err(failure("--cluster and --upstream are both set", "a node serves its own keys: keep one"));
    }
    let me = addresses.node(id).map_err(|error| failure(error.message(), super::address::FORM))?;
    Ok(Some((url, me)))
}

impl Membership {
    /// Why the last attempt to follow the table failed; `None` if it did not.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kind of store that has the table.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.record.scheme()
    }

    /// Closes the store with the server.
    ///
    /// # Errors
    /// The store's error.
    pub async fn close(&self) -> Result<()> {
        self.record.close().await
    }

    /// The table of the start: that of the store, or else the copy on disk. It is on disk then.
    async fn first_table(&self, me: &Node) -> Result<Arc<SlotTable>> {
        let path = self.dir.join(FILE);
        let advice = format!("{} is what this node has seen last", path.display());
        let copy = copy::load(&self.dir).map_err(|error| failure(error, &advice))?;
        let table = match (self.record.read().await, copy) {
            (Ok(Some(table)), copy) => {
                if let Some(copy) = &copy {
                    check_next(copy, &table).map_err(|error| failure(error, &advice))?;
                }
                if copy.as_ref() != Some(&table) {
                    save(&self.dir, &Arc::new(table.clone())).await?;
                }
                table
            }
            (Ok(None), None) => return Err(failure(TableError::NoTable, "see docs/cluster-nodes.md")),
            (Ok(None), Some(copy)) => {
                self.report(Some("the store has no slot table any more".to_owned()));
                copy
            }
            (Err(error), Some(copy)) if is_away(&error) => {
                self.report(Some(format!("the slot table cannot be read: {}", error.message())));
                copy
            }
            (Err(error), _) => {
                let what = format!("--cluster: the slot table cannot be read: {}", error.message());
                return Err(failure(what, "see docs/cluster-nodes.md"));
            }
        };
        check_me(&table, me)?;
        Ok(Arc::new(table))
    }

    /// Claims the id of the node for this server: another one must not have it. A store that is away is asked again later.
    async fn claim(&self, me: &Node, cluster: &str) -> Result<()> {
        let dir = self.dir.clone();
        let server = tokio::task::spawn_blocking(move || identity::of(&dir)).await;
        let server = server.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
        let server = server.map_err(|error| failure(error.message(), "see docs/cluster-nodes.md"))?;
        let claim = Claim { cluster: cluster.to_owned(), node: me.id.clone(), server };
        match self.record.claim(&me.id, &ClaimStep::Claim(claim)).await {
            Ok(Ok(())) => self.has_claimed.store(true, Ordering::Relaxed),
            Ok(Err(claimed)) => {
                let fix = format!(
                    "stop that one; if its data is lost, or this directory has it, run keystead cluster release {}",
                    me.id
                );
                return Err(failure(claimed, fix));
            }
            Err(error) if is_away(&error) => {}
            Err(error) => {
                let what = format!("--cluster: the id of the node cannot be claimed: {}", error.message());
                return Err(failure(what, "see docs/cluster-nodes.md"));
            }
        }
        Ok(())
    }

    /// Waits until none of these slots is being handed over, or that takes too long, or too many wait already.
    pub(crate) async fn until_served(&self, cluster: &Cluster, slots: &[u16]) {
        let (Some(mover), Some(_parked)) = (self.mover.get(), self.park()) else { return };
        let mut changes = mover.changes();
        let served = async { while cluster.is_parked(slots) && changes.changed().await.is_ok() {} };
        // Then the request is rejected, not applied.
        let _ = timeout(PARKED_TIMEOUT, served).await;
    }

    /// Runs something again whenever slots were opened, closed or given away, until it has a result, or that takes too long, or too many
    /// wait already. Slots may change without a notice for what runs, so it runs again after a while in any case.
    pub(crate) async fn retry<T>(
        &self,
        again_after: Duration,
        run: impl AsyncFn() -> Option<T>,
    ) -> Option<T> {
        let (Some(mover), Some(_parked)) = (self.mover.get(), self.park()) else { return None };
        let mut changes = mover.changes();
        let retried = async {
            loop {
                let _ = timeout(again_after, changes.changed()).await;
                if let Some(result) = run().await {
                    return result;
                }
            }
        };
        timeout(PARKED_TIMEOUT, retried).await.ok()
    }

    fn park(&self) -> Option<Parked<'_>> {
        let parked = Parked(&self.parked);
        (self.parked.fetch_add(1, Ordering::Relaxed) < PARKED_MAX).then_some(parked)
    }

    /// How many requests wait for a slot.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked.load(Ordering::Relaxed)
    }

    /// Changes the table, and follows it. Whether the change was made; if it was rejected, the table is read instead.
    pub(crate) async fn change(&self, app: &Arc<App>, step: &TableStep) -> Result<bool> {
        let changed = self.record.change(step).await?;
        let is_made = changed.is_ok();
        match (changed, app.hub.cluster.get()) {
            (Ok(table), Some(cluster)) => {
                let _polling = self.polling.lock().await;
                self.learn(app, cluster, table).await?;
            }
            _ => self.poll(app).await,
        }
        Ok(is_made)
    }

    /// The slots that move to and from this node.
    pub(crate) fn mover(&self) -> Option<&Arc<Mover>> {
        self.mover.get()
    }

    /// Reads the table, and follows it if it may be followed.
    pub(crate) async fn poll(&self, app: &Arc<App>) {
        let Some(cluster) = app.hub.cluster.get() else { return };
        // One at a time: of two reads the older one may end last.
        let _polling = self.polling.lock().await;
        let trouble = match self.record.read().await {
            Err(error) => Some(format!("the slot table cannot be read: {}", error.message())),
            Ok(None) => Some("the store has no slot table any more".to_owned()),
            Ok(Some(table)) => {
                let learned = async {
                    if !self.has_claimed.load(Ordering::Relaxed) {
                        self.claim(cluster.me(), table.cluster()).await?;
                    }
                    self.learn(app, cluster, Arc::new(table)).await
                };
                learned.await.err().map(|error| error.message().to_owned())
            }
        };
        self.report(trouble);
    }

    async fn learn(&self, app: &Arc<App>, cluster: &Cluster, table: Arc<SlotTable>) -> Result<()> {
        let current = cluster.table();
        check_next(&current, &table)?;
        if table != current
            && let Some(mover) = self.mover.get()
        {
            mover.learn(app, Arc::clone(&table)).await?;
            tracing::info!(
                epoch = table.epoch().0,
                slots = cluster.slots_served(),
                "follows a new slot table"
            );
        }
        check_me(&table, cluster.me())
    }

    /// Remembers the trouble of the last attempt, and logs it when it changes.
    fn report(&self, trouble: Option<String>) {
        let mut last = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &trouble {
            Some(why) if last.as_ref() != Some(why) => {
                tracing::warn!("{why}; this node goes on with the last one");
            }
            None if last.is_some() => tracing::warn!("the slot table can be read again"),
            _ => {}
        }
        *last = trouble;
    }
}

/// Whether the store is away, so that the copy on disk is used, or the table is one that must not be used.
pub(crate) fn is_away(error: &Error) -> bool {
    matches!(error.code(), Code::StoreUnavailable | Code::QueueFull)
}

/// Rejects a table that a node which has seen `current` must not follow.
///
/// # Errors
/// `config_invalid` with the reason.
pub(crate) fn check_next(current: &SlotTable, next: &SlotTable) -> Result<()> {
    current.may_be_followed_by(next)?;
    if current.epoch() == next.epoch() && current != next {
        let epoch = next.epoch();
        let message =
            format!("there are two slot tables of epoch {epoch}: was its store restored from a backup?");
        return Err(Error::new(Code::ConfigInvalid, message));
    }
    Ok(())
}

/// Rejects a table that does not have this node. One id at two addresses is two servers.
fn check_me(table: &SlotTable, me: &Node) -> Result<()> {
    let cluster = table.cluster();
    let Some(known) = table.node(&me.id) else {
        let ids: Vec<&str> = table.nodes().iter().map(|node| node.id.as_str()).collect();
        let what = format!("cluster '{cluster}' has no node '{}'", me.id);
        return Err(failure(what, format_args!("its nodes are {}", ids.join(", "))));
    };
    let (known, mine) = (Addresses::of(known), Addresses::of(me));
    match known == mine {
        true => Ok(()),
        false => {
            let what =
                format!("node '{}' of cluster '{cluster}' is at {known}, and --advertise is {mine}", me.id);
            Err(failure(what, "another server has this id, or an address is wrong"))
        }
    }
}

async fn save(dir: &Path, table: &Arc<SlotTable>) -> Result<()> {
    let (dir, table) = (dir.to_owned(), Arc::clone(table));
    let saved = tokio::task::spawn_blocking(move || copy::save(&dir, &table)).await;
    saved.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

#[cfg(test)]
mod tests {
    use keystead_cluster::NodeId;

    use super::*;

    fn node(id: &str, port: u16) -> Node {
        let id = NodeId::new(id).unwrap();
        Node::new(id, format!("redis://h:{port}"), format!("http://h:{}", port + 1))
    }

    fn table(cluster: &str) -> SlotTable {
        SlotTable::init(cluster, vec![node("a", 1), node("b", 3)]).unwrap()
    }

    #[test]
    fn only_a_later_table_of_the_same_cluster_is_followed() {
        let first = table("shop");
        let second = first.add(node("c", 5)).unwrap();
        check_next(&first, &first).unwrap();
        check_next(&first, &second).unwrap();
        for (next, words) in [
            (&first, "epoch 1, and epoch 2 was seen"),
            (&table("other"), "cluster 'other'"),
            (&first.add(node("d", 5)).unwrap(), "two slot tables of epoch 2"),
        ] {
            let error = check_next(&second, next).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
    }

    #[test]
    fn a_node_must_be_in_the_table_at_its_own_addresses() {
        let table = table("shop");
        check_me(&table, &node("a", 1)).unwrap();
        let error = check_me(&table, &node("x", 1)).unwrap_err();
        assert_eq!(error.message(), "cluster 'shop' has no node 'x': its nodes are a, b");
        let error = check_me(&table, &node("a", 7)).unwrap_err();
        let words = "node 'a' of cluster 'shop' is at redis://h:1,http://h:2, and --advertise is redis://h:7,http://h:8";
        assert!(error.message().starts_with(words), "{error}");
    }
}
