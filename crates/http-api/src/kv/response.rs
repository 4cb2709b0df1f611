//! Responses of the documents API: documents, and the results of changes. Pure.

use http::StatusCode;
use keystead_commands::documents::{Changed, Document};
use keystead_commands::idempotency::StoredResponse;
use keystead_core::Millis;

use crate::error::ApiError;
use crate::written;

/// The response to a change, in the form that can be stored.
#[must_use]
pub fn changed(key: &[u8], changed: Changed, conflict: StatusCode) -> StoredResponse {
    let error = match changed {
        Changed::Done { document, created } => {
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            return StoredResponse {
                status: status.as_u16(),
                version: Some(document.version),
                body: (object(key, Some(&document)) + "\n").into_bytes(),
            };
        }
        Changed::Deleted => return StoredResponse { status: 204, version: None, body: Vec::new() },
        Changed::Absent => ApiError::not_found(key),
        Changed::Conflict(current) => ApiError::Conflict(conflict, current),
        Changed::TestFailed(current) => ApiError::Test(current),
        Changed::Unfit(why) => ApiError::Unprocessable(why),
        Changed::Flawed(flaw) => ApiError::flaw("the resulting document", &flaw),
    };
    error.stored()
}

/// The response to a change; nothing: its expiry has passed already.
#[must_use]
pub fn response_of(key: &[u8], changed: Option<Changed>, conflict: StatusCode) -> StoredResponse {
    match changed {
        Some(changed) => self::changed(key, changed, conflict),
        None => ApiError::bad("expiresAt has passed already").stored(),
    }
}

/// Bytes of a document behind its value, and of the end of a line.
const END_BYTES: usize = 96;

/// `{"key":...,"value":...,"version":...}`; without a document only the key.
#[must_use]
pub fn object(key: &[u8], document: Option<&Document>) -> String {
    let mut text = format!("{{\"key\":{}", written::shown(key));
    if let Some(document) = document {
        // A large text is copied once, with what comes behind it.
        text.reserve_exact(document.text.len() + END_BYTES);
        text.push_str(",\"value\":");
        // A document is text by construction.
        text.push_str(&String::from_utf8_lossy(&document.text));
        text.push_str(&format!(",\"version\":{}", document.version));
        if document.expires_at != Millis::NEVER {
            text.push_str(&format!(",\"expiresAt\":{}", document.expires_at.0));
        }
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_their_form() {
        let document = Document { text: b"1.10".as_slice().into(), version: 7, expires_at: Millis::NEVER };
        assert_eq!(object(b"a\"", Some(&document)), r#"{"key":"a\"","value":1.10,"version":7}"#);
        let soon = Document { expires_at: Millis(9), ..document };
        assert_eq!(
            object(b"\xff", Some(&soon)),
            r#"{"key":{"base64":"/w=="},"value":1.10,"version":7,"expiresAt":9}"#
        );
    }
}
