//! The worker of `edge/` in tests: one workerd for all of them, and a database in it for each.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_testkit::NotOpened;
use keystead_testkit::rng::fresh_seed;
use keystead_testkit::servers::SharedServer;
use keystead_testkit::servers::edge::{EDGE_DATABASES, TOKEN};
use serde_json::{Map, Value, json};

use crate::client::{Http, Listens};

/// How many this process has made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Where a database is.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    address: SocketAddr,
    host: String,
    token: Option<String>,
}

/// A database of its own, of one object or several.
pub(crate) struct Database {
    /// Held while it is used.
    _server: SharedServer,
    target: Target,
}

impl Target {
    /// A server's own HTTP listener.
    pub(crate) fn of_server(address: SocketAddr) -> Target {
        Target { address, host: "localhost".to_owned(), token: None }
    }
}

impl Database {
    /// Makes one with these secrets and variables. Where they have no token, requests have one that the test need not know.
    ///
    /// # Errors
    /// `Missing` when the worker is not built.
    pub(crate) fn open(mut bindings: Map<String, Value>) -> Result<Database, NotOpened> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(SharedServer::get(&EDGE_DATABASES))?;
        let address = (Ipv4Addr::LOCALHOST, server.site().port()).into();
        let token = (!bindings.contains_key("KEYSTEAD_TOKEN")).then(|| TOKEN.to_owned());
        if let Some(token) = &token {
            bindings.insert("KEYSTEAD_TOKEN".to_owned(), json!(token));
        }
        let name = format!("t{:x}-{}", fresh_seed(), MADE.fetch_add(1, Ordering::Relaxed));
        let control = Target { address, host: "databases".to_owned(), token: None };
        let body = json!({ "name": name, "bindings": bindings }).to_string();
        assert_eq!(Http::connect(&control).post("/", &body).text(), "made");
        let target = Target { address, host: format!("{name}.localhost"), token };
        Ok(Database { _server: server, target })
    }

    /// Whether databases can be made.
    ///
    /// # Errors
    /// `Missing`, with what is.
    pub(crate) fn missing() -> Result<(), NotOpened> {
        (EDGE_DATABASES.find)().map(|_| ())
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Ends its objects, as the platform does: all that they have in memory is lost.
    pub(crate) fn evict(&self) {
        let response = Http::connect(self).ask("POST", "/", &["Keystead-Evict: 1"], b"");
        assert_eq!(response.text(), "evicted");
    }
}

impl Listens for Database {
    fn address(&self) -> SocketAddr {
        self.target.address()
    }

    fn host(&self) -> &str {
        self.target.host()
    }

    fn token(&self) -> Option<&str> {
        self.target.token()
    }

    fn closes_idle_connections(&self) -> bool {
        self.target.closes_idle_connections()
    }
}

impl Listens for Target {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    fn closes_idle_connections(&self) -> bool {
        true
    }
}
