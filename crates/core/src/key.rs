//! Keys: any bytes, at least one, at most [`KEY_BYTES_MAX`]. Prefixes are joined only here.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use crate::bounds::KEY_BYTES_MAX;
use crate::error::{Code, Error, Result};
use crate::ids::ShardId;
use crate::key_text;

/// A key whose length has been checked. A key of up to 64 bytes needs no allocation.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(SmallVec<[u8; 64]>);

impl Key {
    /// A key of these bytes.
    ///
    /// # Errors
    /// `bad_request` when it is empty, `too_large` when it exceeds the bound.
    #[inline]
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Key> {
        let bytes = bytes.as_ref();
        check_len(bytes.len(), bytes.len())?;
        Ok(Key(SmallVec::from_slice(bytes)))
    }

    /// The key `prefix:key`, or `key` alone when the prefix is empty.
    ///
    /// # Errors
    /// `bad_request` when `key` is empty, `too_large` when the result exceeds the bound.
    #[inline]
    pub fn join(prefix: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Key> {
        let (prefix, key) = (prefix.as_ref(), key.as_ref());
        if prefix.is_empty() {
            return Key::new(key);
        }
        check_len(key.len(), prefix.len() + 1 + key.len())?;
        Ok(Key::joined(prefix, key))
    }

    /// A function of its own, so that the key is built in the return slot: copying a key costs more than building it.
    #[inline(never)]
    fn joined(prefix: &[u8], key: &[u8]) -> Key {
        let mut joined = Key(SmallVec::new());
        joined.0.reserve_exact(prefix.len() + 1 + key.len());
        joined.0.extend_from_slice(prefix);
        joined.0.push(b':');
        joined.0.extend_from_slice(key);
        joined
    }

    /// The key as text, for stores whose keys are text: itself if it is UTF-8 without `%`; else `%` and bytes that are not UTF-8 are
    /// written `%XX`. Different keys have different texts.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        key_text::of(self)
    }

    /// The key as text, for stores whose keys are short texts: itself if it is UTF-8 without `%`; else `%` and its bytes in base64.
    #[must_use]
    pub fn short_text(&self) -> Cow<'_, str> {
        key_text::short(self)
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[inline]
fn check_len(key_len: usize, whole_len: usize) -> Result<()> {
    if key_len == 0 {
        return Err(empty());
    }
    check_size(whole_len)
}

#[cold]
fn empty() -> Error {
    Error::new(Code::BadRequest, "a key must not be empty")
}

#[cold]
fn too_large(len: usize) -> Error {
    Error::new(
        Code::TooLarge,
        format!("max key size exceeded. Limit: {KEY_BYTES_MAX} bytes, Actual: {len} bytes"),
    )
}

/// Rejects a key length over the bound.
///
/// # Errors
/// `too_large`.
#[inline]
pub fn check_size(len: usize) -> Result<()> {
    match len <= KEY_BYTES_MAX {
        true => Ok(()),
        false => Err(too_large(len)),
    }
}

/// The part of a key that decides its slot: the text inside the first `{...}` if that is not
/// empty, else all of it. Keys with the same tag are always in the same slot, as in Redis Cluster.
#[must_use]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&b| b == b'{') else {
        return key;
    };
    match key[open + 1..].iter().position(|&b| b == b'}') {
        Some(len) if len > 0 => &key[open + 1..open + 1 + len],
        _ => key,
    }
}

/// The hash slot of a key, 0 to 16383, as in Redis Cluster: CRC-16 of its [tag](hash_tag). It decides the shard, so it
/// must never change.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    hash_tag(key).iter().fold(0u16, |crc, &byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
        % 16384
}

/// The shard of a key, of `shards` shards. Keys with the same `{tag}` are on the same shard.
#[must_use]
pub fn shard_of(key: &[u8], shards: usize) -> ShardId {
    shard_of_slot(slot(key), shards)
}

/// The shard of a slot, of `shards` shards.
#[must_use]
pub fn shard_of_slot(slot: u16, shards: usize) -> ShardId {
    ShardId((usize::from(slot) * shards) >> 14)
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_joined_with_one_colon() {
        assert_eq!(Key::join("login", "ada").unwrap().as_bytes(), b"login:ada");
        assert_eq!(Key::join("", "ada").unwrap().as_bytes(), b"ada");
        assert_eq!(Key::new([0, 255, b'\n']).unwrap().as_bytes(), [0, 255, b'\n']);
    }

    #[test]
    fn empty_and_long_keys_are_rejected() {
        assert_eq!(Key::new("").unwrap_err().code(), Code::BadRequest);
        assert_eq!(Key::join("p", "").unwrap_err().code(), Code::BadRequest);
        assert!(Key::new(vec![b'x'; KEY_BYTES_MAX]).is_ok());
        let error = Key::join("p", vec![b'x'; KEY_BYTES_MAX - 1]).unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
        assert!(error.message().contains("32768"), "{error}");
    }

    #[test]
    fn the_tag_is_in_the_first_non_empty_braces() {
        for (key, tag) in [
            ("user:1", "user:1"),
            ("{user}:1", "user"),
            ("a{b}{c}", "b"),
            ("a{}{c}", "a{}{c}"),
            ("a{b", "a{b"),
            ("{{b}}", "{b"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{foo}:bar"), 12182);
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn bytes_that_are_not_text_print_escaped() {
        assert_eq!(format!("{:?}", Key::new([b'a', 0, 255]).unwrap()), "\"a\\x00\\xff\"");
    }
}
