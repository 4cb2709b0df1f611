//! etcd, from version 3.4, through the JSON gateway on its client port. Accesses those servers.
//!
//! A swap is one transaction that compares the mod revision of the key and returns the current value if it lost. Swaps of other keys that
//! come meanwhile share one. What may be reclaimed is attached to a [lease](lease), which many keys share.

mod lease;
mod swaps;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{Capabilities, Clock, Key, Result, Store};
use serde_json::json;

use super::Scheme;
use super::url::Url;
use crate::authority::Authority;
use crate::bounds::{DEADLINE_PARTS, RECLAIM_MS_MAX};
use crate::cas::{Backend, CasStore, Reading, Swap, Swapped};
use crate::gather::Gather;
use crate::http::Http;
use crate::net;
use crate::url::deadline_ms;
use lease::Leases;
use swaps::{KeySwap, Swaps};
use wire::{Login, Range, Wire, base64};

const PORT: u16 = 2379;

pub(super) const SCHEME: Scheme = Scheme {
    name: "etcd",
    form: "etcd://USER:PASSWORD@HOST:2379,HOST:2379?tls=false&deadline=5s",
    about: "etcd; shared and durable",
    open,
};

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let Authority { username, password, addresses, path } = Authority::of(url, PORT)?;
    if !path.is_empty() {
        return Err(url.bad("etcd has no databases"));
    }
    let login = match (username, password) {
        (Some(name), Some(password)) => Some(Login { name, password }),
        (None, None) => None,
        _ => return Err(url.bad("a login has a user name and a password")),
    };
    let tls = match url.take("tls")?.unwrap_or(false) {
        true => Some(net::system_tls().map_err(|error| url.bad(&error))?),
        false => None,
    };
    let deadline_ms = deadline_ms(url)?;
    url.finish()?;
    // A little less than the layer allows a call.
    let patience = Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10;
    let wire = Wire::new(Http::new(addresses, tls, patience), login);
    let backend = EtcdBackend { swaps: Gather::new(Swaps { wire, leases: Leases::default() }) };
    Ok(Arc::new(CasStore::new(backend, clock, deadline_ms)?))
}

struct EtcdBackend {
    swaps: Gather<Swaps>,
}

impl Backend for EtcdBackend {
    fn scheme(&self) -> &'static str {
        "etcd"
    }

    /// A request has at most 1.5 MiB, in which the key is three times.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: KEY_BYTES_MAX,
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        let wire = &self.swaps.carrier().wire;
        let range: Range = wire.call("/v3/kv/range", &json!({"key": base64(key.as_bytes())})).await?;
        range.reading()
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let Swaps { wire, leases } = self.swaps.carrier();
        let lease = match swap.reclaim_ms.filter(|ms| *ms <= RECLAIM_MS_MAX) {
            // Nothing has been written if there is none.
            Some(ms) => leases.get(wire, ms).await?,
            None => 0,
        };
        // A key that does not exist has the mod revision 0.
        let expected = swap.expected.map_or(0, |token| token.0);
        let value = base64(swap.text.as_bytes());
        self.swaps.call(KeySwap { key: base64(key.as_bytes()), expected, value, lease }).await
    }

    async fn close(&self) -> Result<()> {
        self.swaps.carrier().wire.close();
        Ok(())
    }
}
