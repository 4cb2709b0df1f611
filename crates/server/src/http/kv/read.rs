//! `GET /kv/{key}`: a document; with `If-None-Match` 304 if it has not changed, with `wait=` its next change, as
//! `text/event-stream` all of them. Touches the shard of the key, or the store of the documents.

use hyper::StatusCode;
use hyper::header::ACCEPT;
use keystead_commands::documents::{self, Document};
use keystead_commands::idempotency::StoredResponse;
use keystead_engine::Completion;
use keystead_model::Bytes;

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::events;
use super::super::parameters::Parameters;
use super::super::reply::{self, Body, Reply};
use super::super::request::HttpRequest;
use super::params::{self, Reading, name};
use super::poll;
use super::response;
use super::shared;
use super::watch;

/// The parameters of `GET /kv/{key}` when it does not stream.
pub(super) const READING: &[&str] = &[name::WAIT, name::SINCE_VERSION];

pub(in super::super) async fn get(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let key = params::key(request)?;
    if context.app.documents.get().is_none() {
        context.require_served([&key[..]])?;
    }
    // A malformed condition is an error also for a stream.
    let reading = Reading::of(&request.head.headers)?;
    if wants_events(request) {
        Parameters::of(&request.head, &[])?;
        shared::require_database(context, "streaming the changes of a document")?;
        return watch::of_key(context, request, key).await;
    }
    let parameters = Parameters::of(&request.head, READING)?;
    let since = parameters.number(name::SINCE_VERSION)?;
    let (found, since) = match (parameters.duration_ms(name::WAIT)?, since) {
        (Some(wait_ms), since) => {
            shared::require_database(context, "waiting for a change")?;
            let since = since.unwrap_or(0);
            (poll::next_change(context, &key, since, wait_ms).await?, Some(since))
        }
        (None, None) => (read(context, &key).await?, None),
        (None, Some(_)) => return Err(ApiError::bad("sinceVersion needs wait, for example wait=30s")),
    };
    let current = found.as_ref().map(|document| document.version);
    if !reading.allows(current) {
        return Err(ApiError::Conflict(StatusCode::PRECONDITION_FAILED, current));
    }
    let document = found.ok_or_else(|| ApiError::not_found(&key))?;
    if since == Some(document.version) || reading.knows(document.version) {
        return Ok(not_modified(document.version));
    }
    Ok(document_reply(&key, &document))
}

/// The current document.
pub(super) async fn read(context: &HttpContext, key: &Bytes) -> Result<Option<Document>, ApiError> {
    if let Some(documents) = context.app.documents.get() {
        return Ok(shared::read(documents, key).await?);
    }
    let (shard, key) = (context.app.engine.shard_of(key), key.clone());
    let found = context
        .run_at(shard, false, move |keys, now| (documents::get(keys, &key, now), Completion::Commit))
        .await?;
    Ok(found?)
}

fn document_reply(key: &[u8], document: &Document) -> Reply {
    let body = response::object(key, Some(document)) + "\n";
    reply::stored(StoredResponse { status: 200, version: Some(document.version), body: body.into_bytes() })
}

fn not_modified(version: u64) -> Reply {
    let mut reply = Reply::new(Body::from(Vec::new()));
    *reply.status_mut() = StatusCode::NOT_MODIFIED;
    reply::tag(&mut reply, version);
    reply
}

/// Whether a request accepts events.
pub(in crate::http) fn wants_events(request: &HttpRequest) -> bool {
    accepts(request, events::MEDIA)
}

/// Whether a request names this media type.
pub(super) fn accepts(request: &HttpRequest, media: &str) -> bool {
    let accept = request.head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media))
}
