//! What is stored for a client in a slot: its last id, and what became of its last mutations there. Pure.
//!
//! Invariant: a client that has at most [`SYNC_ITEMS_MAX`] unsettled mutations in flight, the lowest of its queue, finds the outcome of
//! each of them here when it sends them again. An id that was passed and is not here never gets an effect.

use serde::{Deserialize, Serialize};

use super::{Mutation, Settled, code};
use crate::bounds::SYNC_ITEMS_MAX;

/// The record of a client in a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientRecord {
    /// The highest id that was settled.
    pub last: u64,
    /// The last mutations, in the order of their ids.
    pub settled: Vec<Entry>,
}

/// A mutation that was settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its id.
    pub id: u64,
    /// Its fingerprint.
    pub fingerprint: u64,
    /// What became of it.
    pub settled: Settled,
}

/// What is known of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it may be applied.
    New,
    /// It was settled before.
    Settled(Settled),
    /// Its id cannot be used.
    Invalid(Settled),
}

impl ClientRecord {
    /// What is known of a mutation.
    #[must_use]
    pub fn look(&self, mutation: &Mutation) -> Known {
        if mutation.id > self.last {
            return Known::New;
        }
        match self.settled.iter().find(|entry| entry.id == mutation.id) {
            Some(entry) if entry.fingerprint == mutation.fingerprint() => {
                Known::Settled(entry.settled.clone())
            }
            Some(_) => Known::Invalid(Settled::passed(
                code::ID_REUSED,
                format!("another mutation had the id {}: ids are never used again", mutation.id),
                self.last,
            )),
            None => Known::Invalid(Settled::passed(
                code::ID_GOES_BACK,
                format!(
                    "the id {} goes back: {} was settled already, and this one is not known",
                    mutation.id, self.last
                ),
                self.last,
            )),
        }
    }

    /// Stores what became of a mutation whose id was new.
    pub fn settle(&mut self, mutation: &Mutation, settled: Settled) {
        self.last = mutation.id;
        self.settled.push(Entry { id: mutation.id, fingerprint: mutation.fingerprint(), settled });
        let excess = self.settled.len().saturating_sub(SYNC_ITEMS_MAX);
        self.settled.drain(..excess);
    }
}
