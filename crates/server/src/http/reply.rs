//! Replies: JSON bodies, and the one shape of an error body, `{"error":{"code":"...","message":"..."}}`.
//! Pure.

use std::fmt::Display;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use keystead_core::{Code, Error};
use serde_json::json;

use super::status;

/// What a handler answers.
pub type Reply = Response<Full<Bytes>>;

/// A body that displays as JSON. It ends with a newline, so that a shell's prompt starts on a line of its
/// own.
#[must_use]
pub fn json(status: StatusCode, body: impl Display) -> Reply {
    text(status, HeaderValue::from_static("application/json"), format!("{body}\n"))
}

/// A body of any text type.
#[must_use]
pub fn text(status: StatusCode, content_type: HeaderValue, body: String) -> Reply {
    let mut reply = Reply::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

/// The answer to a request that failed.
#[must_use]
pub fn error(error: &Error) -> Reply {
    let mut reply = refusal(status::of(error.code()), error.code().as_str(), &error.to_string());
    if error.code() == Code::QueueFull {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// No route has this path.
#[must_use]
pub fn not_found(path: &str) -> Reply {
    refusal(StatusCode::NOT_FOUND, "not_found", &format!("there is nothing at {path}"))
}

/// The path has routes, but not for this method. `allow` lists the methods it has.
#[must_use]
pub fn method_not_allowed(method: &str, path: &str, allow: &str) -> Reply {
    let message = format!("{path} does not take {method}; it takes {allow}");
    let mut reply = refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &message);
    if let Ok(allow) = HeaderValue::from_str(allow) {
        reply.headers_mut().insert(ALLOW, allow);
    }
    reply
}

/// The request brought no token, or another one.
#[must_use]
pub fn unauthorized() -> Reply {
    let message = "bring the server's token in a header: Authorization: Bearer TOKEN";
    let mut reply = refusal(StatusCode::UNAUTHORIZED, "unauthorized", message);
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    reply
}

/// The request's body did not arrive in time.
#[must_use]
pub fn timed_out() -> Reply {
    refusal(StatusCode::REQUEST_TIMEOUT, "timed_out", "the request's body did not arrive in time")
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Reply {
    json(status, json!({ "error": { "code": code, "message": message } }))
}
