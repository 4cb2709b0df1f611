//! Documents in a store that several servers share (`--documents-store`), instead of this server's database. Touches that store.
//!
//! Without it, `/kv` works on the keys of the database. What a change of a document means is the same for both:
//! `keystead_commands::documents`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::{Code, Error, Key, Result, Step, Store, StoreExt};
use keystead_http_api::kv::steps::PREFIX;
use keystead_limit::fail_mode::is_broken;

use crate::stores::{self, StoreName};

/// The store of the documents.
pub struct DocumentStore {
    store: Arc<dyn Store>,
    broken: AtomicBool,
}

impl DocumentStore {
    /// Opens it. It may block, for example while a database recovers; it does not connect to a server.
    ///
    /// # Errors
    /// `config_invalid` for an invalid URL, or the store's error.
    pub fn open(url: &StoreName) -> Result<DocumentStore> {
        let store = stores::open(url.as_str())?;
        if !store.capabilities().atomic {
            let message = format!(
                "documents cannot be in {}: its changes are not atomic, so a condition on a version would not hold",
                store.scheme()
            );
            return Err(Error::new(Code::ConfigInvalid, message));
        }
        Ok(DocumentStore { store, broken: AtomicBool::new(false) })
    }

    /// Runs a step on the document of a key, and returns its reply.
    ///
    /// # Errors
    /// The store's error.
    pub async fn apply<S: Step>(&self, key: &[u8], step: &S) -> Result<S::Reply> {
        let reply = self.store.apply(&Key::join(PREFIX, key)?, step).await;
        self.broken.store(reply.as_ref().err().is_some_and(is_broken), Ordering::Relaxed);
        reply
    }

    /// The kind of store.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.store.scheme()
    }

    /// Whether it failed at the last request.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Closes it with the server.
    ///
    /// # Errors
    /// The store's error.
    pub async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Change, Ttl, step_fn};

    use super::*;

    #[tokio::test]
    async fn an_invalid_request_is_not_a_failure_of_the_store() {
        let documents = DocumentStore::open(&StoreName::new("memory:".to_owned())).unwrap();
        let put = step_fn(|_: Option<&u64>, _| Change::Put(1, Ttl::Never, ()));
        documents.apply(b"k", &put).await.unwrap();
        assert_eq!(documents.apply(b"", &put).await.unwrap_err().code(), Code::BadRequest);
        assert!(!documents.is_broken());
        documents.close().await.unwrap();
        assert_eq!(documents.apply(b"k", &put).await.unwrap_err().code(), Code::StoreUnavailable);
        assert!(documents.is_broken());
    }

    #[test]
    fn an_approximate_store_is_refused_with_the_reason() {
        let url = StoreName::new("workers-kv+http://s3cret@127.0.0.1:1".to_owned());
        let error = DocumentStore::open(&url).err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert!(
            error.message().starts_with("documents cannot be in workers-kv: its changes are not atomic"),
            "{error}"
        );
        DocumentStore::open(&StoreName::new("d1+http://s3cret@127.0.0.1:1".to_owned())).unwrap();
    }
}
