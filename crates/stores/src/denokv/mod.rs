//! Deno KV, by the KV Connect protocol: the `denokv` server, or a database of Deno Deploy. Accesses those servers.
//!
//! A swap is an atomic write that checks the versionstamp of the key. A key is a Deno key of one part, so `kv.get(["login:alice"])` finds it:
//! a string, or bytes if it is not UTF-8. Its value is a `Uint8Array` with the [text form](crate::cas::record) of the record.
//!
//! | To find                                       | open       |
//! |-----------------------------------------------|------------|
//! | the messages                                  | `proto`    |
//! | the address of the database, and its token    | `metadata` |

mod metadata;
mod proto;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, Uri};
use keystead_core::{Capabilities, Clock, Code, Error, Key, Result, Store, SystemClock};
use tokio::time::sleep;

use super::Scheme;
use super::url::Url;
use crate::authority::Authority;
use crate::bounds::{
    DEADLINE_PARTS, DENOKV_KEY_BYTES_MAX, DENOKV_REPLY_CHARS_MAX, DENOKV_VALUE_BYTES_MAX, HEADER_BYTES_MAX,
    RECLAIM_MS_MAX,
};
use crate::cas::{Backend, CasStore, Reading, Stored, Swap, Swapped, VersionToken};
use crate::http::{CallError, Failure, Http};
use crate::net;
use crate::url::deadline_ms;
use metadata::{Database, Origin, bearer};
use proto::WriteOutput;

const PORT: u16 = 4512;
const TLS_PORT: u16 = 443;

pub(super) const SCHEME: Scheme = Scheme {
    name: "denokv",
    form: "denokv://TOKEN@HOST:4512/PATH?tls=false&deadline=5s",
    about: "Deno KV, by KV Connect; shared, as durable as the server",
    open,
};

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let tls = match url.take("tls")?.unwrap_or(false) {
        true => Some(net::system_tls().map_err(|error| url.bad(&error))?),
        false => None,
    };
    let port = if tls.is_some() { TLS_PORT } else { PORT };
    let Authority { username, password, mut addresses, path } = Authority::of(url, port)?;
    let (Some(address), true) = (addresses.pop(), addresses.is_empty()) else {
        return Err(url.bad("it has one address"));
    };
    let token = match (username, password) {
        (Some(token), None) | (None, Some(token)) => token,
        (None, None) => std::env::var("DENO_KV_ACCESS_TOKEN").unwrap_or_default(),
        _ => return Err(url.bad("a login is the access token, without a user name")),
    };
    if token.is_empty() {
        return Err(url.bad("the access token is missing, also in the variable DENO_KV_ACCESS_TOKEN"));
    }
    let token =
        bearer(&token).ok_or_else(|| url.bad("the access token has a character that no header may have"))?;
    let path = format!("/{path}").parse::<Uri>().map_err(|_| url.bad("the path is not one of a URL"))?;
    let deadline_ms = deadline_ms(url)?;
    url.finish()?;
    // A little less than the layer allows a call.
    let patience = Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10;
    let http = Arc::new(Http::new(vec![address.clone()], tls.clone(), patience));
    let origin = Origin { http, address, tls, patience, path, token };
    let backend = DenoKvBackend { origin, database: Mutex::default() };
    Ok(Arc::new(CasStore::new(backend, clock, deadline_ms)?))
}

struct DenoKvBackend {
    origin: Origin,
    /// As it was announced, until that is no longer valid.
    database: Mutex<Option<Arc<Database>>>,
}

/// The parts of a key begin with their type, and end with a zero byte.
const PART_BYTES: u8 = 1;
const PART_STRING: u8 = 2;

/// A Deno key of one part. A zero byte within it is followed by 0xff.
fn encoded(key: &Key) -> Result<Vec<u8>> {
    let bytes = key.as_bytes();
    let mut encoded = Vec::with_capacity(bytes.len() + 2);
    encoded.push(if std::str::from_utf8(bytes).is_ok() { PART_STRING } else { PART_BYTES });
    for byte in bytes {
        encoded.push(*byte);
        if *byte == 0 {
            encoded.push(0xff);
        }
    }
    encoded.push(0);
    if encoded.len() > DENOKV_KEY_BYTES_MAX {
        let message = format!("the key has more than {DENOKV_KEY_BYTES_MAX} bytes when it is encoded");
        return Err(Error::new(Code::TooLarge, message));
    }
    Ok(encoded)
}

impl DenoKvBackend {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Database>>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn database(&self) -> Result<Arc<Database>> {
        if let Some(database) = &*self.lock()
            && sleep(Duration::ZERO).deadline() < database.until
        {
            return Ok(Arc::clone(database));
        }
        let database = Arc::new(self.origin.exchange().await?);
        *self.lock() = Some(Arc::clone(&database));
        Ok(database)
    }

    /// The next call asks again where the database is.
    fn forget(&self) {
        *self.lock() = None;
    }

    /// Sends a message to the database, which may depend on it, and returns the reply.
    async fn call(
        &self,
        path: fn(&Database) -> &Uri,
        message: impl Fn(&Database) -> Vec<u8>,
    ) -> Result<Bytes> {
        let database = self.database().await?;
        match self.send(&database, path, message(&database)).await {
            Ok(reply) => return Ok(reply),
            Err(CallError::Error(error)) => return Err(error),
            // It was rejected before it was executed.
            Err(CallError::Token) => self.forget(),
        }
        let database = self.database().await?;
        self.send(&database, path, message(&database)).await.map_err(|error| match error {
            CallError::Error(error) => error,
            CallError::Token => {
                let message = format!("the Deno KV server at {} rejected its own token", database.http);
                Error::new(Code::StoreUnavailable, message)
            }
        })
    }

    async fn send(
        &self,
        database: &Database,
        path: fn(&Database) -> &Uri,
        message: Vec<u8>,
    ) -> Result<Bytes, CallError> {
        let mut request = Request::new(Full::new(message.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path(database).clone();
        *request.headers_mut() = database.headers.clone();
        let response = database.http.call(request).await.map_err(|failure| {
            if let Failure::NotSent(_) = failure {
                // It may have moved.
                self.forget();
            }
            CallError::Error(failure.into())
        })?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response.into_body());
        }
        let text: String =
            String::from_utf8_lossy(response.body()).chars().take(DENOKV_REPLY_CHARS_MAX).collect();
        let message = format!("the Deno KV server replied {status} {text}");
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => CallError::Token,
            // The protocol rejects a request with such a status before it is executed.
            status if status.is_client_error() => {
                CallError::Error(Error::new(Code::StoreUnavailable, message))
            }
            _ => CallError::Error(Error::unknown(Code::StoreUnavailable, message)),
        })
    }

    fn unexpected(&self) -> Error {
        let message = format!("the server at {} sent a reply of another form", self.origin.http);
        Error::unknown(Code::StoreUnavailable, message)
    }
}

impl Backend for DenoKvBackend {
    fn scheme(&self) -> &'static str {
        "denokv"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: true,
            // Less the type of its part and the end.
            key_bytes_max: DENOKV_KEY_BYTES_MAX - 2,
            state_bytes_max: DENOKV_VALUE_BYTES_MAX - HEADER_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        let key = encoded(key)?;
        let reply = self.call(|database| &database.read, |_| proto::read(&key)).await?;
        let output = proto::read_output(&reply).ok_or_else(|| self.unexpected())?;
        if output.disabled || !output.strong {
            self.forget();
            let message = "the Deno KV server does not serve consistent reads now";
            return Err(Error::new(Code::StoreUnavailable, message));
        }
        let Some(entry) = output.entry else { return Ok(Reading::default()) };
        if entry.encoding != proto::ENCODING_BYTES {
            return Err(Error::new(Code::Corrupt, "the value of the key is not one of Keystead"));
        }
        let text = String::from_utf8_lossy(&entry.value).into_owned();
        Ok(Reading { stored: Some(Stored { token: VersionToken(entry.versionstamp), text }), now: None })
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let key = encoded(key)?;
        let expected = swap.expected.map(|token| token.0);
        let message = |database: &Database| {
            // The time of the server, whose date has no parts of a second.
            let now = SystemClock.now().plus_ms(database.ahead_ms + 1000);
            let expire_at = swap.reclaim_ms.filter(|ms| *ms <= RECLAIM_MS_MAX).map(|ms| now.plus_ms(ms).0);
            proto::write(&key, expected, swap.text.as_bytes(), expire_at)
        };
        let reply = self.call(|database| &database.write, message).await?;
        match proto::write_output(&reply).ok_or_else(|| self.unexpected())? {
            WriteOutput::Success(versionstamp) => Ok(Swapped::Done(VersionToken(versionstamp))),
            WriteOutput::CheckFailed => Ok(Swapped::Conflict(None)),
            WriteOutput::Disabled => {
                self.forget();
                let message = "the Deno KV server does not serve writes now";
                Err(Error::new(Code::StoreUnavailable, message))
            }
            WriteOutput::Unspecified => {
                let message = "the Deno KV server did not report whether it has written";
                Err(Error::unknown(Code::StoreUnavailable, message))
            }
        }
    }

    async fn close(&self) -> Result<()> {
        self.origin.http.close();
        if let Some(database) = &*self.lock() {
            database.http.close();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_part_of_a_deno_key() {
        let of = |key: &[u8]| encoded(&Key::new(key).unwrap());
        assert_eq!(of(b"a:1").unwrap(), b"\x02a:1\0");
        assert_eq!(of(b"a\0b").unwrap(), b"\x02a\0\xffb\0");
        assert_eq!(of(b"\xfe\0").unwrap(), b"\x01\xfe\0\xff\0");
        assert!(of(&[b'k'; DENOKV_KEY_BYTES_MAX - 2]).is_ok());
        let error = of(&[0; DENOKV_KEY_BYTES_MAX - 2]).unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
    }
}
