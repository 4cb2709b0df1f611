//! Offline sync: mutations of documents that clients made some time ago. It touches the keyspace.
//!
//! | To find                                                | open           |
//! |--------------------------------------------------------|----------------|
//! | which of two mutations wins; clocks that are wrong     | [`stamp`]      |
//! | what mutations make of a document, in any order        | [`merge`]      |
//! | what is stored beside a document                       | [`beside`]     |
//! | what is stored for a client: the last ids, the outcomes | [`client`]    |
//! | the keys of both                                       | [`names`]      |
//! | one request on the keys of a shard                     | [`apply`]      |
//!
//! Invariants: the effect of a mutation, its clock and its id are one atomic step, in the slot of the document, so a mutation that is
//! sent again changes nothing, and all of it moves together to another node. The document is plain JSON, which other commands read
//! and write. A mutation that loses is reported with what won.

pub mod apply;
pub mod beside;
pub mod client;
pub mod merge;
pub mod names;
pub mod stamp;
#[cfg(test)]
mod tests;

use keystead_model::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// A change of a document that a client made.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// Ascends with every mutation of the client.
    pub id: u64,
    /// The document.
    pub key: Bytes,
    /// What it changes.
    pub edit: Edit,
    /// When the client made it, by its own clock, in milliseconds.
    pub ts: u64,
    /// It only applies to this version of the document; 0: to none.
    pub if_version: Option<u64>,
    /// The version of the document that the client saw; 0: none.
    pub seen: Option<u64>,
}

/// What a mutation changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// The whole document.
    Put(Value),
    /// The whole document is deleted.
    Delete,
    /// One member of it.
    SetField(String, Value),
    /// One member is deleted.
    DeleteField(String),
}

impl Edit {
    /// The member that it changes, if it is only one.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Edit::Put(_) | Edit::Delete => None,
            Edit::SetField(field, _) | Edit::DeleteField(field) => Some(field),
        }
    }
}

impl Mutation {
    /// Distinguishes it from another mutation with the same id.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3Default::new();
        let mut part = |bytes: &[u8]| {
            // Including the lengths, so that other splits of the same bytes differ.
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(&self.key);
        match &self.edit {
            Edit::Put(value) => [&b"put"[..], value.to_string().as_bytes()].map(&mut part),
            Edit::Delete => [&b"delete"[..], b""].map(&mut part),
            Edit::SetField(field, value) => {
                part(b"field");
                [field.as_bytes(), value.to_string().as_bytes()].map(&mut part)
            }
            Edit::DeleteField(field) => [&b"no field"[..], field.as_bytes()].map(&mut part),
        };
        part(format!("{} {:?} {:?}", self.ts, self.if_version, self.seen).as_bytes());
        hash.digest()
    }
}

/// The fingerprint of the text of a document.
#[must_use]
pub fn fingerprint(text: &[u8]) -> u64 {
    xxh3_64(text)
}

/// What became of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It changed the document.
    Applied,
    /// A newer one won.
    Stale,
    /// The document has another version than it requires.
    Conflict,
    /// It can never be applied, and is settled.
    #[serde(rename = "refused")]
    Rejected,
    /// It may be sent again: nothing is settled.
    Retry,
}

impl Status {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Applied => "applied",
            Status::Stale => "stale",
            Status::Conflict => "conflict",
            Status::Rejected => "refused",
            Status::Retry => "retry",
        }
    }
}

/// Why a mutation is rejected, or may be sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Stable, for programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// The last id of the client in this slot, if that of the mutation was not greater: the next one has to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_id: Option<u64>,
}

/// The codes of reasons that are not error codes of the store.
pub mod code {
    /// An id that was passed already and is not remembered, or that does not ascend.
    pub const ID_GOES_BACK: &str = "id_goes_back";
    /// An id that another mutation had.
    pub const ID_REUSED: &str = "id_reused";
    /// The token is for another client, or the name of the client is invalid.
    pub const UNKNOWN_CLIENT: &str = "unknown_client";
    /// The key is outside of the token's prefix, or not a user's key.
    pub const FORBIDDEN: &str = "forbidden";
    /// It was made before the time that tombstones are kept.
    pub const TOO_OLD: &str = "too_old";
    /// The document has too many members that were changed recently.
    pub const TOO_MANY_FIELDS: &str = "too_many_fields";
    /// An earlier mutation of the same client has to be sent again first.
    pub const AFTER_RETRY: &str = "after_retry";

    /// All of them.
    pub const ALL: &[&str] =
        &[ID_GOES_BACK, ID_REUSED, UNKNOWN_CLIENT, FORBIDDEN, TOO_OLD, TOO_MANY_FIELDS, AFTER_RETRY];
}

/// What became of a mutation, as it is stored and sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The word for it.
    pub status: Status,
    /// The version of the document afterwards; none: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The time that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts: Option<u64>,
    /// Whether the time of the client was too far ahead, so that the server's was used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clamped: bool,
    /// Members that newer mutations had changed and that stayed so, when the whole document was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<Reason>>,
}

impl Settled {
    /// Without a change, for a reason.
    #[must_use]
    pub fn because(status: Status, code: &str, message: impl Into<String>) -> Settled {
        let error = Some(Box::new(Reason { code: code.to_owned(), message: message.into(), last_id: None }));
        Settled { status, version: None, ts: None, clamped: false, lost: Vec::new(), error }
    }

    /// Rejected for good.
    #[must_use]
    pub fn rejected(code: &str, message: impl Into<String>) -> Settled {
        Settled::because(Status::Rejected, code, message)
    }

    /// Rejected because its id was passed already.
    #[must_use]
    pub fn passed(code: &str, message: String, last_id: u64) -> Settled {
        let error = Some(Box::new(Reason { code: code.to_owned(), message, last_id: Some(last_id) }));
        Settled { error, ..Settled::rejected(code, "") }
    }

    /// Whether the client may remove it from its queue.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.status != Status::Retry
    }
}

/// The current state of what a mutation wanted to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Winner {
    /// The value of the member or document; nothing: there is none.
    pub value: Option<Value>,
    /// The version of the document; nothing: there is none.
    pub version: Option<u64>,
    /// Who made it and when, as far as that is known.
    pub stamp: Option<stamp::Stamp>,
}

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What is stored.
    pub settled: Settled,
    /// Whether it had been settled before, and this is what was stored.
    pub again: bool,
    /// For a stale or conflicting one.
    pub winner: Option<Winner>,
}
