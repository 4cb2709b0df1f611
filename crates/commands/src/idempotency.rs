//! Idempotent requests: the response to the first request is stored with its changes, in one atomic step.
//!
//! It touches the keyspace. An idempotency key has one home shard, so that a second request with the same key is detected
//! whatever shards its data is on: the key is claimed there first if the change happens elsewhere. The response is stored in a key
//! of its own on the shard of the change, and expires after [`IDEMPOTENCY_RESPONSE_MS`]. It is an ordinary string that clients can read or
//! delete: a line of JSON with the fingerprint of the request and the status, then the body as it was sent.

use keystead_core::{Millis, Result, ShardId, key};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace, Miss};
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3Default;

use crate::bounds::{IDEMPOTENCY_RESPONSE_BYTES_MAX, IDEMPOTENCY_RESPONSE_MS};

/// The prefix of such keys.
pub const PREFIX: &str = "keystead:once:";

/// Whether a key holds such a record: it is not a user's document.
#[must_use]
pub fn is_record(key: &[u8]) -> bool {
    key.starts_with(PREFIX.as_bytes())
}

/// A request that must not run twice.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    /// The idempotency key that the client sent.
    pub name: Bytes,
    /// The fingerprint that distinguishes it from other requests with the same key.
    pub fingerprint: u64,
    /// On a node of a cluster: the slot of the change, with which the response moves to other nodes.
    pub slot: Option<u16>,
}

/// A response that can be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The status.
    pub status: u16,
    /// The version in its header, if any.
    pub version: Option<u64>,
    /// The body. Its content type follows from the request, which is the same whenever this is sent.
    pub body: Vec<u8>,
}

impl StoredResponse {
    /// Whether it is too large to be stored.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.body.len() > IDEMPOTENCY_RESPONSE_BYTES_MAX
    }
}

/// What is stored for an idempotency key.
enum Record {
    Nothing,
    /// This request has claimed the key and has not run on this shard.
    Claimed,
    Done(StoredResponse),
    /// Another request has the key, or the value was not written by this module.
    Other,
}

/// The result of claiming an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This request has claimed it now.
    New,
    /// This request had claimed it before.
    Own,
    /// Another request has it.
    Other,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it may run.
    New,
    /// It has run, and this was the response.
    Again(StoredResponse),
    /// Another request used this key.
    Other,
}

impl IdempotencyKey {
    /// The request with this key that consists of these parts.
    #[must_use]
    pub fn new(name: &[u8], parts: &[&[u8]]) -> IdempotencyKey {
        let mut hash = Xxh3Default::new();
        for part in parts {
            // Including the lengths, so that other splits of the same bytes differ.
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        IdempotencyKey { name: Bytes::from(name), fingerprint: hash.digest(), slot: None }
    }

    /// The same, for a change in a slot of a cluster: its response is stored in that slot, and only requests for keys of that slot are
    /// detected as others with the same key.
    #[must_use]
    pub fn in_slot(self, slot: u16) -> IdempotencyKey {
        IdempotencyKey { slot: Some(slot), ..self }
    }

    /// The home shard of the key.
    #[must_use]
    pub fn home(&self, shards: usize) -> ShardId {
        match self.slot {
            Some(slot) => key::shard_of_slot(slot, shards),
            None => key::shard_of(&self.name, shards),
        }
    }

    /// Claims the key for this request, unless another has it.
    ///
    /// # Errors
    /// As [`look`](IdempotencyKey::look) and [`keep`](IdempotencyKey::keep).
    pub fn claim(&self, keys: &mut Keyspace, shards: usize, now: Millis) -> Result<Claim> {
        let home = self.home(shards);
        match self.read(keys, home, shards, now)? {
            Record::Nothing => self.write(keys, home, shards, None, now).map(|()| Claim::New),
            Record::Claimed | Record::Done(_) => Ok(Claim::Own),
            Record::Other => Ok(Claim::Other),
        }
    }

    /// Releases a key that this request claimed without any effect: another request may use it.
    ///
    /// # Errors
    /// As [`look`](IdempotencyKey::look), and when the keyspace returns an error.
    pub fn release(&self, keys: &mut Keyspace, shards: usize, now: Millis) -> Result<()> {
        let home = self.home(shards);
        if let Record::Claimed = self.read(keys, home, shards, now)? {
            keys.delete(&self.key(home, shards), now)?;
        }
        Ok(())
    }

    /// The key of its response on `shard`, of `shards` shards.
    fn key(&self, shard: ShardId, shards: usize) -> Vec<u8> {
        let is_tag = |tag: &String| match self.slot {
            Some(slot) => key::slot(tag.as_bytes()) == slot,
            None => key::shard_of(tag.as_bytes(), shards) == shard,
        };
        let tag = (0u32..).map(|n| n.to_string()).find(is_tag);
        let mut key = format!("{PREFIX}{{{}}}:", tag.unwrap_or_default()).into_bytes();
        key.extend_from_slice(&self.name);
        key
    }

    /// Whether it has run already on `shard`, of `shards` shards.
    ///
    /// # Errors
    /// When the key of its response cannot be read.
    pub fn look(&self, keys: &mut Keyspace, shard: ShardId, shards: usize, now: Millis) -> Result<Known> {
        Ok(match self.read(keys, shard, shards, now)? {
            Record::Nothing | Record::Claimed => Known::New,
            Record::Done(response) => Known::Again(response),
            Record::Other => Known::Other,
        })
    }

    fn read(&self, keys: &mut Keyspace, shard: ShardId, shards: usize, now: Millis) -> Result<Record> {
        match keys.str(&self.key(shard, shards), now) {
            Ok(None) => Ok(Record::Nothing),
            Ok(Some(note)) => Ok(self.parse_record(note).unwrap_or(Record::Other)),
            Err(Miss::WrongType(_)) => Ok(Record::Other),
            Err(Miss::Failed(error)) => Err(error),
        }
    }

    /// What a record says, if it is of this request.
    fn parse_record(&self, note: &[u8]) -> Option<Record> {
        let end = note.iter().position(|byte| *byte == b'\n')?;
        let head: Value = serde_json::from_slice(&note[..end]).ok()?;
        if head["fingerprint"].as_str()? != self.fingerprint.to_string() {
            return None;
        }
        let Some(status) = head["status"].as_u64() else { return Some(Record::Claimed) };
        let (status, version) = (u16::try_from(status).ok()?, head["version"].as_u64());
        Some(Record::Done(StoredResponse { status, version, body: note[end + 1..].to_vec() }))
    }

    /// Stores the response on `shard`, of `shards` shards.
    ///
    /// # Errors
    /// When the key is too long, the memory bound is reached, or the keyspace returns an error.
    pub fn keep(
        &self,
        keys: &mut Keyspace,
        shard: ShardId,
        shards: usize,
        response: &StoredResponse,
        now: Millis,
    ) -> Result<()> {
        self.write(keys, shard, shards, Some(response), now)
    }

    fn write(
        &self,
        keys: &mut Keyspace,
        shard: ShardId,
        shards: usize,
        response: Option<&StoredResponse>,
        now: Millis,
    ) -> Result<()> {
        keys.check_memory()?;
        let mut head = json!({ "fingerprint": self.fingerprint.to_string() });
        if let Some(StoredResponse { status, version, .. }) = response {
            (head["status"], head["version"]) = (json!(status), json!(version));
        }
        let body = response.map_or(&[][..], |response| &response.body);
        let note = [head.to_string().as_bytes(), b"\n", body].concat();
        let expire = Expire::At(Millis(now.0.saturating_add(IDEMPOTENCY_RESPONSE_MS)));
        keys.set_str(&self.key(shard, shards), Bytes::from(note), expire, now)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const NOW: Millis = Millis(1_000_000);

    #[test]
    fn the_first_response_is_stored_for_a_day() {
        let mut keys = testing::keyspace();
        let idempotency_key =
            IdempotencyKey { name: Bytes::from(b"n".as_slice()), fingerprint: u64::MAX, slot: None };
        let response = StoredResponse { status: 201, version: Some(1), body: b"\n{}\n\0\xff".to_vec() };
        assert_eq!(idempotency_key.look(&mut keys, ShardId(0), 1, NOW).unwrap(), Known::New);
        idempotency_key.keep(&mut keys, ShardId(0), 1, &response, NOW).unwrap();
        assert_eq!(idempotency_key.look(&mut keys, ShardId(0), 1, NOW).unwrap(), Known::Again(response));
        let other = IdempotencyKey { fingerprint: 1, ..idempotency_key.clone() };
        assert_eq!(other.look(&mut keys, ShardId(0), 1, NOW).unwrap(), Known::Other);
        let later = Millis(NOW.0 + IDEMPOTENCY_RESPONSE_MS);
        assert_eq!(idempotency_key.look(&mut keys, ShardId(0), 1, later).unwrap(), Known::New);
    }

    #[test]
    fn a_key_is_claimed_by_one_request() {
        let mut keys = testing::keyspace();
        let idempotency_key = IdempotencyKey::new(b"n", &[b"PUT", b"/kv/a"]);
        assert_eq!(idempotency_key.claim(&mut keys, 4, NOW).unwrap(), Claim::New);
        assert_eq!(idempotency_key.claim(&mut keys, 4, NOW).unwrap(), Claim::Own);
        let other = IdempotencyKey::new(b"n", &[b"PUT", b"/kv/b"]);
        assert_eq!(other.claim(&mut keys, 4, NOW).unwrap(), Claim::Other);
        assert_eq!(other.claim(&mut keys, 4, Millis(NOW.0 + IDEMPOTENCY_RESPONSE_MS)).unwrap(), Claim::New);
    }

    #[test]
    fn a_key_is_released_by_its_owner_and_only_before_the_response() {
        let mut keys = testing::keyspace();
        let (idempotency_key, other) =
            (IdempotencyKey::new(b"n", &[b"1"]), IdempotencyKey::new(b"n", &[b"2"]));
        assert_eq!(idempotency_key.claim(&mut keys, 1, NOW).unwrap(), Claim::New);
        other.release(&mut keys, 1, NOW).unwrap();
        assert_eq!(other.claim(&mut keys, 1, NOW).unwrap(), Claim::Other);
        idempotency_key.release(&mut keys, 1, NOW).unwrap();
        assert_eq!(other.claim(&mut keys, 1, NOW).unwrap(), Claim::New);
        let response = StoredResponse { status: 200, version: None, body: b"x".to_vec() };
        other.keep(&mut keys, ShardId(0), 1, &response, NOW).unwrap();
        other.release(&mut keys, 1, NOW).unwrap();
        assert_eq!(other.look(&mut keys, ShardId(0), 1, NOW).unwrap(), Known::Again(response));
    }

    /// A client that claimed a key and crashed before the request ran may send it again.
    #[test]
    fn a_claim_is_not_a_response() {
        let mut keys = testing::keyspace();
        let idempotency_key = IdempotencyKey::new(b"n", &[b"PUT"]);
        assert_eq!(idempotency_key.claim(&mut keys, 1, NOW).unwrap(), Claim::New);
        assert_eq!(idempotency_key.look(&mut keys, ShardId(0), 1, NOW).unwrap(), Known::New);
        assert_eq!(
            IdempotencyKey::new(b"n", &[b"PATCH"]).look(&mut keys, ShardId(0), 1, NOW).unwrap(),
            Known::Other
        );
    }

    #[test]
    fn a_foreign_value_counts_as_another_request() {
        let idempotency_key = IdempotencyKey::new(b"n", &[b"PUT"]);
        for text in ["", "\n", "{}\n", "null\nx", "{\"fingerprint\":1}\n", "[1]"] {
            let mut keys = testing::keyspace();
            let key = idempotency_key.key(ShardId(0), 1);
            keys.set_str(&key, Bytes::from(text.as_bytes()), Expire::Keep, NOW).unwrap();
            assert_eq!(idempotency_key.look(&mut keys, ShardId(0), 1, NOW).unwrap(), Known::Other, "{text}");
            assert_eq!(idempotency_key.claim(&mut keys, 1, NOW).unwrap(), Claim::Other, "{text}");
        }
    }

    #[test]
    fn in_a_cluster_the_response_is_stored_in_the_slot_of_the_change() {
        for slot in [0, 1, 5461, 16_383] {
            let idempotency_key = IdempotencyKey::new(b"}{x", &[]).in_slot(slot);
            for shards in [1, 4] {
                let home = idempotency_key.home(shards);
                let name = idempotency_key.key(home, shards);
                assert_eq!((key::slot(&name), key::shard_of(&name, shards)), (slot, home));
            }
        }
    }

    #[test]
    fn the_response_is_stored_on_the_shard_of_the_change() {
        let idempotency_key =
            IdempotencyKey { name: Bytes::from(b"}{x".as_slice()), fingerprint: 0, slot: None };
        for shards in [1, 2, 16, 256] {
            for shard in ShardId::all(shards) {
                assert_eq!(key::shard_of(&idempotency_key.key(shard, shards), shards), shard);
            }
        }
    }
}
