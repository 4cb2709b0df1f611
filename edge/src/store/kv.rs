//! Records on Workers KV, by name of the store and key. Touches that namespace.
//!
//! KV compares nothing: a swap reads, compares and writes, and what others write in between is lost. A read may be answered from a cache that
//! is as old as [`STORE_KV_CACHE_S`]; a write elsewhere is seen after up to a minute. So a store on it is approximate by design.

use futures_util::future::join_all;
use keystead_core::record::version_of;
use keystead_core::{Code, Error, Result};
use worker::{Env, KvError, KvStore};

use super::items::{Call, Outcome, Swap};
use super::unbound;
use crate::bounds::{STORE_KV_CACHE_S, STORE_KV_TTL_S_MAX, STORE_KV_TTL_S_MIN};
use crate::sql::text_of;

/// The binding of the namespace.
const BINDING: &str = "KV";

/// The records of one store.
pub(crate) struct KvRecords {
    namespace: KvStore,
    name: String,
}

impl KvRecords {
    pub(super) fn open(env: &Env, name: &str) -> Result<KvRecords> {
        let namespace = env.kv(BINDING).map_err(|_| unbound("Workers KV namespace", BINDING))?;
        Ok(KvRecords { namespace, name: name.to_owned() })
    }

    pub(super) async fn run(&self, calls: &[Call<'_>]) -> Vec<Outcome> {
        let several = calls.len() > 1;
        let one = async |call| self.one(call).await.unwrap_or_else(Outcome::Failed).among(several);
        join_all(calls.iter().map(one)).await
    }

    async fn one(&self, call: &Call<'_>) -> Result<Outcome> {
        let name = format!("{}:{}", self.name, call.key());
        let read = self.namespace.get(&name).cache_ttl(STORE_KV_CACHE_S).text().await;
        let current = read.map_err(|error| {
            Error::new(Code::StoreUnavailable, format!("Workers KV rejected a read: {}", words_of(&error)))
        })?;
        let Call::Swap(swap) = call else { return Ok(Outcome::Record(current)) };
        if current.as_deref().and_then(version_of) != swap.expected {
            return Ok(Outcome::of_lost(swap, current));
        }
        self.write(&name, swap).await.map(|()| Outcome::Swapped(swap.version))
    }

    async fn write(&self, name: &str, swap: &Swap<'_>) -> Result<()> {
        let put = self.namespace.put(name, &*swap.record).map_err(|error| failed(&error))?;
        let put = match swap.reclaim_ms.filter(|ms| ms.div_ceil(1000) <= STORE_KV_TTL_S_MAX) {
            Some(ms) => put.expiration_ttl(ms.div_ceil(1000).max(STORE_KV_TTL_S_MIN)),
            None => put,
        };
        put.execute().await.map_err(|error| failed(&error))
    }
}

fn words_of(error: &KvError) -> String {
    match error {
        KvError::JavaScript(error) => text_of(error),
        error => error.to_string(),
    }
}

/// The error of a write.
fn failed(error: &KvError) -> Error {
    let words = words_of(error);
    match words.contains("429") {
        true => Error::new(
            Code::StoreUnavailable,
            "Workers KV takes one write a second for each key: use D1 or a Durable Object for keys that change more often",
        ),
        false => Error::unknown(Code::StoreUnavailable, format!("Workers KV rejected a write: {words}")),
    }
}
