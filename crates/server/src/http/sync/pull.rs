//! `GET /sync?since=CURSOR&prefix=P`: the changes since a cursor, a page at a time, and with `Accept: text/event-stream` as they
//! happen. Touches the change feeds of the shards, and the shards for a snapshot.
//!
//! Without a cursor, or where the changes since it are no longer stored, the pages are a snapshot: `reset` on the first one, `complete` on
//! the last; what the client has besides is deleted. Invariant: changes during a snapshot are in the pages after it.

use std::collections::HashMap;

use hyper::StatusCode;
use keystead_commands::documents::{self, Document, is_internal};
use keystead_core::{Code, Error, Millis, Result, Revision};
use keystead_engine::Feed;
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact};

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::kv::list::{self, Wanted};
use super::super::kv::{read, response, shared, watch};
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::cursor::{self, Cursor};
use crate::bounds::{SYNC_PULL_BYTES_MAX, SYNC_PULL_EFFECTS_MAX, SYNC_PULL_LIMIT, SYNC_PULL_LIMIT_MAX};
use crate::written;

pub(super) mod name {
    pub(in super::super) const SINCE: &str = "since";
    pub(in super::super) const PREFIX: &str = "prefix";
    pub(in super::super) const LIMIT: &str = "limit";
}

/// The parameters.
pub(super) const PULLING: &[&str] = &[name::SINCE, name::PREFIX, name::LIMIT];

pub(in super::super) async fn pull(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    // A read-only token may not list all keys in any API.
    request.require_write()?;
    shared::require_database(context, "offline sync")?;
    let parameters = Parameters::of(&request.head, PULLING)?;
    let prefix = prefix(request, &parameters)?;
    let engine = &context.app.engine;
    let since = parameters.text(name::SINCE)?.filter(|since| !since.is_empty());
    let since = since.and_then(|since| Cursor::parse(since, engine));
    if read::wants_events(request) {
        return events(context, request, &prefix, since);
    }
    let limit = match parameters.number(name::LIMIT)? {
        None => SYNC_PULL_LIMIT,
        Some(limit) if (1..=SYNC_PULL_LIMIT_MAX as u64).contains(&limit) => limit as usize,
        Some(_) => return Err(ApiError::bad(format!("limit is 1 to {SYNC_PULL_LIMIT_MAX}"))),
    };
    let page = match since {
        Some(Cursor { revisions, scan: None }) => match changes(context, &prefix, revisions, limit).await? {
            Some(page) => page,
            None => snapshot(context, &prefix, Cursor::snapshot(engine), true, limit).await?,
        },
        Some(cursor) => snapshot(context, &prefix, cursor, false, limit).await?,
        None => snapshot(context, &prefix, Cursor::snapshot(engine), true, limit).await?,
    };
    Ok(reply::json(StatusCode::OK, page.text(context)))
}

/// The prefix of the request, within that of its token.
fn prefix(request: &HttpRequest, parameters: &Parameters) -> std::result::Result<Vec<u8>, ApiError> {
    let wanted = parameters.bytes(name::PREFIX);
    match &request.scope {
        None => Ok(wanted.unwrap_or_default().to_vec()),
        Some(scope) => {
            let allowed = scope.prefix.as_bytes();
            let wanted = wanted.unwrap_or(allowed);
            if wanted.starts_with(allowed) { Ok(wanted.to_vec()) } else { Err(ApiError::OutsidePrefix) }
        }
    }
}

/// The changes as events, whose ids are cursors.
fn events(context: &HttpContext, request: &HttpRequest, prefix: &[u8], since: Option<Cursor>) -> ApiResult {
    let engine = &context.app.engine;
    let last = request.head.headers.get(watch::LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    // A client that reconnects has seen more than at its first request.
    let since = last.and_then(|last| Cursor::parse(last, engine)).or(since);
    let known = since.as_ref().map(|cursor| &cursor.revisions[..]);
    Ok(watch::of_prefix_since(context, prefix, known, cursor::event_id(engine))?)
}

/// A page of the response.
struct Page {
    changes: Vec<String>,
    cursor: Cursor,
    more: bool,
    /// The first page of a snapshot.
    reset: bool,
    /// Its last page.
    complete: bool,
}

impl Page {
    fn text(self, context: &HttpContext) -> String {
        let mut text = format!("{{\"changes\":[{}]", self.changes.join(","));
        text.push_str(&format!(
            ",\"cursor\":\"{}\",\"more\":{}",
            self.cursor.text(&context.app.engine),
            self.more
        ));
        for (name, is_so) in [("reset", self.reset), ("complete", self.complete)] {
            if is_so {
                text.push_str(&format!(",\"{name}\":true"));
            }
        }
        text.push_str(&format!(",\"server_ts\":{}}}", context.app.now().0));
        text
    }
}

async fn snapshot(
    context: &HttpContext,
    prefix: &[u8],
    cursor: Cursor,
    reset: bool,
    limit: usize,
) -> Result<Page> {
    let Some(from) = cursor.scan else { return Err(Error::new(Code::Internal, "no snapshot is being read")) };
    let wanted = Wanted { prefix: prefix.to_vec(), values: true, lines: false };
    let (changes, next) = list::collect(context, wanted, from, limit, SYNC_PULL_BYTES_MAX).await?;
    // What changed meanwhile follows.
    Ok(Page { changes, cursor: Cursor { scan: next, ..cursor }, more: true, reset, complete: next.is_none() })
}

/// The changes after these revisions; nothing if they are no longer stored.
async fn changes(
    context: &HttpContext,
    prefix: &[u8],
    mut revisions: Vec<Revision>,
    limit: usize,
) -> Result<Option<Page>> {
    let engine = &context.app.engine;
    let mut found =
        Found { context, prefix, limit, changes: Vec::new(), at: HashMap::new(), bytes: 0, effects: 0 };
    let mut more = false;
    for shard in engine.shard_ids() {
        let until = engine.revision(shard);
        let feed = match engine.subscribe(shard, revisions[shard.0]) {
            // The revision does not exist where the database is a copy of files.
            Err(error) if matches!(error.code(), Code::Gone | Code::BadRequest) => return Ok(None),
            feed => feed?,
        };
        match found.follow(feed, revisions[shard.0], until).await? {
            Some(reached) => {
                more |= reached < until;
                revisions[shard.0] = reached;
            }
            None => return Ok(None),
        }
    }
    let cursor = Cursor { revisions, scan: None };
    Ok(Some(Page { changes: found.changes, cursor, more, reset: false, complete: false }))
}

/// The changes that were found: the last one of each key.
struct Found<'a> {
    context: &'a HttpContext,
    prefix: &'a [u8],
    limit: usize,
    changes: Vec<String>,
    /// Where the change of a key is.
    at: HashMap<Bytes, usize>,
    bytes: usize,
    effects: usize,
}

impl Found<'_> {
    fn is_full(&self) -> bool {
        self.changes.len() >= self.limit
            || self.bytes >= SYNC_PULL_BYTES_MAX
            || self.effects >= SYNC_PULL_EFFECTS_MAX
    }

    /// Reads a shard's changes and returns the revision that was reached; nothing if a snapshot is needed.
    async fn follow(
        &mut self,
        mut feed: Feed,
        mut reached: Revision,
        until: Revision,
    ) -> Result<Option<Revision>> {
        while reached < until && !self.is_full() {
            let effects = match feed.next().await {
                Err(error) if error.code() == Code::Gone => return Ok(None),
                effects => effects?,
            };
            let mut rest = &effects[..];
            while let Some(first) = rest.first().filter(|_| !self.is_full()) {
                let is_same = |effect: &&Effect| effect.key == first.key && effect.version == first.version;
                let (change, after) = rest.split_at(rest.iter().take_while(is_same).count());
                rest = after;
                reached = change.last().map_or(reached, |effect| effect.revision);
                self.effects += change.len();
                if matches!(first.fact, Fact::Flushed) {
                    return Ok(None);
                }
                self.add(change);
            }
        }
        Ok(Some(reached))
    }

    fn add(&mut self, change: &[Effect]) {
        let key = &change[0].key;
        if !key.starts_with(self.prefix) || is_internal(key) || watch::is_foreign(&self.context.app.hub, key)
        {
            return;
        }
        let Some(text) = shown(change) else { return };
        self.bytes += text.len();
        match self.at.get(key) {
            // The client gets the last state of each key.
            Some(at) => self.changes[*at] = text,
            None => {
                self.at.insert(key.clone(), self.changes.len());
                self.changes.push(text);
            }
        }
    }
}

/// A change of a key; nothing if only its expiry changed.
fn shown(change: &[Effect]) -> Option<String> {
    let (key, version) = (&change[0].key, change[0].version.0);
    let document = |text: Bytes| {
        let expires_at = change.iter().rev().find_map(|effect| match effect.fact {
            Fact::Expiry(at) => Some(at),
            _ => None,
        });
        let expires_at = expires_at.unwrap_or(Millis::NEVER);
        response::object(key, Some(&Document { text, version, expires_at }))
    };
    let deleted = || format!("{{\"key\":{},\"deleted\":true}}", written::shown(key));
    let fact =
        change.iter().rev().map(|effect| &effect.fact).find(|fact| !matches!(fact, Fact::Expiry(_)))?;
    Some(match fact {
        Fact::Json(text) => document(text.clone()),
        Fact::Str(bytes) => documents::of_string(bytes).map_or_else(|_| deleted(), document),
        // Deleted, or a value that is not a document.
        _ => deleted(),
    })
}
