//! Compare-and-set. Calls on different keys that come while others are under way share a statement.

use std::any::Any;
use std::sync::Arc;

use keystead_core::bounds::STATE_BYTES_MAX;
use keystead_core::{Capabilities, ErasedStep, Job, Key, Result, Store, StoreFuture, Together};

use super::calls::{Reads, RowSwap, Swaps};
use super::jobs::Jobs;
use super::pool::Pool;
use crate::bounds::POSTGRES_KEY_BYTES_MAX;
use crate::cas::{Backend, CasStore, Reading, Swap, Swapped};
use crate::gather::Gather;

pub(super) struct PostgresBackend {
    reads: Gather<Reads>,
    swaps: Gather<Swaps>,
}

impl PostgresBackend {
    pub(super) fn new(pool: &Arc<Pool>) -> Self {
        PostgresBackend {
            reads: Gather::new(Reads(Arc::clone(pool))),
            swaps: Gather::new(Swaps(Arc::clone(pool))),
        }
    }
}

/// The store: compare-and-set for one key, a transaction for several.
pub(super) struct RowStore {
    pub(super) cas: CasStore<PostgresBackend>,
    pub(super) jobs: Jobs,
}

#[deny(clippy::missing_trait_methods)]
impl Store for RowStore {
    fn scheme(&self) -> &'static str {
        self.cas.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.cas.capabilities()
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        self.cas.apply_erased(key, step)
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        self.cas.reset(key)
    }

    fn together(&self) -> Option<&dyn Together> {
        Some(self)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.cas.close()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Together for RowStore {
    fn run_together<'a>(&'a self, keys: &'a [Key], job: Job) -> StoreFuture<'a, Box<dyn Any + Send>> {
        StoreFuture::pending(self.jobs.run(keys, job))
    }
}

/// A text may have a gigabyte: the bound of a state is ours.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    atomic: true,
    durable: true,
    shared: true,
    sync: false,
    injected_clock: true,
    key_bytes_max: POSTGRES_KEY_BYTES_MAX,
    state_bytes_max: STATE_BYTES_MAX,
};

impl Backend for PostgresBackend {
    fn scheme(&self) -> &'static str {
        "postgres"
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        self.reads.call(key.clone()).await
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        self.swaps.call(RowSwap::new(key, swap)).await
    }

    async fn close(&self) -> Result<()> {
        self.reads.carrier().0.close();
        Ok(())
    }
}
