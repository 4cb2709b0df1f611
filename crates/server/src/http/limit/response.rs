//! Responses of the limits API. Pure.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use keystead_commands::idempotency::StoredResponse;
use keystead_core::{Millis, Result};
pub(super) use keystead_http_api::limit::response::{status, stored, stored_text, text};
use keystead_limit::Decision;
use serde_json::Value;

use super::super::reply::{self, Reply};
use crate::policies::active::ActivePolicy;

/// The response with a decision, and more members where there are some.
pub(super) fn decided(
    active: &ActivePolicy,
    decision: &Decision,
    now: Millis,
    more: &[(&str, Value)],
    denial: StatusCode,
) -> Result<Reply> {
    let mut reply = reply::json(status(decision, denial), text(decision, more)?);
    headers(&mut reply, active, decision, now);
    Ok(reply)
}

/// The stored response again, with the headers of its decision. `Retry-After` is then that of the first response, too.
pub(super) fn stored_reply(active: &ActivePolicy, stored: StoredResponse, now: Millis) -> Reply {
    let decision: Option<Decision> = serde_json::from_slice(&stored.body).ok();
    let mut reply = reply::stored(stored);
    if let Some(decision) = decision {
        headers(&mut reply, active, &decision, now);
    }
    reply
}

/// Adds the headers of the policy.
pub(super) fn headers(reply: &mut Reply, active: &ActivePolicy, decision: &Decision, now: Millis) {
    for (name, value) in active.headers(decision, now) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            reply.headers_mut().insert(name, value);
        }
    }
}
