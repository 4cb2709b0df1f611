//! `GET /kv/{key}`: a document; with `If-None-Match` 304 when it is still the same, with `wait=` its next change, as
//! `text/event-stream` all of them. Touches the shard of the key.

use hyper::StatusCode;
use hyper::header::ACCEPT;
use keystead_commands::documents::{self, Document};
use keystead_commands::once::Kept;
use keystead_model::Bytes;

use super::super::here::Here;
use super::super::reply::{Body, Reply};
use super::super::request::Asked;
use super::answer::{self, Refused};
use super::asked::{self, Parameters};
use super::{Done, watch};

pub(super) async fn get(here: &Here, asked: &Asked) -> Done {
    let key = asked::key(&asked.head)?;
    if wants_events(asked) {
        Parameters::of(&asked.head, &[])?;
        return watch::of_key(here, asked, key).await;
    }
    let parameters = Parameters::of(&asked.head, &["wait", "sinceVersion"])?;
    if let Some(wait_ms) = parameters.duration_ms("wait")? {
        let since = parameters.number("sinceVersion")?.unwrap_or(0);
        return watch::next_change(here, key, since, wait_ms).await;
    }
    if parameters.bytes("sinceVersion").is_some() {
        return Err(Refused::bad("sinceVersion goes with wait, for example wait=30s"));
    }
    let found = look(here, &key).await?;
    let current = found.as_ref().map(|document| document.version);
    if let Some(condition) = asked::if_match(&asked.head.headers)?
        && !condition.holds(current)
    {
        return Err(Refused::Conflict(StatusCode::PRECONDITION_FAILED, current));
    }
    let document = found.ok_or_else(|| Refused::not_found(&key))?;
    if asked::is_known(&asked.head.headers, document.version)? {
        return Ok(not_modified(document.version));
    }
    Ok(shown(&key, &document))
}

/// The document as it is.
pub(super) async fn look(here: &Here, key: &Bytes) -> Result<Option<Document>, Refused> {
    let (shard, key) = (here.app.engine.shard_of(key), key.clone());
    let found = here.run_at(shard, false, move |keys, now| (documents::get(keys, &key, now), true)).await?;
    Ok(found?)
}

pub(super) fn shown(key: &[u8], document: &Document) -> Reply {
    let body = answer::object(key, Some(document)) + "\n";
    answer::kept(Kept { status: 200, version: Some(document.version), body: body.into_bytes() })
}

pub(super) fn not_modified(version: u64) -> Reply {
    let mut reply = Reply::new(Body::from(Vec::new()));
    *reply.status_mut() = StatusCode::NOT_MODIFIED;
    answer::tag(&mut reply, version);
    reply
}

/// Whether a request asks for events.
pub(super) fn wants_events(asked: &Asked) -> bool {
    accepts(asked, "text/event-stream")
}

/// Whether a request names this media type.
pub(super) fn accepts(asked: &Asked, media: &str) -> bool {
    let accept = asked.head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media))
}
