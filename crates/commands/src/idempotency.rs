//! A request that is sent twice runs once: the first answer is kept beside what it changed, in the same atomic step.
//!
//! Touches the keyspace that it is given. A name has one home among the shards, so that a second request of that name is seen
//! wherever its keys live: there it is claimed first, where the change happens elsewhere. The answer rests under a key of its
//! own on the shard of the change, which expires after [`ANSWER_KEPT_MS`]; it is an ordinary string that anybody can look at or
//! delete: a line of JSON that says what was asked and which status it had, then the body as it was sent.

use keystead_core::{Millis, Result, key};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace, Miss};
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3Default;

use crate::bounds::{ANSWER_KEPT_BYTES_MAX, ANSWER_KEPT_MS};

/// What such keys begin with.
pub const PREFIX: &str = "keystead:once:";

/// Whether a key holds such a note: it is no document of anybody's.
#[must_use]
pub fn is_note(key: &[u8]) -> bool {
    key.starts_with(PREFIX.as_bytes())
}

/// A request that must not run twice.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    /// What its sender calls it.
    pub name: Bytes,
    /// What tells it from others of that name.
    pub fingerprint: u64,
}

/// An answer that can be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The status.
    pub status: u16,
    /// The version that it tells, for its header.
    pub version: Option<u64>,
    /// The body. Its type follows from the request, which is the same whenever this is told.
    pub body: Vec<u8>,
}

impl StoredResponse {
    /// Whether it is too large to be kept.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.body.len() > ANSWER_KEPT_BYTES_MAX
    }
}

/// What rests under a name.
enum Noted {
    Nothing,
    /// The name is this request's, which has not run here.
    Claimed,
    Answered(StoredResponse),
    /// Another request's, or nothing that was written here.
    Other,
}

/// Whose a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This request's, from now on.
    New,
    /// This request's, already.
    Own,
    /// Another's.
    Other,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it may run.
    New,
    /// It has run, and this was the answer.
    Again(StoredResponse),
    /// Another request had this name.
    Other,
}

impl IdempotencyKey {
    /// The request of this name that consists of these parts.
    #[must_use]
    pub fn new(name: &[u8], parts: &[&[u8]]) -> IdempotencyKey {
        let mut hash = Xxh3Default::new();
        for part in parts {
            // With the lengths, parts cannot be cut elsewhere and give the same.
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        IdempotencyKey { name: Bytes::from(name), fingerprint: hash.digest() }
    }

    /// The shard that knows which request has this name.
    #[must_use]
    pub fn home(&self, shards: usize) -> usize {
        key::shard_of(&self.name, shards)
    }

    /// Takes the name for this request, unless another has it.
    ///
    /// # Errors
    /// As [`look`](IdempotencyKey::look) and [`keep`](IdempotencyKey::keep).
    pub fn claim(&self, keys: &mut Keyspace, shards: usize, now: Millis) -> Result<Claim> {
        let place = (self.home(shards), shards);
        match self.read(keys, place, now)? {
            Noted::Nothing => self.write(keys, place, None, now).map(|()| Claim::New),
            Noted::Claimed | Noted::Answered(_) => Ok(Claim::Own),
            Noted::Other => Ok(Claim::Other),
        }
    }

    /// Lets go of a name that this request has taken and that nothing came of: it may be given to another.
    ///
    /// # Errors
    /// As [`look`](IdempotencyKey::look), and when the keyspace refuses.
    pub fn release(&self, keys: &mut Keyspace, shards: usize, now: Millis) -> Result<()> {
        let place = (self.home(shards), shards);
        if let Noted::Claimed = self.read(keys, place, now)? {
            keys.delete(&self.key(place.0, place.1), now)?;
        }
        Ok(())
    }

    /// The key of its answer, on this shard.
    fn key(&self, shard: usize, shards: usize) -> Vec<u8> {
        let tag = (0u32..).map(|n| n.to_string()).find(|tag| key::shard_of(tag.as_bytes(), shards) == shard);
        let mut key = format!("{PREFIX}{{{}}}:", tag.unwrap_or_default()).into_bytes();
        key.extend_from_slice(&self.name);
        key
    }

    /// Whether it has run already.
    ///
    /// # Errors
    /// When the key of its answer cannot be read.
    pub fn look(&self, keys: &mut Keyspace, place: (usize, usize), now: Millis) -> Result<Known> {
        Ok(match self.read(keys, place, now)? {
            Noted::Nothing | Noted::Claimed => Known::New,
            Noted::Answered(kept) => Known::Again(kept),
            Noted::Other => Known::Other,
        })
    }

    fn read(&self, keys: &mut Keyspace, place: (usize, usize), now: Millis) -> Result<Noted> {
        match keys.str(&self.key(place.0, place.1), now) {
            Ok(None) => Ok(Noted::Nothing),
            Ok(Some(note)) => Ok(self.noted(note).unwrap_or(Noted::Other)),
            Err(Miss::WrongType(_)) => Ok(Noted::Other),
            Err(Miss::Failed(error)) => Err(error),
        }
    }

    /// What a note says, if it is this request's.
    fn noted(&self, note: &[u8]) -> Option<Noted> {
        let end = note.iter().position(|byte| *byte == b'\n')?;
        let head: Value = serde_json::from_slice(&note[..end]).ok()?;
        if head["fingerprint"].as_str()? != self.fingerprint.to_string() {
            return None;
        }
        let Some(status) = head["status"].as_u64() else { return Some(Noted::Claimed) };
        let (status, version) = (u16::try_from(status).ok()?, head["version"].as_u64());
        Some(Noted::Answered(StoredResponse { status, version, body: note[end + 1..].to_vec() }))
    }

    /// Keeps the answer.
    ///
    /// # Errors
    /// When the name is too long for a key, or the keyspace refuses.
    pub fn keep(
        &self,
        keys: &mut Keyspace,
        place: (usize, usize),
        kept: &StoredResponse,
        now: Millis,
    ) -> Result<()> {
        self.write(keys, place, Some(kept), now)
    }

    fn write(
        &self,
        keys: &mut Keyspace,
        place: (usize, usize),
        kept: Option<&StoredResponse>,
        now: Millis,
    ) -> Result<()> {
        let mut head = json!({ "fingerprint": self.fingerprint.to_string() });
        if let Some(StoredResponse { status, version, .. }) = kept {
            (head["status"], head["version"]) = (json!(status), json!(version));
        }
        let body = kept.map_or(&[][..], |kept| &kept.body);
        let note = [head.to_string().as_bytes(), b"\n", body].concat();
        let expire = Expire::At(Millis(now.0.saturating_add(ANSWER_KEPT_MS)));
        keys.set_str(&self.key(place.0, place.1), Bytes::from(note), expire, now)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000_000);

    #[test]
    fn the_first_answer_is_kept_for_a_day() {
        let mut keys = Keyspace::in_memory();
        let idempotency_key = IdempotencyKey { name: Bytes::from(b"n".as_slice()), fingerprint: u64::MAX };
        let kept = StoredResponse { status: 201, version: Some(1), body: b"\n{}\n\0\xff".to_vec() };
        assert_eq!(idempotency_key.look(&mut keys, (0, 1), NOW).unwrap(), Known::New);
        idempotency_key.keep(&mut keys, (0, 1), &kept, NOW).unwrap();
        assert_eq!(idempotency_key.look(&mut keys, (0, 1), NOW).unwrap(), Known::Again(kept));
        let other = IdempotencyKey { fingerprint: 1, ..idempotency_key.clone() };
        assert_eq!(other.look(&mut keys, (0, 1), NOW).unwrap(), Known::Other);
        let later = Millis(NOW.0 + ANSWER_KEPT_MS);
        assert_eq!(idempotency_key.look(&mut keys, (0, 1), later).unwrap(), Known::New);
    }

    #[test]
    fn a_name_is_claimed_by_one_request() {
        let mut keys = Keyspace::in_memory();
        let idempotency_key = IdempotencyKey::new(b"n", &[b"PUT", b"/kv/a"]);
        assert_eq!(idempotency_key.claim(&mut keys, 4, NOW).unwrap(), Claim::New);
        assert_eq!(idempotency_key.claim(&mut keys, 4, NOW).unwrap(), Claim::Own);
        let other = IdempotencyKey::new(b"n", &[b"PUT", b"/kv/b"]);
        assert_eq!(other.claim(&mut keys, 4, NOW).unwrap(), Claim::Other);
        assert_eq!(other.claim(&mut keys, 4, Millis(NOW.0 + ANSWER_KEPT_MS)).unwrap(), Claim::New);
    }

    #[test]
    fn a_name_is_let_go_of_by_who_has_it_and_only_before_the_answer() {
        let mut keys = Keyspace::in_memory();
        let (idempotency_key, other) =
            (IdempotencyKey::new(b"n", &[b"1"]), IdempotencyKey::new(b"n", &[b"2"]));
        assert_eq!(idempotency_key.claim(&mut keys, 1, NOW).unwrap(), Claim::New);
        other.release(&mut keys, 1, NOW).unwrap();
        assert_eq!(other.claim(&mut keys, 1, NOW).unwrap(), Claim::Other);
        idempotency_key.release(&mut keys, 1, NOW).unwrap();
        assert_eq!(other.claim(&mut keys, 1, NOW).unwrap(), Claim::New);
        let kept = StoredResponse { status: 200, version: None, body: b"x".to_vec() };
        other.keep(&mut keys, (0, 1), &kept, NOW).unwrap();
        other.release(&mut keys, 1, NOW).unwrap();
        assert_eq!(other.look(&mut keys, (0, 1), NOW).unwrap(), Known::Again(kept));
    }

    /// Whoever claimed a name and died before it ran may run when it comes again.
    #[test]
    fn a_claim_is_no_answer() {
        let mut keys = Keyspace::in_memory();
        let idempotency_key = IdempotencyKey::new(b"n", &[b"PUT"]);
        assert_eq!(idempotency_key.claim(&mut keys, 1, NOW).unwrap(), Claim::New);
        assert_eq!(idempotency_key.look(&mut keys, (0, 1), NOW).unwrap(), Known::New);
        assert_eq!(
            IdempotencyKey::new(b"n", &[b"PATCH"]).look(&mut keys, (0, 1), NOW).unwrap(),
            Known::Other
        );
    }

    #[test]
    fn what_somebody_else_put_there_is_another_request() {
        let idempotency_key = IdempotencyKey::new(b"n", &[b"PUT"]);
        for text in ["", "\n", "{}\n", "null\nx", "{\"fingerprint\":1}\n", "[1]"] {
            let mut keys = Keyspace::in_memory();
            let key = idempotency_key.key(0, 1);
            keys.set_str(&key, Bytes::from(text.as_bytes()), Expire::Keep, NOW).unwrap();
            assert_eq!(idempotency_key.look(&mut keys, (0, 1), NOW).unwrap(), Known::Other, "{text}");
            assert_eq!(idempotency_key.claim(&mut keys, 1, NOW).unwrap(), Claim::Other, "{text}");
        }
    }

    #[test]
    fn the_answer_lives_on_the_shard_of_the_change() {
        let idempotency_key = IdempotencyKey { name: Bytes::from(b"}{x".as_slice()), fingerprint: 0 };
        for shards in [1, 2, 16, 256] {
            for shard in 0..shards {
                assert_eq!(key::shard_of(&idempotency_key.key(shard, shards), shards), shard);
            }
        }
    }
}
