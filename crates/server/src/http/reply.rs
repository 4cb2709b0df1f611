//! Responses: their bodies, and the one form of an error body, `{"error":{"code":"...","message":"..."}}`. Pure.

use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use keystead_commands::bounds::REPLY_SMALL_BYTES;
use keystead_commands::hub::{Waiting, WaitingBytes};
use keystead_commands::idempotency::StoredResponse;
use keystead_commands::meter;
use keystead_core::{Code, Error, Outcome};
use serde_json::json;

use super::error::{self, ApiError};
use super::events::Source;
use super::request::RequestError;
use super::rights::{self, AuthError};
use super::status;
use crate::bounds::BODIES_BYTES_MAX;

pub use keystead_http_api::code;

/// A response.
pub type Reply = Response<Body>;

/// What a handler returns.
pub(super) trait IntoReply {
    fn into_reply(self) -> Reply;
}

impl IntoReply for Reply {
    fn into_reply(self) -> Reply {
        self
    }
}

impl IntoReply for Result<Reply, ApiError> {
    fn into_reply(self) -> Reply {
        self.unwrap_or_else(|error| error::reply(&error))
    }
}

/// The body of a response.
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// Part by part.
    Stream(Box<dyn Source>),
}

/// A body that counts among the waiting bytes until it is sent.
struct Counted {
    bytes: Bytes,
    _waiting: WaitingBytes,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A stream whose large parts count among the waiting bytes until they are sent.
struct CountedSource {
    source: Box<dyn Source>,
    waiting: Arc<Waiting>,
}

impl Source for CountedSource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.source.poll_next(cx).map(|next| {
            next.map(|part| {
                let mut bytes = part?;
                match count(&mut bytes, &self.waiting) {
                    Ok(()) => Ok(bytes),
                    // The client continues where it stopped, or requests less.
                    Err(error) => Err(io::Error::other(error)),
                }
            })
        })
    }
}

/// Counts bytes, if they are large, among the waiting bytes until they are dropped.
fn count(bytes: &mut Bytes, waiting: &Arc<Waiting>) -> Result<(), Error> {
    if bytes.len() > REPLY_SMALL_BYTES {
        let mut part = WaitingBytes::new(Arc::clone(waiting));
        part.set(bytes.len());
        *bytes = Bytes::from_owner(Counted { bytes: std::mem::take(bytes), _waiting: part });
        if waiting.is_over() {
            return Err(meter::too_many_waiting());
        }
    }
    Ok(())
}

impl Body {
    /// Counts what is large of a body among the waiting bytes until it is sent.
    ///
    /// # Errors
    /// When it is whole and more than the bound are waiting now. It counts nevertheless: the caller decides whether it is sent. A
    /// stream ends with an error instead.
    pub(super) fn count_waiting(&mut self, waiting: &Arc<Waiting>) -> Result<(), Error> {
        match self {
            Body::Whole(bytes) => count(bytes, waiting),
            Body::Stream(_) => {
                let Body::Stream(source) = std::mem::replace(self, Body::Whole(Bytes::new())) else {
                    return Ok(());
                };
                *self = Body::Stream(Box::new(CountedSource { source, waiting: Arc::clone(waiting) }));
                Ok(())
            }
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::Whole(bytes.into())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Stream(source) => source.poll_next(cx).map(|next| next.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// A body that displays as JSON. It ends with a newline, so that a shell's prompt starts on a line of its
/// own.
#[must_use]
pub fn json(status: StatusCode, body: impl Display) -> Reply {
    text(status, HeaderValue::from_static("application/json"), format!("{body}\n"))
}

/// A body of any text type.
#[must_use]
pub fn text(status: StatusCode, content_type: HeaderValue, body: String) -> Reply {
    bytes(status, content_type, body.into_bytes())
}

/// A body of any type.
#[must_use]
pub fn bytes(status: StatusCode, content_type: HeaderValue, body: Vec<u8>) -> Reply {
    let mut reply = Reply::new(body.into());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

/// The response from its stored form.
pub(crate) fn stored(stored: StoredResponse) -> Reply {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let is_empty = stored.body.is_empty();
    let mut reply = bytes(status, HeaderValue::from_static("application/json"), stored.body);
    if is_empty {
        reply.headers_mut().remove(CONTENT_TYPE);
    }
    if let Some(version) = stored.version {
        tag(&mut reply, version);
    }
    reply
}

/// Sets the `ETag` header to the version.
pub(crate) fn tag(reply: &mut Reply, version: u64) {
    if let Ok(value) = HeaderValue::try_from(format!("\"{version}\"")) {
        reply.headers_mut().insert(ETAG, value);
    }
}

/// The `outcome` of an error after which a change may or may not have happened.
pub(crate) const UNKNOWN: &str = "unknown";

/// Seconds after which a request that was rejected because of load may be sent again.
pub(super) const SOON: HeaderValue = HeaderValue::from_static("1");

/// The response for a request that failed.
#[must_use]
pub fn error(error: &Error) -> Reply {
    let mut body = json!({ "error": { "code": error.code().as_str(), "message": error.to_string() } });
    if error.outcome() == Outcome::Unknown {
        body["error"]["outcome"] = json!(UNKNOWN);
    }
    let mut reply = json(status::of(error.code()), body);
    if matches!(error.code(), Code::QueueFull | Code::TryAgain) {
        reply.headers_mut().insert(RETRY_AFTER, SOON);
    }
    mark_try_again(&mut reply, error.code() == Code::TryAgain);
    reply
}

/// The mark of a response whose request was not applied because a slot is being handed over.
#[derive(Clone, Copy)]
pub(super) struct TryAgain;

/// Marks a response.
pub(super) fn mark_try_again(reply: &mut Reply, is_one: bool) {
    if is_one {
        reply.extensions_mut().insert(TryAgain);
    }
}

/// The response for a request while the database loads.
pub(super) fn loading() -> Reply {
    let words = "the database is being loaded: try again later";
    let mut reply = error_body(StatusCode::SERVICE_UNAVAILABLE, code::LOADING, words);
    reply.headers_mut().insert(RETRY_AFTER, SOON);
    reply
}

/// The response for a request that does not reach its handler.
#[must_use]
pub fn request_error(error: &RequestError) -> Reply {
    let (code, message) = match error {
        RequestError::Host(host) => (code::FORBIDDEN, rights::foreign_host(host)),
        RequestError::Unauthorized(AuthError::ForeignPage) => (
            code::UNAUTHORIZED,
            "a page of another site needs a token: start the server with one, for example KEYSTEAD_TOKEN=..."
                .to_owned(),
        ),
        RequestError::Unauthorized(AuthError::ExpiredToken) => (
            code::UNAUTHORIZED,
            "the token of this client has expired: make another one with keystead sync token".to_owned(),
        ),
        RequestError::Unauthorized(_) => (
            code::UNAUTHORIZED,
            "send the server's token in a header: Authorization: Bearer TOKEN".to_owned(),
        ),
        RequestError::Method(allow) => (code::METHOD_NOT_ALLOWED, format!("this path takes {allow}")),
        RequestError::TooLarge(0, _) => (Code::TooLarge.as_str(), "this path takes no body".to_owned()),
        RequestError::TooLarge(most, _) => {
            (Code::TooLarge.as_str(), format!("the body is over {most} bytes"))
        }
        RequestError::Unreadable(why) => {
            (Code::BadRequest.as_str(), format!("the body cannot be read: {why}"))
        }
        RequestError::TimedOut => (code::TIMED_OUT, "the request's body did not arrive in time".to_owned()),
        RequestError::BodiesFull => (Code::QueueFull.as_str(), bodies_full()),
    };
    let mut reply = error_body(error.status(), code, &message);
    if let RequestError::BodiesFull = error {
        reply.headers_mut().insert(RETRY_AFTER, SOON);
    }
    if let RequestError::Unauthorized(_) = error {
        reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    reply
}

/// The message for [`RequestError::BodiesFull`].
pub(super) fn bodies_full() -> String {
    format!(
        "the bodies of all requests are over {BODIES_BYTES_MAX} bytes: send less data, or try again later"
    )
}

fn error_body(status: StatusCode, code: &str, message: &str) -> Reply {
    json(status, json!({ "error": { "code": code, "message": message } }))
}
