//! Stores on Cloudflare, through the worker of `edge/`: the SQLite of a Durable Object, D1, Workers KV. Accesses that worker.
//!
//! A swap is compared where the record is: in the object, which runs one request at a time, or by D1's conditional statement. Workers KV
//! can compare nothing and reads what may be a minute old, so a store on it is approximate by design. Calls of other keys that come
//! meanwhile share one request.
//!
//! | To find                        | open   |
//! |--------------------------------|--------|
//! | requests, responses, failures  | `wire` |

mod wire;

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use keystead_core::record::version_of;
use keystead_core::{Capabilities, Clock, Code, Error, Key, Result, Store};

use super::Scheme;
use super::url::Url;
use crate::authority::Authority;
use crate::bounds::{
    CLOUDFLARE_KEY_BYTES_MAX, CLOUDFLARE_NAME_BYTES_MAX, CLOUDFLARE_STATE_BYTES_MAX, DEADLINE_PARTS,
    WORKERS_KV_KEY_BYTES_MAX,
};
use crate::cas::{Backend, CasStore, Reading, Stored, Swap, Swapped, VersionToken};
use crate::gather::Gather;
use crate::http::Http;
use crate::net;
use crate::url::deadline_ms;
use wire::{Call, Reply, Wire};

/// Where the records are.
struct Service {
    scheme: &'static str,
    /// In the path of the worker's route.
    word: &'static str,
    atomic: bool,
    /// Whether bytes that are no text must be written in few characters.
    has_short_names: bool,
    key_bytes_max: usize,
}

static OBJECT: Service = Service {
    scheme: "durable-object",
    word: "durable-object",
    atomic: true,
    has_short_names: false,
    key_bytes_max: CLOUDFLARE_KEY_BYTES_MAX,
};

static D1: Service = Service { scheme: "d1", word: "d1", ..OBJECT };

static KV: Service = Service {
    scheme: "workers-kv",
    word: "kv",
    atomic: false,
    has_short_names: true,
    key_bytes_max: WORKERS_KV_KEY_BYTES_MAX,
};

pub(super) const OBJECT_HTTPS: Scheme = Scheme {
    name: "durable-object+https",
    form: "durable-object+https://TOKEN@HOST/NAME?deadline=5s",
    about: "a Durable Object of Cloudflare, through the edge worker; shared and durable",
    open: |url, clock| open(url, clock, &OBJECT, true),
};

pub(super) const OBJECT_HTTP: Scheme = Scheme {
    name: "durable-object+http",
    form: "durable-object+http://TOKEN@127.0.0.1:8787/NAME?deadline=5s",
    about: "the same without TLS, for a worker on this machine",
    open: |url, clock| open(url, clock, &OBJECT, false),
};

pub(super) const D1_HTTPS: Scheme = Scheme {
    name: "d1+https",
    form: "d1+https://TOKEN@HOST/NAME?deadline=5s",
    about: "a D1 database of Cloudflare, through the edge worker; shared and durable",
    open: |url, clock| open(url, clock, &D1, true),
};

pub(super) const D1_HTTP: Scheme = Scheme {
    name: "d1+http",
    form: "d1+http://TOKEN@127.0.0.1:8787/NAME?deadline=5s",
    about: "the same without TLS, for a worker on this machine",
    open: |url, clock| open(url, clock, &D1, false),
};

pub(super) const KV_HTTPS: Scheme = Scheme {
    name: "workers-kv+https",
    form: "workers-kv+https://TOKEN@HOST/NAME?deadline=5s",
    about: "Workers KV of Cloudflare, through the edge worker; shared, durable, approximate: steps are not atomic",
    open: |url, clock| open(url, clock, &KV, true),
};

pub(super) const KV_HTTP: Scheme = Scheme {
    name: "workers-kv+http",
    form: "workers-kv+http://TOKEN@127.0.0.1:8787/NAME?deadline=5s",
    about: "the same without TLS, for a worker on this machine",
    open: |url, clock| open(url, clock, &KV, false),
};

fn open(
    url: &Url<'_>,
    clock: Arc<dyn Clock>,
    service: &'static Service,
    tls: bool,
) -> Result<Arc<dyn Store>> {
    let port = if tls { 443 } else { 80 };
    let Authority { username, password, mut addresses, path } = Authority::of(url, port)?;
    let (Some(address), true) = (addresses.pop(), addresses.is_empty()) else {
        return Err(url.bad("it has one address"));
    };
    let token = match (username, password) {
        (Some(token), None) | (None, Some(token)) => token,
        (None, None) => return Err(url.bad("the token is missing: it is the worker's secret KEYSTEAD_TOKEN")),
        _ => return Err(url.bad("a login is the token of the worker, without a user name")),
    };
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if path.len() > CLOUDFLARE_NAME_BYTES_MAX || !path.bytes().all(is_name) {
        let words =
            format!("a name has 1 to {CLOUDFLARE_NAME_BYTES_MAX} lower-case letters, digits and _, or none");
        return Err(url.bad(&words));
    }
    let deadline_ms = deadline_ms(url)?;
    url.finish()?;
    let in_header = |text: &str| {
        HeaderValue::from_str(text)
            .map_err(|_| url.bad("the host or the token has a character that no header may have"))
    };
    let mut authorization = in_header(&format!("Bearer {token}"))?;
    authorization.set_sensitive(true);
    // Certificates and routes are by name: the usual port is not a part of it.
    let host = in_header(&if address.port == port { address.host.clone() } else { address.to_string() })?;
    let route = match path.is_empty() {
        true => format!("/store/{}", service.word),
        false => format!("/store/{}/{path}", service.word),
    };
    let route = route.parse::<Uri>().map_err(|_| url.bad("the name is not one of a URL"))?;
    let tls = match tls {
        true => Some(net::system_tls().map_err(|error| url.bad(&error))?),
        false => None,
    };
    // A little less than the layer allows a call.
    let patience = Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10;
    let wire = Wire { http: Http::new(vec![address], tls, patience), host, authorization, route };
    let backend = CloudflareBackend { service, calls: Gather::new(wire) };
    Ok(Arc::new(CasStore::new(backend, clock, deadline_ms)?))
}

struct CloudflareBackend {
    service: &'static Service,
    calls: Gather<Wire>,
}

impl CloudflareBackend {
    /// The key as text: it can be found in Cloudflare's console by it.
    fn text_of(&self, key: &Key) -> Result<String> {
        let text = if self.service.has_short_names { key.short_text() } else { key.text() };
        let max = self.service.key_bytes_max;
        match text.len() <= max {
            true => Ok(text.into_owned()),
            false => {
                let message = format!("the key has more than {max} bytes when it is escaped");
                Err(Error::new(Code::TooLarge, message))
            }
        }
    }

    fn unexpected(&self) -> Error {
        let message = format!("the worker at {} replied to another call", self.calls.carrier().http);
        Error::unknown(Code::StoreUnavailable, message)
    }
}

fn reading(record: Option<String>) -> Result<Reading> {
    let stored = |text: String| match version_of(&text) {
        Some(version) => Ok(Stored { token: VersionToken(version.into()), text }),
        None => Err(Error::new(Code::Corrupt, "the value of the key is not one of Keystead")),
    };
    Ok(Reading { stored: record.map(stored).transpose()?, now: None })
}

impl Backend for CloudflareBackend {
    fn scheme(&self) -> &'static str {
        self.service.scheme
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: self.service.atomic,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: self.service.key_bytes_max,
            state_bytes_max: CLOUDFLARE_STATE_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        match self.calls.call(Call::Read { key: self.text_of(key)? }).await? {
            Reply::Record(record) => reading(record),
            _ => Err(self.unexpected()),
        }
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let call = Call::Swap {
            key: self.text_of(key)?,
            // All versions are those of records.
            expected: swap.expected.map(|token| token.0 as u64),
            record: swap.text.to_owned(),
            reclaim_ms: swap.reclaim_ms,
        };
        match self.calls.call(call).await? {
            Reply::Swapped(version) => Ok(Swapped::Done(VersionToken(version.into()))),
            Reply::Conflict(current) => Ok(Swapped::Conflict(current.map(reading).transpose()?)),
            _ => Err(self.unexpected()),
        }
    }

    async fn close(&self) -> Result<()> {
        self.calls.carrier().http.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::SystemClock;

    use super::*;

    fn opened(url: &str) -> Result<Arc<dyn Store>> {
        crate::open_on(url, Arc::new(SystemClock))
    }

    #[test]
    fn only_workers_kv_is_approximate() {
        for (url, scheme, atomic) in [
            ("durable-object+http://s3cret@127.0.0.1:8787", "durable-object", true),
            ("d1+http://s3cret@127.0.0.1:8787/limits", "d1", true),
            ("d1+https://s3cret@keystead.example.workers.dev", "d1", true),
            ("workers-kv+http://s3cret@127.0.0.1:8787", "workers-kv", false),
            ("workers-kv+https://s3cret@keystead.example.workers.dev/a_1", "workers-kv", false),
        ] {
            let store = opened(url).unwrap();
            assert_eq!((store.scheme(), store.capabilities().atomic), (scheme, atomic), "{url}");
        }
    }

    #[test]
    fn a_mistake_in_a_url_is_named_and_no_token_is_shown() {
        for (url, words) in [
            ("d1+http://127.0.0.1:8787", "KEYSTEAD_TOKEN"),
            ("d1+http://user:s3cret@127.0.0.1", "without a user name"),
            ("d1+http://s3cret@127.0.0.1/a/b", "a name has"),
            ("d1+http://s3cret@127.0.0.1/Limits", "a name has"),
            ("durable-object+http://s3cret@a,b", "one address"),
            ("workers-kv+http://s3cret@a?atomic=cas", "atomic"),
        ] {
            let error = opened(url).err().unwrap();
            assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
            assert!(error.message().contains(words), "{error}");
            assert!(!error.message().contains("s3cret"), "{error}");
        }
    }
}
