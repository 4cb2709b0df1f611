//! The smallest backend: values in memory, with revisions. It shows how little a server has to offer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{Capabilities, Key, Result};
use keystead_stores::cas::{Backend, Reading, Stored, Swap, Swapped, VersionToken};

/// The values and the last revision, shared by all handles.
#[derive(Clone, Default)]
pub(crate) struct Values(Arc<Mutex<(BTreeMap<Key, Stored>, u128)>>);

impl Values {
    fn lock(&self) -> MutexGuard<'_, (BTreeMap<Key, Stored>, u128)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct MemoryBackend {
    pub(crate) values: Values,
    pub(crate) key_bytes_max: usize,
    pub(crate) state_bytes_max: usize,
    pub(crate) returns_current: bool,
}

impl MemoryBackend {
    pub(crate) fn new(values: Values) -> Self {
        let (key_bytes_max, state_bytes_max) = (KEY_BYTES_MAX, STATE_BYTES_MAX);
        MemoryBackend { values, key_bytes_max, state_bytes_max, returns_current: true }
    }
}

impl Backend for MemoryBackend {
    fn scheme(&self) -> &'static str {
        "cas"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: self.key_bytes_max,
            state_bytes_max: self.state_bytes_max,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        tokio::task::yield_now().await;
        Ok(Reading { stored: self.values.lock().0.get(key).cloned(), now: None })
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        tokio::task::yield_now().await;
        let (values, revision) = &mut *self.values.lock();
        let current = values.get(key);
        if current.map(|stored| stored.token) != swap.expected {
            let reading = Reading { stored: current.cloned(), now: None };
            return Ok(Swapped::Conflict(self.returns_current.then_some(reading)));
        }
        *revision += 1;
        let token = VersionToken(*revision);
        values.insert(key.clone(), Stored { token, text: swap.text.to_owned() });
        Ok(Swapped::Done(token))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
