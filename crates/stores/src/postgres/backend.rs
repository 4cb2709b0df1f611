//! Compare-and-set: each call is one statement, which is its own transaction.

use std::sync::Arc;

use keystead_core::bounds::STATE_BYTES_MAX;
use keystead_core::{Capabilities, Key, Result};

use super::failure::is_lost_race;
use super::pool::Pool;
use crate::bounds::POSTGRES_KEY_BYTES_MAX;
use crate::cas::{Backend, Reading, Swap, Swapped, VersionToken};

pub(super) struct PostgresBackend {
    pool: Arc<Pool>,
}

impl PostgresBackend {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        PostgresBackend { pool }
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
        let lease = self.pool.take().await?;
        match self.pool.table.read(lease.client(), key).await {
            Ok(stored) => {
                lease.finish();
                Ok(Reading { stored, now: None })
            }
            Err(error) => Err(lease.failed(&error)),
        }
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let lease = self.pool.take().await?;
        match self.pool.table.swap(lease.client(), key, swap).await {
            Ok(swapped) => {
                lease.finish();
                Ok(match swapped {
                    true => Swapped::Done(VersionToken(swap.version.into())),
                    // In the same statement, a read would see the row as it was when the statement began.
                    false => Swapped::Conflict(None),
                })
            }
            Err(error) if is_lost_race(&error) => {
                lease.finish();
                Ok(Swapped::Conflict(None))
            }
            Err(error) => Err(lease.failed(&error)),
        }
    }

    async fn close(&self) -> Result<()> {
        self.pool.close();
        Ok(())
    }
}
