//! Effects: a change as a small absolute fact about one key, with the key's version and the shard's revision.
//!
//! It touches nothing. Invariant: effects are the source of truth. Applied in the order of their revisions, once or again
//! from any earlier point, they result in the same keyspace; they depend neither on a clock nor on the command that made them.

mod codec;
mod stream;

use keystead_core::{Millis, Revision, Version};

use crate::Bytes;
use crate::value::Kind;

pub use codec::{Decoder, encode};
pub use stream::{ConsumerFact, PendingFact, StreamFact};

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The key's id in the table, and its row id in the archive. It is reused after the key is deleted.
    pub id: u32,
    /// The key.
    pub key: Bytes,
    /// The key's version after the change that this effect is a part of. Parts of one change share it.
    pub version: Version,
    /// The shard's revision. Every effect has its own.
    pub revision: Revision,
    /// What is true from now on.
    pub fact: Fact,
}

impl Effect {
    /// At least as many bytes as its encoding takes.
    #[must_use]
    pub fn size_hint(&self) -> usize {
        const FIXED: usize = 96;
        let payload = match &self.fact {
            Fact::Deleted | Fact::Flushed | Fact::Expiry(_) | Fact::Fresh(_) | Fact::ListDeleted(_) => 0,
            Fact::Str(bytes) | Fact::Json(bytes) | Fact::State(bytes) => bytes.len(),
            Fact::HashField { field, value, .. } => field.len() + value.len(),
            Fact::ListAt { value, .. } => value.len(),
            Fact::HashFieldDeleted(bytes) | Fact::SetMember(bytes) | Fact::SetMemberDeleted(bytes) => {
                bytes.len()
            }
            Fact::ZMember { member: bytes, .. } | Fact::ZMemberDeleted(bytes) => bytes.len(),
            Fact::Stream(fact) => fact.size_hint(),
        };
        FIXED + self.key.len() + payload
    }
}

/// What is true of a key from now on.
///
/// A fact about an element of a collection creates the key. Only [`Fact::Deleted`] and [`Fact::Flushed`] end a key, also
/// one whose last element was removed. Facts about content leave the expiry as it is; a new key never expires.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The key is deleted, with everything in it.
    Deleted,
    /// Every key of the shard is deleted. Its effect carries no key.
    Flushed,
    /// The key's expiry; [`Millis::NEVER`] when it does not expire.
    Expiry(Millis),
    /// The key is an empty value of this kind, which replaces any earlier value.
    Fresh(Kind),
    /// The string.
    Str(Bytes),
    /// The JSON document, as text.
    Json(Bytes),
    /// The state of a step, as JSON text.
    State(Bytes),
    /// A field of a hash.
    HashField {
        /// Its name.
        field: Bytes,
        /// Its value.
        value: Bytes,
        /// When the field itself expires.
        expires_at: Millis,
    },
    /// A field of a hash is deleted.
    HashFieldDeleted(Bytes),
    /// An element of a list. Positions order elements; an element keeps its position.
    ListAt {
        /// Its position.
        pos: i64,
        /// Its value.
        value: Bytes,
    },
    /// An element of a list is deleted.
    ListDeleted(i64),
    /// A member of a set.
    SetMember(Bytes),
    /// A member of a set is deleted.
    SetMemberDeleted(Bytes),
    /// A member of a sorted set.
    ZMember {
        /// The member.
        member: Bytes,
        /// Its score.
        score: f64,
    },
    /// A member of a sorted set is deleted.
    ZMemberDeleted(Bytes),
    /// A fact about a stream.
    Stream(StreamFact),
}
