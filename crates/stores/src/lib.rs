//! Opens a store by its URL: the same steps on any of them.
//!
//! ```
//! let store = keystead_stores::open("memory:?max-keys=100000")?;
//! assert_eq!(store.scheme(), "memory");
//! # Ok::<(), keystead_core::Error>(())
//! ```
//!
//! A store is one file of this crate and one row in [`SCHEMES`]. Opening accesses what the URL names: nothing, a directory, a server.

mod memory;
mod sqlite;
mod url;

use std::sync::Arc;

use keystead_core::{Code, Error, Result, Store};

use url::Url;

/// A kind of store, and the form of its URL.
pub struct Scheme {
    /// The scheme of the URL.
    pub name: &'static str,
    /// The form of the URL.
    pub form: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    open: fn(&Url<'_>) -> Result<Arc<dyn Store>>,
}

/// Every kind of store.
pub static SCHEMES: &[Scheme] = &[memory::SCHEME, sqlite::SCHEME];

/// Opens the store that a URL names. It may block, for example while a database recovers.
///
/// # Errors
/// `config_invalid` for an invalid URL, or the store's error.
pub fn open(url: &str) -> Result<Arc<dyn Store>> {
    let name = url.split_once(':').map(|(name, _)| name);
    let Some(scheme) = SCHEMES.iter().find(|scheme| Some(scheme.name) == name) else {
        let forms: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.form).collect();
        // A URL can contain a password: only its scheme is repeated.
        let message =
            format!("there is no store '{}': the stores are {}", name.unwrap_or(url), forms.join(", "));
        return Err(Error::new(Code::ConfigInvalid, message));
    };
    (scheme.open)(&Url::of(&url[scheme.name.len() + 1..], scheme.form)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_lists_the_stores_and_reveals_no_password() {
        let error = open("mysql://root:secret@host").err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert!(error.message().starts_with("there is no store 'mysql': the stores are memory:"), "{error}");
        assert!(!error.message().contains("secret"));
        assert!(open("nothing").is_err());
    }

    #[test]
    fn an_unknown_parameter_is_rejected() {
        let error = open("memory:?maxkeys=1").err().unwrap();
        assert!(error.message().contains("'maxkeys'"), "{error}");
        assert!(open("memory:?max-keys=none").is_err());
        assert!(open("memory:path").is_err());
        assert!(open("sqlite:").is_err());
    }

    #[tokio::test]
    async fn a_database_is_opened_by_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?durability=commit&shards=2", dir.path().display());
        let store = open(&url).unwrap();
        assert_eq!(store.scheme(), "sqlite");
        assert!(store.capabilities().durable);
        store.close().await.unwrap();
    }
}
