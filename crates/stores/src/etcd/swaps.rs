//! Swaps: a transaction that compares the mod revision of a key. Those of several keys are transactions inside one.

use keystead_core::{Code, Error, Outcome, Result};
use serde_json::{Value, json};

use super::lease::Leases;
use super::wire::{Header, Range, Wire};
use crate::bounds::ETCD_GATHERED_BYTES_MAX;
use crate::cas::{Swapped, VersionToken};
use crate::copied::copy;
use crate::gather::Carrier;

pub(super) struct Swaps {
    pub(super) wire: Wire,
    pub(super) leases: Leases,
}

/// A swap; its key and value are in base64.
pub(super) struct KeySwap {
    pub(super) key: String,
    pub(super) expected: u128,
    pub(super) value: String,
    pub(super) lease: u64,
}

#[derive(serde::Deserialize)]
struct Txn {
    header: Header,
    #[serde(flatten)]
    result: Compared,
}

/// The result of a transaction, also of one inside another.
#[derive(serde::Deserialize)]
struct Compared {
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<Response>,
}

#[derive(serde::Deserialize)]
struct Response {
    response_range: Option<Range>,
    response_txn: Option<Compared>,
}

impl KeySwap {
    fn bytes(&self) -> usize {
        // The key is three times in a transaction.
        3 * self.key.len() + self.value.len()
    }

    fn transaction(&self) -> Value {
        let KeySwap { key, expected, value, lease } = self;
        json!({
            "compare": [{"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": expected.to_string()}],
            "success": [{"request_put": {"key": key, "value": value, "lease": lease.to_string()}}],
            "failure": [{"request_range": {"key": key}}],
        })
    }
}

impl Carrier for Swaps {
    type Call = KeySwap;
    type Reply = Swapped;

    async fn send(&self, swaps: Vec<KeySwap>) -> Vec<Result<Swapped>> {
        let mut replies = Vec::with_capacity(swaps.len());
        let mut rest = &swaps[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|swap| {
                bytes += swap.bytes();
                bytes <= ETCD_GATHERED_BYTES_MAX
            });
            let (together, others) = rest.split_at(fits.count().max(1));
            rest = others;
            match self.swap(together).await {
                Ok(swapped) => replies.extend(swapped),
                // What is wrong with one, such as a right, is not wrong with the others.
                Err(error) if together.len() > 1 && error.outcome() == Outcome::NotApplied => {
                    for one in together.chunks(1) {
                        replies.push(
                            self.swap(one)
                                .await
                                .and_then(|mut one| one.pop().unwrap_or_else(|| Err(missing()))),
                        );
                    }
                }
                Err(error) => replies.extend(together.iter().map(|_| Err(copy(&error)))),
            }
        }
        replies
    }
}

impl Swaps {
    async fn swap(&self, swaps: &[KeySwap]) -> Result<Vec<Result<Swapped>>> {
        let request = match swaps {
            [swap] => swap.transaction(),
            _ => {
                let each = swaps.iter().map(|swap| json!({"request_txn": swap.transaction()}));
                json!({"success": each.collect::<Vec<_>>()})
            }
        };
        let Txn { header, result } = match self.wire.call("/v3/kv/txn", &request).await {
            Ok(txn) => txn,
            Err(error) if error.code() == Code::Gone => {
                // A lease has ended: the transaction was rejected, and the next ones get other leases.
                swaps.iter().for_each(|swap| self.leases.forget(swap.lease));
                return Ok(swaps.iter().map(|_| Ok(Swapped::Conflict(None))).collect());
            }
            Err(error) => return Err(error),
        };
        let version = VersionToken(header.revision.into());
        if let [_] = swaps {
            return Ok(vec![result.swapped(version)]);
        }
        let mut results = result.responses.into_iter().map(|response| response.response_txn);
        let swapped = |_| match results.next().flatten() {
            Some(result) => result.swapped(version),
            None => Err(missing()),
        };
        Ok(swaps.iter().map(swapped).collect())
    }
}

impl Compared {
    /// What is written in one request has one revision.
    fn swapped(self, version: VersionToken) -> Result<Swapped> {
        if self.succeeded {
            return Ok(Swapped::Done(version));
        }
        let current = self.responses.into_iter().find_map(|response| response.response_range);
        Ok(Swapped::Conflict(Some(current.ok_or_else(missing)?.reading()?)))
    }
}

fn missing() -> Error {
    Error::unknown(Code::StoreUnavailable, "the etcd server sent no result of a swap")
}
