//! Responses of the limits API. Pure.

use http::StatusCode;
use keystead_commands::idempotency::StoredResponse;
use keystead_core::Result;
use keystead_limit::Decision;
use serde_json::Value;

/// The response with a decision and more members, in the form that can be stored.
///
/// # Errors
/// When a decision has no text form.
pub fn stored(decision: &Decision, more: &[(&str, Value)], denial: StatusCode) -> Result<StoredResponse> {
    Ok(stored_text(status(decision, denial), &text(decision, more)?))
}

/// A response with this text, in the form that can be stored.
#[must_use]
pub fn stored_text(status: StatusCode, text: &str) -> StoredResponse {
    StoredResponse { status: status.as_u16(), version: None, body: format!("{text}\n").into_bytes() }
}

/// The text of a decision, with more members.
///
/// # Errors
/// When a decision has no text form.
pub fn text(decision: &Decision, more: &[(&str, Value)]) -> Result<String> {
    let mut text = decision.to_json()?;
    for (name, value) in more {
        text.truncate(text.len() - 1);
        text.push_str(&format!(",\"{name}\":{value}}}"));
    }
    Ok(text)
}

/// The status of a response.
#[must_use]
pub fn status(decision: &Decision, denial: StatusCode) -> StatusCode {
    if decision.allowed { StatusCode::OK } else { denial }
}
