//! The outcome of a swap that has no reply: it was applied, it can never be applied, or nobody knows.
//!
//! A record names the last write of each of its last writers, and a handle has one swap of a key under way at a time. So:
//! - its write is named: it was applied, whoever wrote after it;
//! - the version is still the one that it expected: it may still arrive. The same state is written again as a *fence*, with a new version,
//!   after which the late write finds another version than it expects. Then it is not applied;
//! - the version is another one, and the writers before it are still named (or fewer than the bound are): it would be named if it
//!   had been applied, and it cannot arrive any more;
//! - else so many others wrote that it may have been dropped from the list: unknown.

use keystead_core::{Key, Millis};

use super::drive::{Base, Sent};
use super::fault::Fault;
use super::nonce::{Nonce, random};
use super::record::Record;
use super::retry::Times;
use super::{Backend, Inner, Swapped};
use crate::bounds::WRITERS_MAX;

/// The outcome of a swap that had no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Applied,
    /// And it never will be.
    NotApplied,
    Unknown,
}

/// What a value shows about a swap that was based on another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    Settled(Settled),
    /// Nothing has changed since, so it may still arrive.
    MayArrive,
}

impl<B: Backend> Inner<B> {
    pub(super) async fn settle(&self, key: &Key, base: &Base, sent: &Sent, times: &Times) -> Settled {
        let nonce = sent.record.writers[0];
        let mut fences = Vec::new();
        let mut current = None;
        for attempt in 0.. {
            times.pause(attempt).await;
            if times.is_over() {
                break;
            }
            let reading = match current.take() {
                Some(reading) => Ok(reading),
                None => self.read(key, times).await,
            };
            let Ok(reading) = reading else { continue };
            match evidence(base, nonce, &fences, &reading) {
                Evidence::Settled(Settled::Applied) if self.has(Fault::LastWriterOnly) => {
                    let last = reading.record.is_some_and(|record| record.writers[0] == nonce);
                    return if last { Settled::Applied } else { Settled::NotApplied };
                }
                Evidence::Settled(settled) => return settled,
                Evidence::MayArrive if self.has(Fault::NoFence) => return Settled::NotApplied,
                Evidence::MayArrive => {}
            }
            let now = reading.now.unwrap_or_else(|| self.clock.now());
            let fence = self.fence(&reading, now);
            fences.push(fence.record.writers[0]);
            match self.swap(key, base.token, &fence, times).await {
                Ok(Swapped::Done(_)) => return Settled::NotApplied,
                Ok(Swapped::Conflict(Some(reading))) => current = Base::of(reading).ok(),
                // Not known either: it is found out with the next read.
                Ok(Swapped::Conflict(None)) | Err(_) => {}
            }
        }
        Settled::Unknown
    }

    /// The same state under a new version. A key that is absent gets a tombstone.
    fn fence(&self, base: &Base, now: Millis) -> Sent {
        let before = base.record.as_ref();
        let live = before.filter(|record| record.is_live(now));
        let (state, expires_at) = match live {
            Some(record) => (record.state.clone(), record.expires_at),
            None => (None, Millis::NEVER),
        };
        Sent { record: Record::after(before, random(), self.nonces.next(), state, expires_at), now }
    }
}

fn evidence(base: &Base, nonce: Nonce, fences: &[Nonce], current: &Base) -> Evidence {
    let Some(record) = &current.record else {
        return match base.record {
            None => Evidence::MayArrive,
            // Something else has removed it, and perhaps after it was written.
            Some(_) => Evidence::Settled(Settled::Unknown),
        };
    };
    if record.writers.contains(&nonce) {
        return Evidence::Settled(Settled::Applied);
    }
    if current.token == base.token {
        return Evidence::MayArrive;
    }
    // A fence replaces exactly the version that the swap expected.
    let fenced = record.writers.iter().any(|writer| fences.contains(writer));
    let before = base.record.as_ref().map_or(&[][..], |record| &record.writers);
    let named_before = record.writers.iter().any(|writer| before.contains(writer));
    match fenced || named_before || record.writers.len() < WRITERS_MAX {
        true => Evidence::Settled(Settled::NotApplied),
        false => Evidence::Settled(Settled::Unknown),
    }
}
