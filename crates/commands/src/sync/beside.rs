//! What is stored beside a document: its stamps, and a fingerprint of its text, by which a write of another API is detected. Pure.
//!
//! It expires when all its stamps are older than any mutation that is still accepted, and with it the last tombstones.

use keystead_core::Millis;
use serde::{Deserialize, Serialize};

use super::fingerprint;
use super::merge::{Clocks, FieldClock};
use super::stamp::Stamp;
use crate::bounds::SYNC_RETENTION_MS;

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The fingerprint of the document's text; nothing: there is none.
    document: Option<u64>,
    whole: Option<Stamp>,
    is_deleted: bool,
    /// A list, because a member may have any name.
    fields: Vec<(String, Stamp, bool)>,
}

/// What is known beside a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The stamps.
    pub clocks: Clocks,
    /// The fingerprint of the document that they belong to; nothing: there was none.
    pub document: Option<u64>,
}

impl Beside {
    /// Reads it; nothing: this is something else.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Beside> {
        let Record { document, whole, is_deleted, fields } = serde_json::from_slice(text).ok()?;
        let fields =
            fields.into_iter().map(|(name, stamp, is_deleted)| (name, FieldClock { stamp, is_deleted }));
        Some(Beside { clocks: Clocks { whole, is_deleted, fields: fields.collect() }, document })
    }

    /// Its text, and when it expires; nothing if nothing has to be stored.
    #[must_use]
    pub fn text(clocks: &Clocks, document: Option<&[u8]>) -> Option<(Vec<u8>, Millis)> {
        let newest = clocks.newest()?;
        let field =
            |(name, field): (&String, &FieldClock)| (name.clone(), field.stamp.clone(), field.is_deleted);
        let record = Record {
            document: document.map(fingerprint),
            whole: clocks.whole.clone(),
            is_deleted: clocks.is_deleted,
            fields: clocks.fields.iter().map(field).collect(),
        };
        // One more, because a stamp of exactly this age still counts.
        let until = newest.ms.saturating_add(SYNC_RETENTION_MS).saturating_add(1);
        Some((serde_json::to_vec(&record).ok()?, Millis(until)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_may_have_any_name() {
        let stamp = Stamp { ms: 7, client: "a".into(), id: u64::MAX };
        let mut clocks = Clocks::unknown(true);
        for name in ["$serde_json::private::Number", "$serde_json::private::RawValue", "", "\0\u{ffff}"] {
            clocks
                .fields
                .insert(name.to_owned(), FieldClock { stamp: stamp.clone(), is_deleted: name.is_empty() });
        }
        let (text, until) = Beside::text(&clocks, Some(b"{}")).unwrap();
        assert_eq!(until, Millis(8 + SYNC_RETENTION_MS));
        assert_eq!(Beside::parse(&text), Some(Beside { clocks, document: Some(fingerprint(b"{}")) }));
        assert_eq!(Beside::text(&Clocks::unknown(true), None), None);
        for other in [&b"1"[..], b"{}", b"[null,null,true,[]]x", b"\xff"] {
            assert_eq!(Beside::parse(other), None);
        }
    }
}
