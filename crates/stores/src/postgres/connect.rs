//! Where a PostgreSQL server is, and how to log in there. Opens sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use keystead_core::{Code, Error, Result};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};

use super::failure;
use super::tls::Encrypt;
use crate::authority::Authority;
use crate::net::{self, Address, Tls};
use crate::url::Url;
use crate::version::{self, Version};

const PORT: u16 = 5432;

/// Where to connect.
pub struct Target {
    pub(super) address: Address,
    config: Config,
    pub(super) database: String,
    tls: Option<Tls>,
}

/// Older ones do not know `AS MATERIALIZED` and `plan_cache_mode`.
const OLDEST: Version = Version(12, 0);

/// A login, which ends when it is dropped.
pub struct Login {
    /// Sends statements.
    pub client: Client,
    /// Our end of the connection and the other one, as this machine sees them.
    pub(super) ends: Option<(SocketAddr, SocketAddr)>,
    driver: JoinHandle<()>,
}

impl Drop for Login {
    /// The driver waits for replies; nobody else does any more.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Target {
    /// The server, database, user and TLS of a URL. It takes the parameter `sslmode`.
    ///
    /// # Errors
    /// `config_invalid` with the form of the URL.
    pub fn of(url: &Url<'_>) -> Result<Target> {
        let Authority { username, password, mut addresses, path } = Authority::of(url, PORT)?;
        let (Some(address), true) = (addresses.pop(), addresses.is_empty()) else {
            return Err(url.bad("it has one address: the one of the primary, or of a pooler"));
        };
        let user = username.unwrap_or_else(|| "postgres".to_owned());
        let database = if path.is_empty() { user.clone() } else { path };
        let mut config = Config::new();
        config.user(&user).dbname(&database).application_name("keystead");
        if let Some(password) = password {
            config.password(password);
        }
        let tls = match url.take::<String>("sslmode")?.as_deref() {
            None | Some("disable") => None,
            // Certificates are always checked: an encrypted connection to somebody else is worth nothing.
            Some("require" | "verify-ca" | "verify-full") => {
                Some(net::system_tls().map_err(|error| url.bad(&error))?)
            }
            Some(_) => return Err(url.bad("sslmode is disable or verify-full")),
        };
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        Ok(Target { address, config, database, tls })
    }

    /// Logs in.
    ///
    /// # Errors
    /// `store_unavailable`, with what to do about it: nothing was sent. Also if the server is too old.
    pub async fn connect(&self) -> Result<Login> {
        let Target { address, config, tls, .. } = self;
        let refused = |message| Error::new(Code::StoreUnavailable, message);
        let failed = |error| failure::to_connect(self, &error);
        // The driver asks for TLS by itself, on a plain connection.
        let stream = net::connect_plain(address).await.map_err(refused)?;
        let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
        let (client, driver) = match tls {
            None => {
                let (client, driver) = config.connect_raw(stream, NoTls).await.map_err(failed)?;
                self.check_version(driver.parameter("server_version"))?;
                (client, tokio::spawn(async { drop(driver.await) }))
            }
            Some(tls) => {
                let encrypt = Encrypt { tls: Arc::clone(tls), host: address.host.clone() };
                let (client, driver) = config.connect_raw(stream, encrypt).await.map_err(failed)?;
                self.check_version(driver.parameter("server_version"))?;
                (client, tokio::spawn(async { drop(driver.await) }))
            }
        };
        Ok(Login { client, ends, driver })
    }

    fn check_version(&self, states: Option<&str>) -> Result<()> {
        let server = format!("the PostgreSQL server at {}", self.address);
        version::check(&server, states.unwrap_or_default(), OLDEST)
    }
}
