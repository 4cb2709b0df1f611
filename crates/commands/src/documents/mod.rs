//! Versioned documents: reading and conditional changes. It touches the keyspace.
//!
//! | To find                              | open          |
//! |--------------------------------------|---------------|
//! | one document: get, put, patch, delete| here          |
//! | the three forms of a patch           | [`patch`]     |
//! | the same on any store                | [`state`]     |
//!
//! A string is a document, too: the JSON string of its text, if it is valid UTF-8. No other type is. Invariant: a failed change
//! changes nothing, not even a version or an expiration.

pub mod patch;
pub mod state;

use keystead_core::{Code, Error, Millis};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace, Miss};
use keystead_model::value::Kind;
use serde_json::Value;

use crate::bounds::JSON_BYTES_MAX;
use crate::families::json::document::{self, Flaw};
use crate::idempotency;
use crate::sync::names;
use patch::Patch;

/// A document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its compact text.
    pub text: Bytes,
    /// Starts at 1, grows by one with every change.
    pub version: u64,
    /// When it expires; [`Millis::NEVER`]: never.
    pub expires_at: Millis,
}

/// The condition of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Any,
    /// The document exists.
    There,
    /// It does not exist.
    Absent,
    /// It exists with one of these versions.
    Version(Vec<u64>),
}

impl Condition {
    /// Whether it holds for a key with this version, or for an absent key.
    #[must_use]
    pub fn holds(&self, current: Option<u64>) -> bool {
        match self {
            Condition::Any => true,
            Condition::There => current.is_some(),
            Condition::Absent => current.is_none(),
            Condition::Version(wanted) => current.is_some_and(|current| wanted.contains(&current)),
        }
    }
}

/// A change of a document.
#[derive(Clone, Debug)]
pub enum DocumentChange {
    /// Replace it by this compact text.
    Put(Bytes),
    /// Apply this patch.
    Patch(Patch),
    /// Delete it.
    Delete,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It was written.
    Done {
        /// The new document.
        document: Document,
        /// Whether it did not exist before.
        created: bool,
    },
    /// It was deleted.
    Deleted,
    /// There is no document to change.
    Absent,
    /// The condition does not hold; this is the current version.
    Conflict(Option<u64>),
    /// A `test` of the patch failed.
    TestFailed(Option<u64>),
    /// The patch cannot be applied to this document; why.
    Unfit(String),
    /// The result would be too deep or too large.
    Flawed(Flaw),
}

/// Whether a key holds a record of the server's own: lists and streams of documents leave it out.
#[must_use]
pub fn is_internal(key: &[u8]) -> bool {
    idempotency::is_record(key) || names::is_record(key)
}

/// The document at a key.
///
/// # Errors
/// [`Miss::WrongType`] if the key holds another type, `too_large` if it is a string that is larger than a document may be.
pub fn get(keys: &mut Keyspace, key: &[u8], now: Millis) -> Result<Option<Document>, Miss> {
    let Some(meta) = keys.meta(key, now)? else { return Ok(None) };
    let text = match meta.kind {
        Kind::Json => keys.json(key, now)?.cloned(),
        Kind::Str => keys.str(key, now)?.map(|bytes| of_string(bytes)).transpose()?,
        other => return Err(Miss::WrongType(other)),
    };
    Ok(text.map(|text| Document { text, version: meta.version.0, expires_at: meta.expires_at }))
}

/// The document that a string is: the JSON string of its text.
///
/// # Errors
/// [`Miss::WrongType`] if it is not UTF-8; `too_large` if the text, whose bytes may need six times the space in JSON, is larger than
/// a document may be.
pub fn of_string(bytes: &[u8]) -> Result<Bytes, Miss> {
    let text = std::str::from_utf8(bytes).map_err(|_| Miss::WrongType(Kind::Str))?;
    // Counted first: the text of the largest string would need gigabytes.
    if bytes.iter().map(|&byte| json_len(byte)).sum::<usize>() > JSON_BYTES_MAX {
        let words = format!("the string is over {JSON_BYTES_MAX} bytes as JSON: read it with GET");
        return Err(Error::new(Code::TooLarge, words).into());
    }
    Ok(Bytes::from(Value::from(text).to_string().into_bytes()))
}

/// Bytes that a byte of a text needs in a JSON string.
fn json_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// The version of the document at a key, whatever its size.
fn version(keys: &mut Keyspace, key: &[u8], now: Millis) -> Result<Option<u64>, Miss> {
    let Some(meta) = keys.meta(key, now)? else { return Ok(None) };
    match meta.kind {
        Kind::Json => {}
        Kind::Str if keys.str(key, now)?.is_none_or(|bytes| std::str::from_utf8(bytes).is_ok()) => {}
        other => return Err(Miss::WrongType(other)),
    }
    Ok(Some(meta.version.0))
}

/// Changes the document at a key, if the condition holds.
///
/// # Errors
/// As [`get`]; `out_of_memory` when the memory bound is reached and it is not deleted. Nothing changed.
pub fn change(
    keys: &mut Keyspace,
    key: &[u8],
    change: &DocumentChange,
    condition: &Condition,
    expire: Expire,
    now: Millis,
) -> Result<Changed, Miss> {
    // What is replaced or deleted is not read.
    let before = if let DocumentChange::Patch(_) = change { get(keys, key, now)? } else { None };
    let current = version(keys, key, now)?;
    let text = match decide(change, condition, current, before.as_ref().map(|document| &*document.text)) {
        Decided::Put(text) => text,
        Decided::Delete => {
            keys.delete(key, now)?;
            return Ok(Changed::Deleted);
        }
        Decided::Nothing(why) => return Ok(why),
    };
    keys.check_memory()?;
    let version = keys.set_json(key, text.clone(), expire, now)?.0;
    let expires_at = keys.expires_at(key, now)?.unwrap_or(Millis::NEVER);
    let document = Document { text, version, expires_at };
    Ok(Changed::Done { document, created: current.is_none() })
}

/// What a change makes of a document.
enum Decided {
    /// It gets this text.
    Put(Bytes),
    /// It is deleted.
    Delete,
    /// It stays as it is; why.
    Nothing(Changed),
}

/// Decides a change of a document that has the version `current`. Pure. Only a patch needs the text `before`.
fn decide(
    change: &DocumentChange,
    condition: &Condition,
    current: Option<u64>,
    before: Option<&[u8]>,
) -> Decided {
    if !condition.holds(current) {
        return Decided::Nothing(Changed::Conflict(current));
    }
    match change {
        DocumentChange::Delete if current.is_none() => Decided::Nothing(Changed::Absent),
        DocumentChange::Delete => Decided::Delete,
        DocumentChange::Put(text) => Decided::Put(text.clone()),
        DocumentChange::Patch(patch) => {
            patched(patch, current, before).map_or_else(Decided::Nothing, Decided::Put)
        }
    }
}

fn patched(patch: &Patch, current: Option<u64>, before: Option<&[u8]>) -> Result<Bytes, Changed> {
    let tree = before.map(document::parse).transpose().map_err(Changed::Flawed)?;
    let tree = patch.apply(tree).map_err(|error| match error {
        patch::PatchError::Absent => Changed::Absent,
        patch::PatchError::Test => Changed::TestFailed(current),
        patch::PatchError::Unfit(why) => Changed::Unfit(why),
        patch::PatchError::Flawed(flaw) => Changed::Flawed(flaw),
    })?;
    document::print(&tree).map(|text| Bytes::from(text.into_bytes())).map_err(Changed::Flawed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const NOW: Millis = Millis(1_000_000);

    fn put(keys: &mut Keyspace, text: &str, condition: &Condition) -> Changed {
        let put = DocumentChange::Put(Bytes::from(text.as_bytes()));
        change(keys, b"k", &put, condition, Expire::At(Millis::NEVER), NOW).unwrap()
    }

    fn version(changed: &Changed) -> (u64, bool) {
        match changed {
            Changed::Done { document, created } => (document.version, *created),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn versions_start_at_1_and_grow_by_one_with_every_change() {
        let mut keys = testing::keyspace();
        assert_eq!(version(&put(&mut keys, "1", &Condition::Any)), (1, true));
        assert_eq!(version(&put(&mut keys, "1", &Condition::Version(vec![1]))), (2, false));
        assert_eq!(put(&mut keys, "3", &Condition::Version(vec![1])), Changed::Conflict(Some(2)));
        assert_eq!(put(&mut keys, "3", &Condition::Absent), Changed::Conflict(Some(2)));
        assert_eq!(version(&put(&mut keys, "3", &Condition::Version(vec![7, 2]))), (3, false));
        assert_eq!(get(&mut keys, b"k", NOW).unwrap().unwrap().version, 3);
        let delete = |keys: &mut Keyspace, condition| {
            change(keys, b"k", &DocumentChange::Delete, &condition, Expire::Keep, NOW).unwrap()
        };
        assert_eq!(delete(&mut keys, Condition::Version(vec![2])), Changed::Conflict(Some(3)));
        assert_eq!(delete(&mut keys, Condition::There), Changed::Deleted);
        assert_eq!(delete(&mut keys, Condition::Any), Changed::Absent);
        assert_eq!(delete(&mut keys, Condition::Version(vec![3])), Changed::Conflict(None));
        assert_eq!(put(&mut keys, "1", &Condition::There), Changed::Conflict(None));
        assert_eq!(version(&put(&mut keys, "1", &Condition::Absent)), (1, true));
    }

    #[test]
    fn an_error_changes_nothing() {
        let mut keys = testing::keyspace();
        put(&mut keys, "[1]", &Condition::Any);
        let revision = keys.revision();
        let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
        for (text, form) in [
            (r#"[{"op":"add","path":"/x","value":1}]"#, patch::Form::Operations),
            (r#"[{"op":"test","path":"/0","value":2}]"#, patch::Form::Operations),
            (&format!(r#"[{{"op":"add","path":"/0","value":{deep}}}]"#), patch::Form::Operations),
        ] {
            let Ok(patch) = Patch::read(form, text.as_bytes()) else { continue };
            let changed =
                change(&mut keys, b"k", &DocumentChange::Patch(patch), &Condition::Any, Expire::Keep, NOW)
                    .unwrap();
            assert!(!matches!(changed, Changed::Done { .. } | Changed::Deleted), "{text}: {changed:?}");
        }
        put(&mut keys, "2", &Condition::Version(vec![9]));
        assert_eq!(keys.revision(), revision);
    }

    #[test]
    fn a_string_is_a_document_and_a_list_is_not() {
        let mut keys = testing::keyspace();
        keys.set_str(b"k", Bytes::from("a\"b".as_bytes()), Expire::Keep, NOW).unwrap();
        assert_eq!(get(&mut keys, b"k", NOW).unwrap().unwrap().text, *br#""a\"b""#);
        assert_eq!(version(&put(&mut keys, "{}", &Condition::Version(vec![1]))), (2, false));
        keys.set_str(b"b", Bytes::from(b"\xff".as_slice()), Expire::Keep, NOW).unwrap();
        assert!(matches!(get(&mut keys, b"b", NOW), Err(Miss::WrongType(Kind::Str))));
        keys.list_mut(b"l", NOW).unwrap().push_back(&Bytes::from(b"x".as_slice()));
        let put = DocumentChange::Put(Bytes::from(b"1".as_slice()));
        let error = change(&mut keys, b"l", &put, &Condition::Any, Expire::Keep, NOW);
        assert!(matches!(error, Err(Miss::WrongType(Kind::List))));
    }
}
