//! Facts about streams: entries, consumer groups, consumers and what was delivered but not acknowledged.
//!
//! It touches nothing. The rare large facts are boxed, so that the common ones stay small.

use keystead_core::Millis;

use crate::Bytes;
use crate::value::stream::{Fields, Meta, StreamId};

/// What is true of a stream from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamFact {
    /// An entry.
    Entry {
        /// Its id.
        id: StreamId,
        /// Its fields and their values, in order.
        fields: Fields,
    },
    /// An entry is deleted.
    EntryDeleted(StreamId),
    /// The stream's metadata, which outlives its entries.
    Meta(Meta),
    /// A consumer group.
    Group {
        /// Its name.
        group: Bytes,
        /// The last entry that was delivered to it.
        last_id: StreamId,
        /// How many entries it has read, where that is known.
        entries_read: Option<u64>,
    },
    /// A consumer group is deleted, with its consumers and pending entries.
    GroupDeleted(Bytes),
    /// A consumer of a group.
    Consumer(Box<ConsumerFact>),
    /// A consumer is deleted, with its pending entries.
    ConsumerDeleted {
        /// The group.
        group: Bytes,
        /// The consumer.
        consumer: Bytes,
    },
    /// An entry was delivered and not acknowledged.
    Pending(Box<PendingFact>),
    /// An entry is no longer pending.
    PendingDeleted {
        /// The group.
        group: Bytes,
        /// The entry.
        id: StreamId,
    },
}

impl StreamFact {
    /// About as many bytes as its names and fields take.
    pub(super) fn size_hint(&self) -> usize {
        match self {
            StreamFact::Entry { fields, .. } => fields.as_bytes().len(),
            StreamFact::EntryDeleted(_) | StreamFact::Meta(_) => 0,
            StreamFact::Group { group, .. } | StreamFact::GroupDeleted(group) => group.len(),
            StreamFact::PendingDeleted { group, .. } => group.len(),
            StreamFact::Consumer(fact) => fact.group.len() + fact.consumer.len(),
            StreamFact::ConsumerDeleted { group, consumer } => group.len() + consumer.len(),
            StreamFact::Pending(fact) => fact.group.len() + fact.consumer.len(),
        }
    }
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerFact {
    /// The group.
    pub group: Bytes,
    /// The consumer.
    pub consumer: Bytes,
    /// When it last sent a request.
    pub seen_at: Millis,
    /// When it last received an entry, if it has.
    pub active_at: Option<Millis>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingFact {
    /// The group.
    pub group: Bytes,
    /// The entry. It may be deleted from the stream.
    pub id: StreamId,
    /// The consumer that received it last.
    pub consumer: Bytes,
    /// When that was.
    pub delivered_at: Millis,
    /// How many times it was delivered.
    pub deliveries: u64,
}
