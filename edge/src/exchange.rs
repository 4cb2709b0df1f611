//! Requests and responses of the platform, as the shared code has them. Touches the request's body.

use futures_util::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use keystead_commands::idempotency::StoredResponse;
use keystead_core::{Error, Outcome};
use keystead_http_api::error::ApiError;
use keystead_http_api::{cors, status};
use serde_json::json;
use worker::{Headers, Request, Response, ResponseBuilder};

use crate::bounds::BODY_BYTES_MAX;
use crate::events::Subscriber;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// Its body.
pub(crate) enum Body {
    Whole(Vec<u8>),
    Events(Subscriber),
}

impl Reply {
    pub(crate) fn new(status: StatusCode, media_type: HeaderValue, body: Vec<u8>) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, media_type);
        Reply { status, headers, body: Body::Whole(body) }
    }

    pub(crate) fn empty(status: StatusCode) -> Reply {
        Reply { status, headers: HeaderMap::new(), body: Body::Whole(Vec::new()) }
    }

    /// An error in Keystead's own form.
    pub(crate) fn error(status: StatusCode, code: &str, message: &str) -> Reply {
        let body = json!({ "error": { "code": code, "message": message } });
        Reply::new(status, JSON, format!("{body}\n").into_bytes())
    }

    /// The error of a database.
    pub(crate) fn broken(error: &Error) -> Reply {
        let mut body = json!({ "error": { "code": error.code().as_str(), "message": error.to_string() } });
        if error.outcome() == Outcome::Unknown {
            body["error"]["outcome"] = json!("unknown");
        }
        Reply::new(status::of(error.code()), JSON, format!("{body}\n").into_bytes())
    }

    /// A response from its stored form.
    pub(crate) fn stored(stored: StoredResponse) -> Reply {
        let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut reply = match stored.body.is_empty() {
            true => Reply::empty(status),
            false => Reply::new(status, JSON, stored.body),
        };
        if let Some(version) = stored.version {
            reply.tag(version);
        }
        reply
    }

    pub(crate) fn api_error(error: &ApiError) -> Reply {
        match error {
            ApiError::Broken(error) => Reply::broken(error),
            error => Reply::stored(error.stored()),
        }
    }

    /// Sets the `ETag` header to the version.
    pub(crate) fn tag(&mut self, version: u64) {
        if let Ok(value) = HeaderValue::try_from(format!("\"{version}\"")) {
            self.headers.insert(ETAG, value);
        }
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }

    /// The response for the client whose request this was.
    pub(crate) fn into_response(mut self, head: &Parts) -> worker::Result<Response> {
        self.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if cors::is_page(&head.headers) {
            cors::finish(&mut self.headers);
        }
        let headers = Headers::new();
        for (name, value) in &self.headers {
            headers.append(name.as_str(), &String::from_utf8_lossy(value.as_bytes()))?;
        }
        let response = ResponseBuilder::new().with_status(self.status.as_u16()).with_headers(headers);
        match self.body {
            Body::Whole(bytes) if bytes.is_empty() || head.method == Method::HEAD => Ok(response.empty()),
            Body::Whole(bytes) => Ok(response.fixed(bytes)),
            Body::Events(subscriber) => response.from_stream(subscriber),
        }
    }
}

/// The line and headers of a request.
pub(crate) fn head_of(request: &Request) -> worker::Result<Parts> {
    let url = request.url()?;
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let invalid = |error: http::Error| worker::Error::RustError(error.to_string());
    let method = request.inner().method();
    let mut builder = http::Request::builder().method(method.as_str()).uri(target);
    for (name, value) in request.headers().entries() {
        builder = builder.header(name, value);
    }
    Ok(builder.body(()).map_err(invalid)?.into_parts().0)
}

/// The body of a request; nothing if it is too large.
pub(crate) async fn body_of(request: &mut Request, head: &Parts) -> worker::Result<Option<Vec<u8>>> {
    let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Ok(None);
    }
    if request.inner().body().is_none() {
        return Ok(Some(Vec::new()));
    }
    let mut body = Vec::new();
    let mut parts = request.stream()?;
    while let Some(part) = parts.next().await {
        body.extend_from_slice(&part?);
        if body.len() > BODY_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(body))
}
