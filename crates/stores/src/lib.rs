//! Opens a store by its URL: the same steps on any of them.
//!
//! ```
//! let store = keystead_stores::open("memory:?max-keys=100000")?;
//! assert_eq!(store.scheme(), "memory");
//! # Ok::<(), keystead_core::Error>(())
//! ```
//!
//! A store is one file of this crate and one row in [`SCHEMES`]. Opening accesses what the URL names: nothing, a directory, a server.

#[cfg(any(
    feature = "redis",
    feature = "postgres",
    feature = "dynamodb",
    feature = "denokv",
    feature = "nats",
    feature = "etcd",
    feature = "cloudflare",
    feature = "tls"
))]
#[cfg_attr(
    not(any(
        feature = "postgres",
        feature = "denokv",
        feature = "nats",
        feature = "etcd",
        feature = "cloudflare",
        feature = "tls"
    )),
    allow(dead_code, reason = "Redis's and DynamoDB's own parsers of URLs use a part of it")
)]
mod authority;
pub mod bounds;
mod carried;
pub mod cas;
#[cfg(feature = "cloudflare")]
mod cloudflare;
pub mod connect;
mod copied;
#[cfg(any(feature = "dynamodb", feature = "denokv", feature = "http"))]
mod date;
#[cfg(feature = "denokv")]
mod denokv;
#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "postgres", feature = "etcd", feature = "cloudflare", feature = "sqlite-file"))]
mod gather;
#[cfg(any(
    feature = "dynamodb",
    feature = "denokv",
    feature = "etcd",
    feature = "cloudflare",
    feature = "http"
))]
mod http;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(any(
    feature = "redis",
    feature = "postgres",
    feature = "dynamodb",
    feature = "denokv",
    feature = "nats",
    feature = "etcd",
    feature = "cloudflare",
    feature = "tls"
))]
#[cfg_attr(
    not(any(
        feature = "redis",
        feature = "dynamodb",
        feature = "denokv",
        feature = "etcd",
        feature = "cloudflare",
        feature = "http"
    )),
    allow(
        dead_code,
        reason = "the library of NATS connects by itself, that of PostgreSQL does TLS by itself"
    )
)]
mod net;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite-file")]
mod sqlite_file;
mod url;
#[cfg(any(feature = "postgres", feature = "nats"))]
mod version;

use std::sync::Arc;

use keystead_core::{Clock, Code, Error, Key, Result, Store, StoreExt, SystemClock};

use url::Url;

/// A kind of store, and the form of its URL.
pub struct Scheme {
    /// The scheme of the URL.
    pub name: &'static str,
    /// The form of the URL.
    pub form: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    open: Open,
}

type Open = fn(&Url<'_>, Arc<dyn Clock>) -> Result<Arc<dyn Store>>;

/// Every kind of store in this build.
pub static SCHEMES: &[Scheme] = &[
    memory::SCHEME,
    #[cfg(feature = "sqlite")]
    sqlite::SCHEME,
    #[cfg(feature = "sqlite-file")]
    sqlite_file::SCHEME,
    #[cfg(feature = "redis")]
    redis::REDIS,
    #[cfg(feature = "redis")]
    redis::REDISS,
    #[cfg(feature = "redis")]
    redis::CLUSTER,
    #[cfg(feature = "redis")]
    redis::UPSTASH,
    #[cfg(feature = "redis")]
    redis::UPSTASH_PLAIN,
    #[cfg(feature = "postgres")]
    postgres::POSTGRES,
    #[cfg(feature = "postgres")]
    postgres::POSTGRESQL,
    #[cfg(feature = "dynamodb")]
    dynamodb::SCHEME,
    #[cfg(feature = "denokv")]
    denokv::SCHEME,
    #[cfg(feature = "nats")]
    nats::SCHEME,
    #[cfg(feature = "etcd")]
    etcd::SCHEME,
    #[cfg(feature = "cloudflare")]
    cloudflare::OBJECT_HTTPS,
    #[cfg(feature = "cloudflare")]
    cloudflare::OBJECT_HTTP,
    #[cfg(feature = "cloudflare")]
    cloudflare::D1_HTTPS,
    #[cfg(feature = "cloudflare")]
    cloudflare::D1_HTTP,
    #[cfg(feature = "cloudflare")]
    cloudflare::KV_HTTPS,
    #[cfg(feature = "cloudflare")]
    cloudflare::KV_HTTP,
];

/// The schemes that need a cargo feature, and its name.
const FEATURES: &[(&str, &str)] = &[
    ("sqlite", "sqlite"),
    ("sqlite-file", "sqlite-file"),
    ("redis", "redis"),
    ("rediss", "redis"),
    ("redis+cluster", "redis"),
    ("upstash+https", "redis"),
    ("upstash+http", "redis"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("dynamodb", "dynamodb"),
    ("denokv", "denokv"),
    ("nats", "nats"),
    ("etcd", "etcd"),
    ("durable-object+https", "cloudflare"),
    ("durable-object+http", "cloudflare"),
    ("d1+https", "cloudflare"),
    ("d1+http", "cloudflare"),
    ("workers-kv+https", "cloudflare"),
    ("workers-kv+http", "cloudflare"),
];

/// Opens the store that a URL names, on the system's clock. It may block, for example while a database recovers. A store on a server
/// connects when it is first used: [`connect()`] finds out at once whether that works.
///
/// # Errors
/// `config_invalid` for an invalid URL, or the store's error.
pub fn open(url: &str) -> Result<Arc<dyn Store>> {
    open_on(url, Arc::new(SystemClock))
}

/// The same, and reads one key, so that a server that is missing, a wrong password or a missing table is found now.
///
/// # Errors
/// `config_invalid` for an invalid URL, or the store's error.
pub async fn connect(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let store = open_on(url, clock)?;
    match store.get::<bool>(&Key::new(PROBE_KEY)?).await {
        Err(error) if error.code() != Code::WrongType => Err(error),
        _ => Ok(store),
    }
}

/// The key that [`connect()`] reads. Nothing is stored there.
const PROBE_KEY: &str = "keystead:connect";

/// Opens the store that a URL names, on this clock.
///
/// # Errors
/// `config_invalid` for an invalid URL, or the store's error.
pub fn open_on(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let name = url.split_once(':').map(|(name, _)| name);
    let Some(scheme) = SCHEMES.iter().find(|scheme| Some(scheme.name) == name) else {
        return Err(unknown(name.unwrap_or(url), SCHEMES));
    };
    (scheme.open)(&Url::of(&url[scheme.name.len() + 1..], scheme.form)?, clock)
}

/// The error of a URL of this scheme, where these are the schemes of the build. A URL can contain a password: only its scheme is repeated.
fn unknown(name: &str, schemes: &[Scheme]) -> Error {
    let message = match FEATURES.iter().find(|(scheme, _)| *scheme == name) {
        Some((scheme, feature)) => {
            format!("this build has no store '{scheme}': build it with --features {feature}")
        }
        None => {
            let forms: Vec<&str> = schemes.iter().map(|scheme| scheme.form).collect();
            format!("there is no store '{name}': the stores are {}", forms.join(", "))
        }
    };
    Error::new(Code::ConfigInvalid, message)
}

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/stores.md")]
struct Guide;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_names_its_feature_and_is_in_the_guide() {
        let guide = include_str!("../../../docs/stores.md");
        for Scheme { name, .. } in SCHEMES {
            let has_feature = FEATURES.iter().any(|(scheme, _)| scheme == name);
            assert_eq!(has_feature, *name != "memory", "{name} in FEATURES");
            assert!(guide.contains(&format!("`{name}:")), "{name} in docs/stores.md");
        }
    }

    #[test]
    fn the_backend_in_the_guide_is_the_one_that_the_conformance_suite_runs() {
        let guide = include_str!("../../../docs/stores.md");
        let backend = include_str!("../tests/conformance/memory.rs");
        let code: Vec<&str> = backend.lines().filter(|line| !line.starts_with("//!")).collect();
        assert!(guide.contains(code.join("\n").trim()), "copy the file to docs/stores.md");
    }

    #[test]
    fn an_unknown_scheme_lists_the_stores_and_reveals_no_password() {
        let error = open("mysql://root:secret@host").err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert!(error.message().starts_with("there is no store 'mysql': the stores are memory:"), "{error}");
        assert!(!error.message().contains("secret"));
        assert!(open("nothing").is_err());
    }

    #[test]
    fn a_scheme_that_is_not_in_the_build_names_its_feature() {
        for (scheme, feature) in FEATURES {
            let error = unknown(scheme, &[]);
            assert_eq!(error.code(), Code::ConfigInvalid);
            let words = format!("this build has no store '{scheme}': build it with --features {feature}");
            assert_eq!(error.message(), words);
            if !SCHEMES.iter().any(|known| known.name == *scheme) {
                let error = open(&format!("{scheme}://user:secret@host")).err().unwrap();
                assert_eq!(error.message(), words);
            }
        }
    }

    /// What the error says is true for the library, and for the server, which has some of them in every build.
    #[test]
    fn a_feature_of_a_store_is_one_of_the_library_and_of_the_server() {
        let (library, server) = (include_str!("../Cargo.toml"), include_str!("../../server/Cargo.toml"));
        let in_every_build = server.lines().find(|line| line.starts_with("keystead-stores = ")).unwrap();
        for (_, feature) in FEATURES {
            assert!(library.contains(&format!("\n{feature} = [")), "{feature}");
            assert!(
                server.contains(&format!("\n{feature} = [\"keystead-stores/{feature}\"]\n"))
                    || in_every_build.contains(&format!("\"{feature}\"")),
                "{feature} of the server"
            );
        }
    }

    #[test]
    fn an_unknown_parameter_is_rejected() {
        let error = open("memory:?maxkeys=1").err().unwrap();
        assert!(error.message().contains("'maxkeys'"), "{error}");
        assert!(open("memory:?max-keys=none").is_err());
        assert!(open("memory:path").is_err());
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_database_is_opened_by_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?durability=commit&shards=2", dir.path().display());
        let store = open(&url).unwrap();
        assert_eq!(store.scheme(), "sqlite");
        assert!(open("sqlite:").is_err());
        assert!(store.capabilities().durable);
        store.close().await.unwrap();
    }
}
