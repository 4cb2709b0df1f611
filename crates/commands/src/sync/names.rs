//! The keys of what is stored for sync. Each is in the slot of the document, so that all of it changes in one step and moves together
//! to another node. Pure.
//!
//! They are ordinary strings that clients can read or delete: a line of JSON.

use std::sync::OnceLock;

use keystead_core::bounds::KEY_BYTES_MAX;
use keystead_core::key;

/// The prefix of such keys.
pub const PREFIX: &str = "keystead:sync:";

/// Slots of the keyspace.
const SLOTS: usize = 16_384;

/// The longest key of a document that can be synchronised.
pub const SYNC_KEY_BYTES_MAX: usize = KEY_BYTES_MAX - PREFIX.len() - "{1234567890}:doc:".len();

/// Whether a key holds such a record: it is not a user's document.
#[must_use]
pub fn is_record(key: &[u8]) -> bool {
    key.starts_with(PREFIX.as_bytes())
}

/// The key of what is stored beside a document.
#[must_use]
pub fn beside(document: &[u8]) -> Vec<u8> {
    of(key::slot(document), "doc", document)
}

/// The key of what is stored for a client in a slot.
#[must_use]
pub fn client(slot: u16, client: &str) -> Vec<u8> {
    of(slot, "client", client.as_bytes())
}

fn of(slot: u16, what: &str, name: &[u8]) -> Vec<u8> {
    let mut key = format!("{PREFIX}{{{}}}:{what}:", tag(slot)).into_bytes();
    key.extend_from_slice(name);
    key
}

/// The smallest number whose text is in a slot.
fn tag(slot: u16) -> u32 {
    static TAGS: OnceLock<Vec<u32>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let (mut tags, mut missing) = (vec![None; SLOTS], SLOTS);
        for number in 0u32.. {
            let tag = &mut tags[usize::from(key::slot(number.to_string().as_bytes()))];
            if tag.is_none() {
                *tag = Some(number);
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        tags.into_iter().map(Option::unwrap_or_default).collect()
    });
    tags[usize::from(slot)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_in_the_slot_of_the_document() {
        for document in [&b"a"[..], b"{tag}x", b"x{}y", b"}{", b"a}b", b"\xff{", &[b'k'; SYNC_KEY_BYTES_MAX]]
        {
            let beside = beside(document);
            assert_eq!(key::slot(&beside), key::slot(document));
            assert!(is_record(&beside) && beside.len() <= KEY_BYTES_MAX);
            assert_eq!(key::slot(&client(key::slot(document), "c{1}")), key::slot(document));
        }
        for slot in 0..SLOTS as u16 {
            assert_eq!(key::slot(tag(slot).to_string().as_bytes()), slot);
        }
    }
}
