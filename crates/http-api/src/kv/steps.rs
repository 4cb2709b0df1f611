//! Documents as steps, where they are in a store instead of the keyspace. Pure.

use std::sync::Arc;

use keystead_commands::documents::state::{self, DocumentState};
use keystead_commands::documents::{Changed, Condition, Document, DocumentChange};
use keystead_core::{Change, Millis, Step};

use super::params::Expiry;

/// The prefix of the keys of documents in a store, so that it can also have other data.
pub const PREFIX: &str = "kv";

/// Reads a document.
#[derive(Clone, Copy, Debug)]
pub struct ReadDocument;

impl Step for ReadDocument {
    type State = DocumentState;
    type Reply = Option<Document>;

    fn run(&self, state: Option<&DocumentState>, _: Millis) -> Change<DocumentState, Option<Document>> {
        Change::Keep(state.map(DocumentState::document))
    }
}

/// A conditional change of a document.
#[derive(Clone)]
pub struct ChangeDocument {
    /// Shared, because a step is cloned and a document can be large.
    pub change: Arc<DocumentChange>,
    /// When it happens.
    pub condition: Condition,
    /// Its expiry.
    pub expiry: Expiry,
}

impl Step for ChangeDocument {
    type State = DocumentState;
    /// Nothing: the expiry has passed already.
    type Reply = Option<Changed>;

    fn run(&self, before: Option<&DocumentState>, now: Millis) -> Change<DocumentState, Option<Changed>> {
        let Some(expire) = self.expiry.at(now) else { return Change::Keep(None) };
        match state::change(before, &self.change, &self.condition, expire, now) {
            Change::Keep(changed) => Change::Keep(Some(changed)),
            Change::Put(state, ttl, changed) => Change::Put(state, ttl, Some(changed)),
            Change::Delete(changed) => Change::Delete(Some(changed)),
        }
    }
}
