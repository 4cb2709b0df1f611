//! Opens the stores that policies and documents name by URL. Touches what the URL names.
//!
//! The calls of a store on a server run on the server's own runtime, not on the loop of the shard that received the request: all shards
//! share the store's connections and timers, so a long command on one shard must not delay them. A call that has begun also goes on if
//! the client disconnects.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use keystead_core::{Capabilities, Code, ErasedStep, Error, Job, Key, Result, Store, StoreFuture, Together};
use tokio::runtime::Handle;
use tokio::task::JoinError;

/// Opens the store of a URL. It may block, for example while a database recovers; it does not connect to a server.
///
/// # Errors
/// `config_invalid` for an invalid URL, or the store's error. The message contains no password.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Store>> {
    let store = keystead_stores::open(url)?;
    Ok(match Handle::try_current() {
        Ok(runtime) if store.capabilities().shared => Arc::new(OnRuntime { store, runtime }),
        // What belongs to this process has threads of its own, or needs none.
        _ => store,
    })
}

/// The name of a store: `engine`, `memory`, or a URL. It may contain a password, so only its scheme is ever shown.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreName(String);

impl StoreName {
    pub(crate) fn new(name: String) -> StoreName {
        StoreName(name)
    }

    /// All of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part that may be shown: a name, or the scheme of a URL.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(scheme, _)| scheme)
    }

    /// Whether it may contain a password: a URL with a user.
    #[must_use]
    pub fn may_be_secret(&self) -> bool {
        self.0.contains('@')
    }
}

impl fmt::Debug for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

/// A store whose calls run on a certain runtime.
struct OnRuntime {
    store: Arc<dyn Store>,
    runtime: Handle,
}

#[deny(clippy::missing_trait_methods)]
impl Store for OnRuntime {
    fn scheme(&self) -> &'static str {
        self.store.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        StoreFuture::pending(async move {
            let (store, key, mut detached) = (Arc::clone(&self.store), key.clone(), step.detach());
            let ran = self.runtime.spawn(async move {
                store.apply_erased(&key, &mut *detached).await?;
                Ok(detached.take_reply())
            });
            if let Some(reply) = joined(ran.await)? {
                step.put_reply(reply);
            }
            Ok(())
        })
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::pending(async move {
            let (store, key) = (Arc::clone(&self.store), key.clone());
            joined(self.runtime.spawn(async move { store.reset(&key).await }).await)
        })
    }

    fn together(&self) -> Option<&dyn Together> {
        self.store.together().map(|_| self as &dyn Together)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.store.close()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Together for OnRuntime {
    fn run_together<'a>(&'a self, keys: &'a [Key], job: Job) -> StoreFuture<'a, Box<dyn Any + Send>> {
        StoreFuture::pending(async move {
            let (store, keys) = (Arc::clone(&self.store), keys.to_vec());
            let ran = self.runtime.spawn(async move {
                match store.together() {
                    Some(store) => store.run_together(&keys, job).await,
                    None => Err(Error::new(Code::Unsupported, "this store runs one step at a time")),
                }
            });
            joined(ran.await)
        })
    }
}

fn joined<T>(ran: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    ran.unwrap_or_else(|error| {
        let message = "the call of the store was stopped: the server is stopping, or has a defect";
        Err(Error::unknown(Code::Internal, message).with_source(error))
    })
}

#[cfg(test)]
mod tests {
    use keystead_core::{Change, MemoryStore, StoreExt, Ttl, step_fn};

    use super::*;

    #[test]
    fn calls_run_on_the_given_runtime_and_return_their_replies() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let store = OnRuntime { store: Arc::new(MemoryStore::new()), runtime: runtime.handle().clone() };
        let key = Key::new("k").unwrap();
        let thread = step_fn(|_: Option<&u64>, _| {
            let name = std::thread::current().name().map(str::to_owned);
            Change::Put(1u64, Ttl::Never, name)
        });
        // Polled on a thread that is not one of the runtime's.
        let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
        other.block_on(async {
            let ran_on = store.apply(&key, &thread).await.unwrap();
            assert_ne!(ran_on.as_deref(), std::thread::current().name());
            assert_eq!(store.get::<u64>(&key).await.unwrap(), Some(1));
            assert!(store.reset(&key).await.unwrap());
            assert_eq!(store.get::<u64>(&key).await.unwrap(), None);
            store.close().await.unwrap();
            assert_eq!(store.reset(&key).await.unwrap_err().code(), Code::StoreUnavailable);
        });
    }

    #[test]
    fn only_the_scheme_is_shown() {
        let url = StoreName::new("redis://:secret@host".to_owned());
        assert_eq!((url.shown(), format!("{url:?}").as_str(), url.may_be_secret()), ("redis", "redis", true));
        assert_eq!(StoreName::new("engine".to_owned()).shown(), "engine");
    }
}
