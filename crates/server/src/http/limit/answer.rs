//! Answers of the limit door. Pure.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use keystead_core::{Millis, Result};
use keystead_limit::Decision;
use serde_json::Value;

use super::super::reply::{self, Reply};
use crate::policies::named::Named;

/// The answer that tells a decision, with more members where there are some.
pub(super) fn decided(
    named: &Named,
    decision: &Decision,
    now: Millis,
    more: &[(&str, Value)],
    denial: StatusCode,
) -> Result<Reply> {
    let mut text = decision.to_json()?;
    push(&mut text, more);
    let mut reply = reply::json(status(decision, denial), text);
    headers(&mut reply, named, decision, now);
    Ok(reply)
}

/// The status of an answer.
pub(super) fn status(decision: &Decision, denial: StatusCode) -> StatusCode {
    if decision.allowed { StatusCode::OK } else { denial }
}

/// Adds the headers that the policy asks for.
pub(super) fn headers(reply: &mut Reply, named: &Named, decision: &Decision, now: Millis) {
    for (name, value) in named.headers(decision, now) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            reply.headers_mut().insert(name, value);
        }
    }
}

/// Adds members to the text of an object.
pub(super) fn push(object: &mut String, more: &[(&str, Value)]) {
    for (name, value) in more {
        object.truncate(object.len() - 1);
        object.push_str(&format!(",\"{name}\":{value}}}"));
    }
}
