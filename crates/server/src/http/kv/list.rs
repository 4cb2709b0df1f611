//! `GET /kv`: the keys of all documents; `prefix=` selects, `values=true` lists the documents, `limit=` and `cursor=` make
//! pages. Touches the shards, a slice of each at a time.
//!
//! Without a limit the list is streamed, so it takes no more memory than a slice. A document that exists during the whole scan is
//! listed exactly once.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use keystead_commands::documents;
use keystead_core::{Millis, Result, ShardId};
use keystead_engine::Completion;
use keystead_model::Bytes as Name;
use keystead_model::keyspace::Keyspace;
use keystead_model::value::Kind;

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::events::Source;
use super::super::parameters::Parameters;
use super::super::reply::{self, Body};
use super::super::request::HttpRequest;
use super::params::name;
use super::response;
use super::{read, shared, watch};
use crate::bounds::{LIST_BYTES_MAX, LIST_LIMIT_MAX, LIST_SLICE};
use crate::written;

pub(super) const CURSOR: HeaderName = HeaderName::from_static("keystead-cursor");
pub(super) const LINES: &str = "application/x-ndjson";

/// The parameters of `GET /kv`.
pub(super) const LISTING: &[&str] = &[name::PREFIX, name::LIMIT, name::CURSOR, name::VALUES];
/// Its parameters when it streams changes.
pub(super) const WATCHING: &[&str] = &[name::PREFIX];

/// Keys that a list reads in one turn when it lists documents.
const SLICE_WITH_VALUES: usize = 16;

/// The lowest bits of a cursor are the shard; the others are the position within it.
const SHARD_BITS: u32 = 8;

/// What is listed.
#[derive(Clone)]
pub(in crate::http) struct Wanted {
    pub(in crate::http) prefix: Vec<u8>,
    pub(in crate::http) values: bool,
    pub(in crate::http) lines: bool,
}

/// The position of a scan of all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct ScanPosition {
    pub(in crate::http) shard: ShardId,
    pub(in crate::http) cursor: u64,
}

/// Some of the items, and where the scan continues.
struct Slice {
    items: Vec<String>,
    next: Option<ScanPosition>,
}

pub(in super::super) async fn list(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    // A read-only token may not list all keys in any API.
    request.require_write()?;
    if read::wants_events(request) {
        let parameters = Parameters::of(&request.head, WATCHING)?;
        shared::require_database(context, "streaming changes")?;
        return watch::of_prefix(context, request, parameters.bytes(name::PREFIX).unwrap_or_default());
    }
    let parameters = Parameters::of(&request.head, LISTING)?;
    let wanted = Wanted {
        prefix: parameters.bytes(name::PREFIX).unwrap_or_default().to_vec(),
        values: parameters.yes(name::VALUES)?,
        lines: read::accepts(request, LINES),
    };
    shared::require_database(context, "listing documents")?;
    let shards = context.app.engine.shards();
    let from = position(parameters.number(name::CURSOR)?.unwrap_or(0), shards)?;
    match parameters.number(name::LIMIT)? {
        None => Ok(stream(context, wanted, from)),
        Some(limit) if (1..=LIST_LIMIT_MAX as u64).contains(&limit) => {
            page(context, wanted, from, limit as usize).await
        }
        Some(_) => Err(ApiError::bad(format!("limit is 1 to {LIST_LIMIT_MAX}"))),
    }
}

fn position(cursor: u64, shards: usize) -> std::result::Result<ScanPosition, ApiError> {
    let shard = ShardId((cursor & ((1 << SHARD_BITS) - 1)) as usize);
    if shard.0 >= shards {
        return Err(ApiError::bad("this cursor was not returned by a list"));
    }
    Ok(ScanPosition { shard, cursor: cursor >> SHARD_BITS })
}

/// One page, with the cursor of the next in a header. It ends early if the documents are large.
async fn page(context: &HttpContext, wanted: Wanted, from: ScanPosition, limit: usize) -> ApiResult {
    let lines = wanted.lines;
    let (items, next) = collect(context, wanted, from, limit, LIST_BYTES_MAX).await?;
    let body = written(&items, lines, true, true);
    let mut reply = reply::bytes(StatusCode::OK, content_type(lines), body);
    if let Some(next) = next {
        let cursor = next.cursor << SHARD_BITS | next.shard.0 as u64;
        reply.headers_mut().insert(CURSOR, HeaderValue::from(cursor));
    }
    Ok(reply)
}

/// At most `limit` items of about so many bytes, and where the scan continues.
pub(in crate::http) async fn collect(
    context: &HttpContext,
    wanted: Wanted,
    from: ScanPosition,
    limit: usize,
    bytes_max: usize,
) -> Result<(Vec<String>, Option<ScanPosition>)> {
    let (mut items, mut next, mut bytes) = (Vec::new(), Some(from), 0);
    while let Some(position) = next.filter(|_| items.len() < limit && bytes < bytes_max) {
        let (wanted, most, shards) = (wanted.clone(), limit - items.len(), context.app.engine.shards());
        let run = move |keys: &mut Keyspace, now: Millis| {
            (slice(keys, &wanted, position, most, shards, now), Completion::Commit)
        };
        let slice = context.run_at(position.shard, false, run).await??;
        bytes += slice.items.iter().map(String::len).sum::<usize>();
        items.extend(slice.items);
        next = slice.next;
    }
    Ok((items, next))
}

/// All items, streamed.
fn stream(context: &HttpContext, wanted: Wanted, from: ScanPosition) -> reply::Reply {
    let mut reply = reply::bytes(StatusCode::OK, content_type(wanted.lines), Vec::new());
    let walk = Walk::new(context, wanted, from);
    *reply.body_mut() = Body::Stream(Box::new(walk));
    reply
}

fn content_type(lines: bool) -> HeaderValue {
    HeaderValue::from_static(if lines { LINES } else { "application/json" })
}

/// Items as lines, or as the beginning, middle or end of an array.
fn written(items: &[String], lines: bool, is_first: bool, is_last: bool) -> Vec<u8> {
    if lines {
        return items.iter().flat_map(|item| [item.as_bytes(), b"\n"]).flatten().copied().collect();
    }
    let mut out = Vec::new();
    if is_first {
        out.push(b'[');
    }
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item.as_bytes());
    }
    if is_last {
        out.extend_from_slice(b"]\n");
    }
    out
}

/// Reads about [`LIST_SLICE`] keys of a shard and returns at most `most` items.
fn slice(
    keys: &mut Keyspace,
    wanted: &Wanted,
    position: ScanPosition,
    most: usize,
    shards: usize,
    now: Millis,
) -> Result<Slice> {
    let mut count = most.min(if wanted.values { SLICE_WITH_VALUES } else { LIST_SLICE });
    let (items, cursor) = loop {
        let (names, cursor) = names(keys, wanted, position, count, now)?;
        match items(keys, wanted, &names, if count > 1 { LIST_BYTES_MAX } else { usize::MAX }, now) {
            Some(items) => break (items, cursor),
            // Large documents: fewer of them at a time.
            None => count /= 2,
        }
    };
    let next = match cursor {
        0 if position.shard.0 + 1 < shards => {
            Some(ScanPosition { shard: ShardId(position.shard.0 + 1), cursor: 0 })
        }
        0 => None,
        cursor => Some(ScanPosition { shard: position.shard, cursor }),
    };
    Ok(Slice { items, next })
}

/// The keys of about so many positions of a scan, and where it continues.
fn names(
    keys: &mut Keyspace,
    wanted: &Wanted,
    position: ScanPosition,
    count: usize,
    now: Millis,
) -> Result<(Vec<Name>, u64)> {
    let mut names = Vec::new();
    let cursor = keys.scan(position.cursor, count, now, |key, kind| {
        if matches!(kind, Kind::Json | Kind::Str)
            && key.starts_with(&wanted.prefix)
            && !documents::is_internal(key)
        {
            names.push(key.clone());
        }
    })?;
    Ok((names, cursor))
}

/// What is listed of these keys; nothing if that is over so many bytes.
fn items(
    keys: &mut Keyspace,
    wanted: &Wanted,
    names: &[Name],
    bytes_max: usize,
    now: Millis,
) -> Option<Vec<String>> {
    let (mut items, mut bytes) = (Vec::with_capacity(names.len()), 0);
    for name in names {
        if !wanted.values {
            items.push(if wanted.lines {
                response::object(name, None)
            } else {
                written::shown(name).to_string()
            });
            continue;
        }
        // A string that is not UTF-8, or is too large for a document, is not one.
        if let Ok(Some(document)) = documents::get(keys, name, now) {
            bytes += document.text.len();
            if bytes > bytes_max {
                return None;
            }
            items.push(response::object(name, Some(&document)));
        }
    }
    Some(items)
}

type Pending = Pin<Box<dyn Future<Output = Result<Slice>> + Send>>;

/// A scan of all shards that is streamed.
struct Walk {
    engine: keystead_engine::Engine,
    wanted: Wanted,
    pending: Option<Pending>,
    is_first: bool,
    /// Whether anything was listed, so that the next item needs a comma.
    has_items: bool,
}

impl Walk {
    fn new(context: &HttpContext, wanted: Wanted, from: ScanPosition) -> Walk {
        let engine = context.app.engine.clone();
        let mut walk = Walk { engine, wanted, pending: None, is_first: true, has_items: false };
        walk.pending = Some(walk.look(from));
        walk
    }

    fn look(&self, position: ScanPosition) -> Pending {
        let (engine, wanted) = (self.engine.clone(), self.wanted.clone());
        Box::pin(async move {
            let shards = engine.shards();
            engine
                .read_at(position.shard, move |keys, now| {
                    slice(keys, &wanted, position, LIST_SLICE, shards, now)
                })
                .await
        })
    }
}

impl Source for Walk {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let Some(pending) = &mut self.pending else { return Poll::Ready(None) };
            let result = ready!(pending.as_mut().poll(cx));
            self.pending = None;
            let Slice { items, next } = match result {
                Ok(slice) => slice,
                Err(error) => return Poll::Ready(Some(Err(io::Error::other(error)))),
            };
            self.pending = next.map(|position| self.look(position));
            let is_last = self.pending.is_none();
            let mut out = written(&items, self.wanted.lines, self.is_first, is_last);
            if !self.wanted.lines && self.has_items && !items.is_empty() {
                out.insert(0, b',');
            }
            self.has_items |= !items.is_empty();
            self.is_first = false;
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(out.into())));
            }
        }
    }
}
