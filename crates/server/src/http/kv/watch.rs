//! Changes of documents: all of a key or prefix as server-sent events. Touches the shard of the key, and the change feeds of the shards.
//!
//! On a node of a cluster, the events of a key end when another node owns it.
//!
//! The id of an event is the revisions of the shards, so that a client that reconnects with `Last-Event-ID` misses nothing. In a cluster
//! they are those of one node, which is named: another node begins anew, with the current document.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes as Part;
use hyper::header::HeaderName;
use keystead_cluster::NodeId;
use keystead_commands::documents::{self, Document};
use keystead_commands::hub::Hub;
use keystead_core::{Code, Error, Millis, Result, Revision, ShardId, key};
use keystead_engine::{Changes, Completion, Engine, Feed};
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact};
use keystead_model::keyspace::Keyspace;
use tokio::sync::watch;

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::events::{self, Source};
use super::super::reply::Reply;
use super::super::request::HttpRequest;
use super::response;
use crate::app::App;
use crate::written;

/// Batches without an event after which a watcher yields.
const SILENT_BATCHES: usize = 16;

/// Other changes after which a watcher is sent its current position, so that it is not too old when the client reconnects.
const UNREPORTED_CHANGES: usize = 1000;

pub(in crate::http) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The current document, and then all its changes.
pub(super) async fn of_key(context: &HttpContext, request: &HttpRequest, key: Bytes) -> ApiResult {
    let engine = &context.app.engine;
    let shard = engine.shard_of(&key);
    let mut first = Vec::new();
    let (id, feed) = match last_event_id(context, request)? {
        Some(id) => {
            let feed = engine.subscribe(shard, id.revisions[shard.0])?;
            (id, feed)
        }
        None => {
            // The feed begins before the document is read; changes that the read has seen are not sent again.
            let (_, feed) = from_now(engine, shard)?;
            let mut id =
                EventId::of(context, engine.shard_ids().map(|shard| engine.revision(shard)).collect());
            let name = key.clone();
            let look = move |keys: &mut Keyspace, now: Millis| {
                let found = documents::get(keys, &name, now);
                // The revision of the key, or of the shard where the key is absent: both are durable when the response is.
                let seen = keys.revision_of(&name, now).map(|seen| seen.unwrap_or_else(|| keys.revision()));
                ((found, seen), Completion::Commit)
            };
            let (found, seen) = context.run_at(shard, false, look).await?;
            let document = found?;
            id.revisions[shard.0] = id.revisions[shard.0].max(seen?);
            let name = if document.is_some() { "put" } else { "delete" };
            write_event(name, &id, &response::object(&key, document.as_ref()), &mut first);
            (id, feed)
        }
    };
    let wanted = Wanted::Key(key);
    let feeds = vec![follow(shard, feed)];
    let hub = Arc::clone(&context.app.hub);
    let (first, moves) = (Some(first.into()), moves(&context.app));
    Ok(events::stream(&context.app, Watching { wanted, hub, id, feeds, moves, first, unsent: 0 }))
}

/// All changes of documents whose keys have this prefix.
pub(super) fn of_prefix(context: &HttpContext, request: &HttpRequest, prefix: &[u8]) -> ApiResult {
    let known = last_event_id(context, request)?;
    let begin = EventId::of(context, Vec::new());
    Ok(of_prefix_since(context, prefix, known.as_ref().map(|known| &known.revisions[..]), begin)?)
}

/// The same after these revisions, or from now on. The id of an event begins as `begin` does.
pub(in crate::http) fn of_prefix_since(
    context: &HttpContext,
    prefix: &[u8],
    known: Option<&[Revision]>,
    begin: EventId,
) -> Result<Reply> {
    let engine = &context.app.engine;
    let shards = engine.shards();
    let (mut revisions, mut feeds) = (Vec::with_capacity(shards), Vec::with_capacity(shards));
    for shard in engine.shard_ids() {
        let (revision, feed) = match known {
            Some(known) => {
                let revision = known[shard.0];
                (revision, engine.subscribe(shard, revision)?)
            }
            None => from_now(engine, shard)?,
        };
        revisions.push(revision);
        feeds.push(follow(shard, feed));
    }
    let wanted = Wanted::Prefix(prefix.to_vec());
    let (hub, id) = (Arc::clone(&context.app.hub), EventId { revisions, ..begin });
    // At once, so that the client knows that the stream has begun, and where it continues if it is lost before the first event.
    let first = Some(format!(": listening\nid: {id}\n\n").into());
    Ok(events::stream(&context.app, Watching { wanted, hub, id, feeds, moves: None, first, unsent: 0 }))
}

/// A feed of the next changes, and the revision that it begins after. Without a journal the changes in between are not stored, so
/// a busy shard may need a few attempts.
fn from_now(engine: &Engine, shard: ShardId) -> Result<(Revision, Feed)> {
    const TRIES: usize = 1000;
    let mut tries = 0;
    loop {
        let revision = engine.revision(shard);
        match engine.subscribe(shard, revision) {
            Err(error) if error.code() == Code::Gone && tries < TRIES => tries += 1,
            feed => return Ok((revision, feed?)),
        }
    }
}

/// The id of an event: up to which revision the changes of each shard were sent.
pub(in crate::http) struct EventId {
    /// The node, in a cluster.
    pub(in crate::http) node: Option<NodeId>,
    /// The database, in a cursor of offline sync.
    pub(in crate::http) database: Option<String>,
    pub(in crate::http) revisions: Vec<Revision>,
}

impl EventId {
    fn of(context: &HttpContext, revisions: Vec<Revision>) -> EventId {
        let node = context.app.hub.cluster.get().map(|cluster| cluster.me().id.clone());
        EventId { node, database: None, revisions }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "{node}:")?;
        }
        if let Some(database) = &self.database {
            write!(f, "{database}.")?;
        }
        let revisions: Vec<String> = self.revisions.iter().map(Revision::to_string).collect();
        f.write_str(&revisions.join("-"))
    }
}

/// The last event that a client has seen. Another node of the cluster begins anew.
fn last_event_id(
    context: &HttpContext,
    request: &HttpRequest,
) -> std::result::Result<Option<EventId>, ApiError> {
    let Some(value) = request.head.headers.get(&LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let (node, text) = text.split_once(':').map_or((None, text), |(node, text)| (Some(node), text));
    let id = EventId::of(context, Vec::new());
    if id.node.as_ref().map(NodeId::as_str) != node {
        return Ok(None);
    }
    let revisions: Option<Vec<Revision>> =
        text.split('-').map(|revision| revision.parse().ok().map(Revision)).collect();
    match revisions {
        Some(revisions) if revisions.len() == context.app.engine.shards() => {
            Ok(Some(EventId { revisions, ..id }))
        }
        _ => Err(ApiError::bad("this Last-Event-ID is not the id of an event")),
    }
}

enum Wanted {
    Key(Bytes),
    Prefix(Vec<u8>),
}

impl Wanted {
    fn has(&self, key: &[u8]) -> bool {
        match self {
            Wanted::Key(wanted) => *wanted == *key,
            Wanted::Prefix(prefix) => key.starts_with(prefix) && !documents::is_internal(key),
        }
    }
}

type Next = Pin<Box<dyn Future<Output = (ShardId, Feed, Result<Changes>)> + Send>>;

fn follow(shard: ShardId, mut feed: Feed) -> Next {
    Box::pin(async move {
        let changes = feed.next().await;
        (shard, feed, changes)
    })
}

/// Ready when slots have changed hands since it was ready the last time, and the first time at once.
type Moves = Pin<Box<dyn Future<Output = watch::Receiver<u64>> + Send>>;

/// Nothing without a cluster.
fn moves(app: &Arc<App>) -> Option<Moves> {
    let mut changes = app.cluster.get()?.mover()?.changes();
    changes.mark_changed();
    Some(next_move(changes))
}

fn next_move(mut changes: watch::Receiver<u64>) -> Moves {
    Box::pin(async move {
        if changes.changed().await.is_err() {
            // The server is ending, and with it every stream.
            std::future::pending::<()>().await;
        }
        changes
    })
}

/// The stream of one watcher.
struct Watching {
    wanted: Wanted,
    hub: Arc<Hub>,
    id: EventId,
    feeds: Vec<Next>,
    /// For one key on a node of a cluster.
    moves: Option<Moves>,
    first: Option<Part>,
    /// Changes since the client was last sent its position.
    unsent: usize,
}

impl Source for Watching {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Part>>> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(first)));
        }
        while let Some(changes) = self.moves.as_mut().and_then(|moves| ready(moves.as_mut().poll(cx))) {
            self.moves = Some(next_move(changes));
            if self.has_moved() {
                return Poll::Ready(None);
            }
        }
        let mut silent = 0;
        for n in 0..self.feeds.len() {
            while let Poll::Ready((shard, feed, changes)) = self.feeds[n].as_mut().poll(cx) {
                self.feeds[n] = follow(shard, feed);
                let changes = match changes {
                    Ok(changes) => changes,
                    Err(error) => return Poll::Ready(Some(Err(broken(&error)))),
                };
                let mut out = Vec::new();
                self.write_events(shard, &changes, &mut out);
                self.unsent = if out.is_empty() { self.unsent + changes.len() } else { 0 };
                if self.unsent >= UNREPORTED_CHANGES {
                    self.unsent = 0;
                    write_id(&self.id, &mut out);
                    out.extend_from_slice(b"\n\n");
                }
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(out.into())));
                }
                silent += 1;
                if silent >= SILENT_BATCHES {
                    // Many changes of other keys must not block the shard's loop.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
        Poll::Pending
    }
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Whether a key is another node's.
pub(in crate::http) fn is_foreign(hub: &Hub, name: &[u8]) -> bool {
    hub.cluster.get().is_some_and(|cluster| !cluster.owns(key::slot(name)))
}

/// The client reconnects with its `Last-Event-ID`, and gets 410 if that is too old.
fn broken(error: &Error) -> io::Error {
    let too_slow = error.code() == Code::Gone;
    io::Error::other(if too_slow { "this client reads too slowly".to_owned() } else { error.to_string() })
}

impl Watching {
    /// Whether another node has the one key that is watched: the events end. The client connects again, and is sent there.
    fn has_moved(&self) -> bool {
        matches!(&self.wanted, Wanted::Key(name) if self.is_foreign(name))
    }

    /// Whether a key is another node's: copying it here, or deleting it after it has moved, is no change of it.
    fn is_foreign(&self, name: &[u8]) -> bool {
        is_foreign(&self.hub, name)
    }

    /// Writes the events of some changes. Parts of one change share its version and make one event.
    fn write_events(&mut self, shard: ShardId, changes: &[Effect], out: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(first) = changes.get(at) {
            let parts = changes[at..]
                .iter()
                .take_while(|effect| effect.key == first.key && effect.version == first.version)
                .count();
            let change = &changes[at..at + parts];
            at += parts;
            let last = change.last().map_or(Revision::ZERO, |effect| effect.revision);
            if last <= self.id.revisions[shard.0] {
                continue;
            }
            self.id.revisions[shard.0] = last;
            if matches!(first.fact, Fact::Flushed) {
                write_event("flush", &self.id, "{}", out);
            } else if self.wanted.has(&first.key) && !self.is_foreign(&first.key) {
                let (name, data) = described(change);
                write_event(name, &self.id, &data, out);
            }
        }
    }
}

/// The name and data of an event.
fn described(change: &[Effect]) -> (&'static str, String) {
    let key = &change[0].key;
    let version = change[0].version.0;
    let document = |text: Bytes| {
        let expires_at = change.iter().rev().find_map(|effect| match effect.fact {
            Fact::Expiry(at) => Some(at),
            _ => None,
        });
        let expires_at = expires_at.unwrap_or(Millis::NEVER);
        ("put", response::object(key, Some(&Document { text, version, expires_at })))
    };
    for effect in change.iter().rev() {
        match &effect.fact {
            Fact::Deleted => return ("delete", response::object(key, None)),
            Fact::Json(text) => return document(text.clone()),
            Fact::Str(bytes) => {
                if let Ok(text) = documents::of_string(bytes) {
                    return document(text);
                }
            }
            _ => {}
        }
    }
    // Only its expiry, or a value that is not a document.
    ("change", format!("{{\"key\":{},\"version\":{version}}}", written::shown(key)))
}

fn write_event(name: &str, id: &EventId, data: &str, out: &mut Vec<u8>) {
    write_id(id, out);
    out.extend_from_slice(format!("\nevent: {name}\n").as_bytes());
    events::event(data, out);
}

fn write_id(id: &EventId, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("id: {id}").as_bytes());
}
