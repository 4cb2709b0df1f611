//! Leases, which let the server delete what may be reclaimed. A lease costs a write, so many keys share one.
//!
//! Durations are put into classes that double. A lease of a class lives twice as long as its longest duration, and is given to writes during
//! its first half: what is left of it is never shorter than what a write asked for.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keystead_core::{Error, Result};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::wire::{Wire, number};
use crate::bounds::ETCD_LEASE_WRITES_MAX;

#[derive(Default)]
pub(super) struct Leases {
    by_class: Mutex<BTreeMap<u32, Lease>>,
}

struct Lease {
    id: u64,
    until: Instant,
    writes: usize,
}

#[derive(serde::Deserialize)]
struct Granted {
    #[serde(rename = "ID", deserialize_with = "number")]
    id: u64,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Lease>> {
        self.by_class.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease that ends no earlier than after this many milliseconds.
    pub(super) async fn get(&self, wire: &Wire, ms: u64) -> Result<u64> {
        let seconds = ms.div_ceil(1000).next_power_of_two();
        let class = seconds.trailing_zeros();
        // The time on the runtime's timer, before the lease begins.
        let now = sleep(Duration::ZERO).deadline();
        if let Some(lease) = self.lock().get_mut(&class)
            && now < lease.until
            && lease.writes < ETCD_LEASE_WRITES_MAX
        {
            lease.writes += 1;
            return Ok(lease.id);
        }
        let request = json!({"TTL": (2 * seconds).to_string()});
        // A lease without keys changes nothing.
        let granted: Granted = wire
            .call("/v3/lease/grant", &request)
            .await
            .map_err(|error| Error::new(error.code(), error.message().to_owned()))?;
        let until = now + Duration::from_secs(seconds.min(365 * 86_400));
        self.lock().insert(class, Lease { id: granted.id, until, writes: 1 });
        Ok(granted.id)
    }

    /// A lease that the server does not know any more.
    pub(super) fn forget(&self, id: u64) {
        self.lock().retain(|_, lease| lease.id != id);
    }
}
