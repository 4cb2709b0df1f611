//! Documents in the store of `--documents-store`: how they are read, and what it cannot do. Touches that store.

use keystead_commands::documents::Document;
use keystead_core::{Code, Error, Result};
use keystead_http_api::kv::steps::ReadDocument;

use super::super::context::HttpContext;
use super::super::error::ApiError;
use crate::documents::DocumentStore;

/// The document of a key.
pub(super) async fn read(documents: &DocumentStore, key: &[u8]) -> Result<Option<Document>> {
    documents.apply(key, &ReadDocument).await
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
