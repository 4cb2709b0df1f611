//! Documents in the store of `--documents-store`: its steps, and what it cannot do. Touches that store.

use std::sync::Arc;

use keystead_commands::documents::state::{self, DocumentState};
use keystead_commands::documents::{Changed, Condition, Document, DocumentChange};
use keystead_core::{Change, Code, Error, Millis, Result, Step};

use super::super::context::HttpContext;
use super::super::error::ApiError;
use super::params::Expiry;
use crate::documents::DocumentStore;

/// Reads a document.
#[derive(Clone)]
struct Read;

impl Step for Read {
    type State = DocumentState;
    type Reply = Option<Document>;

    fn run(&self, state: Option<&DocumentState>, _: Millis) -> Change<DocumentState, Option<Document>> {
        Change::Keep(state.map(DocumentState::document))
    }
}

/// A conditional change of a document.
#[derive(Clone)]
pub(super) struct ChangeDocument {
    /// Shared, because a step is cloned and a document can be large.
    pub(super) change: Arc<DocumentChange>,
    pub(super) condition: Condition,
    pub(super) expiry: Expiry,
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

/// The document of a key.
pub(super) async fn read(documents: &DocumentStore, key: &[u8]) -> Result<Option<Document>> {
    documents.apply(key, &Read).await
}

/// An error where the documents are in a store, which has no `what`: it only applies steps to single keys.
pub(in crate::http) fn require_database(context: &HttpContext, what: &str) -> Result<(), ApiError> {
    match context.app.documents.get() {
        None => Ok(()),
        Some(documents) => {
            let store = documents.scheme();
            let message = format!(
                "the documents of this server are in a store ({store}), which cannot do this: {what}"
            );
            Err(Error::new(Code::Unsupported, message).into())
        }
    }
}
