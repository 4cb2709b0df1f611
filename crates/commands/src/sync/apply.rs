//! The mutations of one request on the keys of a shard. It touches the keyspace.
//!
//! Invariant: when this returns, documents, stamps and ids belong together; when it returns an error, the caller rolls all of it back.
//!
//! **Writes of other APIs.** They know no stamps. Such a write is detected by the fingerprint of the document, and counts as a mutation
//! of the whole document: older than this mutation if its client has seen that version, else made now. Where nothing is stored
//! beside the document and the client does not say what it has seen, the document counts as older than all mutations.

use std::collections::{HashMap, HashSet};

use keystead_core::{Code, Error, Millis, key};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace, Miss};
use serde_json::Value;

use super::beside::Beside;
use super::client::{ClientRecord, Known};
use super::merge::{Clocks, Merged};
use super::stamp::{Counted, Stamp, counted};
use super::{Edit, Mutation, Outcome, Settled, Status, Winner, code, fingerprint, names};
use crate::bounds::{
    SYNC_CLIENT_MS, SYNC_DOCUMENT_BYTES_MAX, SYNC_FIELDS_MAX, SYNC_LOST_MAX, SYNC_STEP_BYTES_MAX,
};
use crate::documents::{self, Changed, Condition, Document, DocumentChange};
use crate::families::json::document::{self, Flaw};

/// An item of a request.
#[derive(Clone, Debug)]
pub struct Item {
    /// The mutation.
    pub mutation: Mutation,
    /// Why it can never be applied, if that was seen when it was read. Its id is settled all the same.
    pub rejected: Option<Settled>,
}

/// Applies the items of a client, whose ids ascend, to the shard of their keys: the first of them, at least one, until so much text was
/// read and written that others should have their turn. `blocked` are slots where an earlier mutation has to be sent again.
///
/// # Errors
/// When the keyspace fails in the middle of a mutation: roll back, and apply the items one by one.
pub fn apply(
    keys: &mut Keyspace,
    client: &str,
    items: &[Item],
    blocked: HashSet<u16>,
    now: Millis,
) -> Result<Vec<Outcome>, Error> {
    let mut request = Request { client: client.to_owned(), records: HashMap::new(), blocked, bytes: 0, now };
    let mut outcomes = Vec::with_capacity(items.len());
    for item in items {
        outcomes.push(request.item(keys, item)?);
        if request.bytes >= SYNC_STEP_BYTES_MAX {
            break;
        }
    }
    request.store(keys)?;
    Ok(outcomes)
}

/// The records of a client while its items are applied.
struct Request {
    client: String,
    /// By slot, with whether it changed.
    records: HashMap<u16, (ClientRecord, bool)>,
    /// Slots where a mutation has to be sent again, and so must those behind it.
    blocked: HashSet<u16>,
    /// The text of documents that was read and written.
    bytes: usize,
    now: Millis,
}

/// A document as a mutation meets it.
struct Found {
    document: Option<Document>,
    tree: Option<Value>,
    clocks: Clocks,
    /// Whether what is stored beside it is still what belongs to it.
    is_known: bool,
}

impl Request {
    fn item(&mut self, keys: &mut Keyspace, item: &Item) -> Result<Outcome, Error> {
        let Item { mutation, rejected } = item;
        let slot = key::slot(&mutation.key);
        if self.blocked.contains(&slot) {
            let words = "an earlier mutation of this slot has to be sent again first";
            return Ok(new(Settled::because(Status::Retry, code::AFTER_RETRY, words), None));
        }
        match self.record(keys, slot)?.look(mutation) {
            Known::New => {}
            Known::Settled(settled) => {
                let winner = match settled.status {
                    Status::Stale | Status::Conflict => self.winner(keys, mutation)?,
                    _ => None,
                };
                return Ok(Outcome { settled, again: true, winner });
            }
            Known::Invalid(settled) => return Ok(new(settled, None)),
        }
        let outcome = match rejected {
            Some(settled) => new(settled.clone(), None),
            None => self.mutate(keys, mutation)?,
        };
        if !outcome.settled.is_final() {
            self.blocked.insert(slot);
            return Ok(outcome);
        }
        if let Some((record, changed)) = self.records.get_mut(&slot) {
            record.settle(mutation, outcome.settled.clone());
            *changed = true;
        }
        Ok(outcome)
    }

    fn record(&mut self, keys: &mut Keyspace, slot: u16) -> Result<&ClientRecord, Error> {
        if !self.records.contains_key(&slot) {
            let text = record(keys, &names::client(slot, &self.client), self.now)?;
            // What somebody else has written there is no record.
            let record = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
            self.records.insert(slot, (record, false));
        }
        Ok(&self.records[&slot].0)
    }

    fn store(self, keys: &mut Keyspace) -> Result<(), Error> {
        let until = Expire::At(self.now.plus_ms(SYNC_CLIENT_MS));
        for (slot, (record, changed)) in self.records {
            if changed {
                let text = serde_json::to_vec(&record).map_err(|error| {
                    Error::new(Code::Internal, format!("a record cannot be written: {error}"))
                })?;
                keys.set_str(&names::client(slot, &self.client), Bytes::from(text), until, self.now)?;
            }
        }
        Ok(())
    }

    fn mutate(&mut self, keys: &mut Keyspace, mutation: &Mutation) -> Result<Outcome, Error> {
        let (ms, clamped) = match counted(mutation.ts, self.now) {
            Counted::AsSent(ms) => (ms, false),
            Counted::Clamped(ms) => (ms, true),
            Counted::TooOld => {
                let words = "it was made before the time that deletions are remembered: read the document and decide again";
                return Ok(new(Settled::rejected(code::TOO_OLD, words), None));
            }
        };
        if let Err(error) = keys.check_memory() {
            return Ok(new(failed(&error), None));
        }
        let mut found = match find(keys, &mutation.key, self.now) {
            Ok(found) => found,
            Err(settled) => return Ok(new(settled, None)),
        };
        self.bytes += found.text().map_or(0, <[u8]>::len);
        let version = found.version();
        if mutation.if_version.is_some_and(|wanted| wanted != version.unwrap_or(0)) {
            let settled = Settled { version, ts: Some(ms), clamped, ..bare(Status::Conflict) };
            let winner = found.winner(None);
            return Ok(new(settled, Some(winner)));
        }
        let ms = found.resolve(mutation, ms, self.now);
        // A client's own earlier mutation never wins, whatever its clock did in between: the ids of a client ascend.
        let ms = found.clocks.own(&self.client, mutation.edit.field()).map_or(ms, |own| own.max(ms));
        let stamp = Stamp { ms, client: self.client.clone(), id: mutation.id };
        found.clocks.drop_old(self.now);
        if self.is_full(&found.clocks, &mutation.edit) {
            let words = format!(
                "over {SYNC_FIELDS_MAX} members of the document were changed recently: write all of it"
            );
            return Ok(new(Settled::rejected(code::TOO_MANY_FIELDS, words), None));
        }
        let merged = found.clocks.merge(found.tree.clone(), mutation.edit.clone(), stamp);
        let mut settled = Settled { version, ts: Some(ms), clamped, ..bare(Status::Stale) };
        let Merged::Changed { document, mut lost } = merged else {
            let winner = found.winner(mutation.edit.field());
            store_beside(keys, &mutation.key, &found.clocks, found.text(), self.now)?;
            return Ok(new(settled, Some(winner)));
        };
        let text = match document.as_ref().map(document::print).transpose() {
            Ok(text) => text.map(|text| Bytes::from(text.into_bytes())),
            Err(flaw) => return Ok(new(too_large(&flaw), None)),
        };
        let bytes = text.as_ref().map_or(0, Bytes::len);
        self.bytes += bytes;
        if bytes > SYNC_DOCUMENT_BYTES_MAX {
            return Ok(new(too_large(&Flaw::TooLong), None));
        }
        lost.truncate(SYNC_LOST_MAX);
        settled = Settled { status: Status::Applied, lost, ..settled };
        settled.version = write(keys, mutation, text.clone(), self.now)?;
        store_beside(keys, &mutation.key, &found.clocks, text.as_deref(), self.now)?;
        Ok(new(settled, None))
    }

    fn is_full(&self, clocks: &Clocks, edit: &Edit) -> bool {
        clocks.fields.len() >= SYNC_FIELDS_MAX
            && edit.field().is_some_and(|field| !clocks.fields.contains_key(field))
    }

    /// What is there now, for a mutation that did not win.
    fn winner(&self, keys: &mut Keyspace, mutation: &Mutation) -> Result<Option<Winner>, Error> {
        // A value that is no document any more has no winner to show.
        Ok(find(keys, &mutation.key, self.now).ok().map(|found| {
            let field = mutation.if_version.is_none().then(|| mutation.edit.field()).flatten();
            found.winner(field)
        }))
    }
}

impl Found {
    fn version(&self) -> Option<u64> {
        self.document.as_ref().map(|document| document.version)
    }

    fn text(&self) -> Option<&[u8]> {
        self.document.as_ref().map(|document| &*document.text)
    }

    /// Gives a write of another API a stamp, and returns the time of the mutation.
    fn resolve(&mut self, mutation: &Mutation, ms: u64, now: Millis) -> u64 {
        let is_seen = |seen: Option<u64>| seen.map(|seen| seen == self.version().unwrap_or(0));
        // A condition that holds has seen the document.
        let seen = is_seen(mutation.if_version).or(is_seen(mutation.seen));
        let newest = self.clocks.newest().map_or(0, |stamp| stamp.ms);
        let has_document = self.document.is_some();
        match (self.is_known, seen) {
            // The condition holds, so it has seen all mutations.
            (true, _) if mutation.if_version.is_some() => ms.max(newest.saturating_add(1)),
            (true, _) => ms,
            (false, Some(true)) => {
                let after = newest.saturating_add(1);
                self.clocks.overwrite(Stamp::outside(after), has_document);
                ms.max(after)
            }
            (false, None) if self.clocks.newest().is_none() => ms,
            (false, _) => {
                self.clocks.overwrite(Stamp::outside(now.0.max(newest.saturating_add(1))), has_document);
                ms
            }
        }
    }

    fn winner(&self, field: Option<&str>) -> Winner {
        let value = match (field, &self.tree) {
            (None, tree) => tree.clone(),
            (Some(field), Some(Value::Object(members))) => members.get(field).cloned(),
            (Some(_), _) => None,
        };
        Winner { value, version: self.version(), stamp: self.clocks.of(field).cloned() }
    }
}

fn new(settled: Settled, winner: Option<Winner>) -> Outcome {
    Outcome { settled, again: false, winner }
}

fn bare(status: Status) -> Settled {
    Settled { status, version: None, ts: None, clamped: false, lost: Vec::new(), error: None }
}

/// What becomes of a mutation that an error stops before it changes anything.
#[must_use]
pub fn failed(error: &Error) -> Settled {
    let status = match error.code() {
        Code::TooLarge | Code::WrongType | Code::BadRequest | Code::Unsupported => Status::Rejected,
        _ => Status::Retry,
    };
    Settled::because(status, error.code().as_str(), error.message())
}

fn too_large(flaw: &Flaw) -> Settled {
    let words = match flaw {
        Flaw::TooDeep => "the document would be nested too deeply",
        Flaw::TooLong | Flaw::NotJson(_) => "the document is too large to be synchronised",
    };
    Settled::rejected(Code::TooLarge.as_str(), words)
}

/// The document and its stamps; what becomes of the mutation if they cannot be read.
fn find(keys: &mut Keyspace, name: &[u8], now: Millis) -> Result<Found, Settled> {
    let document = documents::get(keys, name, now).map_err(|miss| match miss {
        Miss::WrongType(_) => {
            Settled::rejected(Code::WrongType.as_str(), "the key holds a value that is not a document")
        }
        Miss::Failed(error) => failed(&error),
    })?;
    if document.as_ref().is_some_and(|document| document.text.len() > SYNC_DOCUMENT_BYTES_MAX) {
        return Err(too_large(&Flaw::TooLong));
    }
    let tree = document.as_ref().map(|document| document::parse(&document.text)).transpose();
    let tree = tree.map_err(|flaw| too_large(&flaw))?;
    let text = record(keys, &names::beside(name), now).map_err(|error| failed(&error))?;
    let current = document.as_ref().map(|document| fingerprint(&document.text));
    Ok(match text.and_then(|text| Beside::parse(&text)) {
        Some(beside) => Found { is_known: beside.document == current, document, tree, clocks: beside.clocks },
        None => Found { is_known: false, clocks: Clocks::unknown(document.is_some()), document, tree },
    })
}

/// A record of sync; nothing if something else is there.
fn record(keys: &mut Keyspace, name: &[u8], now: Millis) -> Result<Option<Vec<u8>>, Error> {
    match keys.str(name, now) {
        Ok(text) => Ok(text.map(|text| text.to_vec())),
        Err(Miss::WrongType(_)) => Ok(None),
        Err(Miss::Failed(error)) => Err(error),
    }
}

/// Writes the document, and returns its version.
fn write(
    keys: &mut Keyspace,
    mutation: &Mutation,
    text: Option<Bytes>,
    now: Millis,
) -> Result<Option<u64>, Error> {
    // As with `PUT /kv`: all of it is replaced, and its expiry with it.
    let expire = if mutation.edit.field().is_none() { Expire::At(Millis::NEVER) } else { Expire::Keep };
    let change = text.map_or(DocumentChange::Delete, DocumentChange::Put);
    match documents::change(keys, &mutation.key, &change, &Condition::Any, expire, now) {
        Ok(Changed::Done { document, .. }) => Ok(Some(document.version)),
        Ok(_) => Ok(None),
        Err(Miss::Failed(error)) => Err(error),
        Err(Miss::WrongType(_)) => {
            Err(Error::new(Code::WrongType, "the key holds a value that is not a document"))
        }
    }
}

fn store_beside(
    keys: &mut Keyspace,
    name: &[u8],
    clocks: &Clocks,
    text: Option<&[u8]>,
    now: Millis,
) -> Result<(), Error> {
    if let Some((record, until)) = Beside::text(clocks, text) {
        keys.set_str(&names::beside(name), Bytes::from(record), Expire::At(until), now)?;
    }
    Ok(())
}
