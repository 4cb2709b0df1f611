//! Where NATS servers are, how to log in there, and what a stream must be like. Opens sockets.

use std::fmt::{self, Write};
use std::time::Duration;

use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use keystead_core::{Code, Error, Result};

use crate::authority::Authority;
use crate::bounds::DEADLINE_MS;
use crate::net;
use crate::url::Url;
use crate::version::{self, Version};

const PORT: u16 = 4222;

/// Older servers ignore settings on which the guarantees of stores and sinks depend.
const OLDEST: Version = Version(2, 10);

/// Where to connect.
pub struct Target {
    servers: Vec<String>,
    username: Option<String>,
    password: Option<String>,
    tls: bool,
    patience: Duration,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.servers.join(", "))
    }
}

impl Target {
    /// The servers and the login of a URL, and its path. It takes the parameter `tls`.
    ///
    /// # Errors
    /// `config_invalid` with the form of the URL.
    pub fn of(url: &Url<'_>) -> Result<(Target, String)> {
        let Authority { username, password, addresses, path } = Authority::of(url, PORT)?;
        let tls = url.take("tls")?.unwrap_or(false);
        let servers = addresses.iter().map(|address| format!("nats://{address}")).collect();
        let patience = Duration::from_millis(DEADLINE_MS);
        Ok((Target { servers, username, password, tls, patience }, path))
    }

    /// The same, where connecting and each request may take so long.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Target {
        Target { patience, ..self }
    }

    fn options(&self) -> ConnectOptions {
        let options = match (&self.username, &self.password) {
            (Some(user), Some(password)) => {
                ConnectOptions::with_user_and_password(user.clone(), password.clone())
            }
            (Some(token), None) | (None, Some(token)) => ConnectOptions::with_token(token.clone()),
            (None, None) => ConnectOptions::new(),
        };
        let delay = |attempt: usize| Duration::from_millis((attempt as u64 * 10).min(200));
        let options = options.require_tls(self.tls).name("keystead").reconnect_delay_callback(delay);
        options.connection_timeout(self.patience).request_timeout(Some(self.patience)).max_reconnects(None)
    }

    /// Connects. The client library keeps the connection, and connects again by itself.
    ///
    /// # Errors
    /// `store_unavailable`, with what to do about it.
    pub async fn connect(&self) -> Result<(Client, Context)> {
        let client = self.options().connect(&self.servers[..]).await.map_err(|error| {
            // A failure of TLS has another error inside, one of the socket has none.
            let handshake = io_cause(&error).filter(|cause| cause.get_ref().is_some());
            unavailable(match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    format!("the NATS server at {self} rejected the user name, password or token")
                }
                ConnectErrorKind::Tls => format!("no TLS connection to {self}: {error}"),
                ConnectErrorKind::TimedOut => {
                    format!("the server at {self} did not greet as a NATS server does")
                }
                _ => match handshake {
                    Some(cause) => {
                        format!("no TLS connection to {self}: {}", net::handshake_advice(cause))
                    }
                    None => format!("cannot connect to {self}: {error}"),
                },
            })
        })?;
        version::check(&format!("the NATS server at {self}"), &client.server_info().version, OLDEST)?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(self.patience);
        Ok((client, context))
    }
}

/// `store_unavailable`.
#[must_use]
pub fn unavailable(message: String) -> Error {
    Error::new(Code::StoreUnavailable, message)
}

/// Why a stream cannot be looked at.
#[must_use]
pub fn stream_error(error: &GetStreamError) -> Error {
    unavailable(match error.kind() {
        GetStreamErrorKind::JetStream(error) => format!("the NATS server replied {error}"),
        _ => "the NATS server has no JetStream: start it with -js, or enable it for the account".to_owned(),
    })
}

/// What the library got from the socket, or from TLS on it.
fn io_cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a std::io::Error> {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.find_map(|cause| cause.downcast_ref())
}

/// Appends a key to a subject, as one token: other bytes than letters, digits, `-`, `_` and `/` become `=XX`.
pub fn push_encoded(subject: &mut String, key: &[u8]) {
    for byte in key {
        match byte {
            b'-' | b'_' | b'/' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => subject.push(*byte as char),
            // Writing to a string does not fail.
            byte => drop(write!(subject, "={byte:02X}")),
        }
    }
}

/// Why a stream would lose an acknowledged write, if it would.
#[must_use]
pub fn losing(config: &Config) -> Option<&'static str> {
    let bounded = config.max_bytes > 0 || config.max_messages > 0;
    Some(match config {
        config if config.storage == StorageType::Memory => "is in memory (storage: memory)",
        config if config.persist_mode == Some(PersistenceMode::Async) => {
            "is written late (persist_mode: async)"
        }
        config if !config.max_age.is_zero() => "deletes keys after a time (max_age)",
        config if config.discard == DiscardPolicy::Old && bounded => {
            "deletes keys when it is full (discard: old)"
        }
        config if config.retention != RetentionPolicy::Limits => "deletes what is read (retention)",
        config if config.mirror.is_some() => "is a mirror, which lags",
        config if config.no_ack => "acknowledges nothing (no_ack)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_lose_writes_are_found() {
        let good = || Config { storage: StorageType::File, discard: DiscardPolicy::New, ..Config::default() };
        assert_eq!(losing(&good()), None);
        let bad = [
            Config { storage: StorageType::Memory, ..good() },
            Config { max_age: Duration::from_secs(60), ..good() },
            Config { discard: DiscardPolicy::Old, max_bytes: 1 << 20, ..good() },
            Config { retention: RetentionPolicy::WorkQueue, ..good() },
            Config { no_ack: true, ..good() },
            Config { persist_mode: Some(PersistenceMode::Async), ..good() },
        ];
        for config in bad {
            assert!(losing(&config).is_some(), "{config:?}");
        }
    }
}
