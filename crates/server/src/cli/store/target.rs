//! The store that a URL names, and what was written to it. Touches that store.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use keystead_conformance::recording::{Recording, UsedKeys};
use keystead_conformance::steps;
use keystead_core::{
    Clock, Code, Error, Key, ManualClock, Millis, Result, Store, StoreExt, SystemClock, Ttl,
};
use tokio::runtime::{Builder, Runtime};

/// A store of the user's, and the keys that were used in it.
#[derive(Clone)]
pub(in crate::cli) struct Target {
    url: Arc<str>,
    pub(in crate::cli) keys: UsedKeys,
}

impl Target {
    pub(in crate::cli) fn new(url: &str) -> Target {
        Target { url: url.into(), keys: UsedKeys::default() }
    }

    /// Scheme and address, without the login and the parameters.
    pub(in crate::cli) fn shown(&self) -> &str {
        shown(&self.url)
    }

    /// Opens the store on this clock. What is used of it is noted.
    pub(in crate::cli) fn open(&self, clock: impl Clock) -> Result<Recording> {
        let store = keystead_stores::open_on(&self.url, Arc::new(clock))?;
        Ok(Recording::new(store, self.keys.clone()))
    }

    /// Opens the store as it is, on the system's clock.
    pub(super) fn open_plain(&self) -> Result<Arc<dyn Store>> {
        keystead_stores::open_on(&self.url, Arc::new(SystemClock))
    }

    /// Connects, writes a key of `prefix` and removes it.
    pub(super) async fn probe(&self, prefix: &str) -> Result<keystead_core::Capabilities> {
        let store = keystead_stores::connect(&self.url, Arc::new(SystemClock)).await?;
        let key = Key::join(prefix, "probe")?;
        self.keys.add(&key);
        store.apply(&key, &steps::put(1u64, Ttl::Never)).await?;
        store.reset(&key).await?;
        let can = store.capabilities();
        store.close().await?;
        Ok(can)
    }

    /// Removes every key that was used. Returns how many there were.
    pub(in crate::cli) async fn clean(&self) -> Result<usize> {
        // At the beginning of time no state has expired, so all of them are removed.
        let clock = Arc::new(ManualClock::at(Millis(0)));
        let store = keystead_stores::open_on(&self.url, clock)?;
        if !store.capabilities().durable && !store.capabilities().shared {
            // It is another one: what was written is gone with its store.
            return Ok(0);
        }
        let removed = self.keys.remove_from(&store).await;
        store.close().await?;
        removed
    }
}

fn shown(url: &str) -> &str {
    // A password may contain any character, also if the URL is wrong.
    let address = url.rsplit_once('@').map_or(url, |(_, address)| address);
    address.split('?').next().unwrap_or_default()
}

/// A prefix that nobody else uses.
pub(in crate::cli) fn random_prefix(purpose: &str) -> String {
    format!("keystead-{purpose}-{:016x}", RandomState::new().hash_one(0u8))
}

/// A runtime for the calls of one command.
pub(in crate::cli) fn runtime() -> Result<Runtime> {
    let built = Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| Error::new(Code::Internal, "cannot start threads").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_login_is_shown() {
        for (url, expected) in [
            ("redis://localhost:6379/0?atomic=cas", "redis://localhost:6379/0"),
            ("redis://:p@ss/w?rd@localhost:6379", "localhost:6379"),
            ("upstash+https://TOKEN@host", "host"),
            ("sqlite:/var/data?shards=2", "sqlite:/var/data"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn prefixes_differ() {
        assert_ne!(random_prefix("verify"), random_prefix("verify"));
        assert!(random_prefix("verify").starts_with("keystead-verify-"));
    }
}
