//! What identifies a change, for targets that receive events instead of rows. Pure.
//!
//! The versions of a key begin again when it is created again, so a name has the revision, too: no two changes of a key have the same.

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::batch::{Change, Row};
use crate::layout::{Layout, Values};

/// The bytes of a digest that a name has.
const DIGEST_BYTES: usize = 16;

/// The name of a change: the same whenever the same row is sent again. It has a bounded length, whatever the key.
pub(crate) fn id(sink: &str, database: &str, row: &Row) -> String {
    let shown = digest([sink, database, &row.key]);
    format!("{}-{}-{}-{shown}", row.shard.0, row.revision.0, row.version.0)
}

/// A digest of texts, which it distinguishes.
pub(crate) fn digest<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    HEXLOWER.encode(&hash.finalize()[..DIGEST_BYTES])
}

/// What a receiver gets of a value: all of it, or the mapped fields.
pub(crate) fn data(layout: &Layout, value: &Value) -> Value {
    match &layout.values {
        Values::Whole(_) | Values::Events => value.clone(),
        Values::Fields(_) => {
            let of = |(at, name): (usize, &str)| {
                (name.to_owned(), layout.value_of(at, value).cloned().unwrap_or_default())
            };
            Value::Object(layout.columns().enumerate().map(of).collect())
        }
    }
}

/// The kind of a change.
pub(crate) fn kind(change: &Change) -> &'static str {
    match change {
        Change::Put { .. } => "put",
        Change::Delete => "delete",
        Change::Event(event) | Change::Repair(event) => event.kind.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Revision, ShardId, Version};

    use super::*;

    #[test]
    fn ids_differ_by_key_version_and_revision() {
        let row = |key: &str, version, revision| Row {
            key: key.to_owned(),
            version: Version(version),
            shard: ShardId(3),
            revision: Revision(revision),
            change: Change::Delete,
        };
        let id = |row: &Row| id("s", "d", row);
        assert_eq!(id(&row("k", 1, 2)), id(&row("k", 1, 2)));
        let all = [row("k", 1, 2), row("k", 2, 2), row("k", 1, 3), row("k2", 1, 2)];
        let ids: std::collections::BTreeSet<String> = all.iter().map(id).collect();
        assert_eq!(ids.len(), all.len());
        assert!(id(&all[0]).starts_with("3-2-1-"), "{}", id(&all[0]));
        assert_ne!(digest(["a", "bc"]), digest(["ab", "c"]));
    }
}
