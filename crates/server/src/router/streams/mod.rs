//! Streams of all nodes as one: messages of channels (`/subscribe`, `/psubscribe`), and the changes of documents (`GET /kv` as events). Calls
//! nodes.
//!
//! | To find                               | open       |
//! |---------------------------------------|------------|
//! | the stream of one node                | `follow`   |
//! | what the client gets                  | `merged`   |
//! | the id of an event of several nodes   | `position` |
//! | where an event ends                   | `blocks`   |
//!
//! A message is published on one node, and a subscriber has a stream of every node, so it gets the message one time, whichever node that is,
//! and slots that move change nothing. Changes are reported by the owner of the document: when slots get another owner, the client gets to
//! know it by an event.

mod blocks;
mod follow;
mod merged;
mod position;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use keystead_cluster::bounds::SLOTS;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Router;
use super::map::Map;
use super::node::{CallError, Node};
use super::reply::{failed, rejected};
use crate::bounds::ROUTER_SUBSCRIBE_TIMEOUT;
use crate::http::events;
use crate::http::reply::{self, Reply};
use crate::http::routes::Access;
use crate::http::upstash;
use follow::{Feed, Item, LAST_EVENT_ID, News};
use merged::{Merged, State};
use position::Position;

/// What is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Messages,
    Changes,
}

impl What {
    fn access(self) -> Access {
        match self {
            What::Messages => Access::Upstash,
            What::Changes => Access::Documents,
        }
    }
}

/// The request of a client, for every node.
struct StreamRequest {
    what: What,
    head: Parts,
    /// Its path and query, without the token.
    target: String,
}

/// The messages of the channels or patterns in the path.
pub(super) async fn messages(router: &Arc<Router>, head: &Parts) -> Reply {
    let names = match upstash::channels_of(head.uri.path()) {
        Ok(names) => names,
        Err(words) => return upstash::error_words(StatusCode::BAD_REQUEST, words),
    };
    let path = head.uri.path();
    let word = if path.starts_with("/psubscribe") { "psubscribe" } else { "subscribe" };
    let (mut first, mut seen) = (Vec::new(), BTreeSet::new());
    for name in names.iter().filter(|name| !name.is_empty()) {
        seen.insert(name);
        let text = format!("{word},{},{}", String::from_utf8_lossy(name), seen.len());
        events::event(&text, &mut first);
    }
    let asked = StreamRequest { what: What::Messages, head: head.clone(), target: path.to_owned() };
    begin(router, asked, None, first).await
}

/// The changes of all documents, or of those with a prefix. The query is that for the nodes.
pub(super) async fn changes(router: &Arc<Router>, head: &Parts, query: &str) -> Reply {
    let known = match head.headers.get(LAST_EVENT_ID) {
        None => None,
        Some(id) => match id.to_str().ok().and_then(Position::parse) {
            Some(position) => Some(position),
            None => {
                let why =
                    "this Last-Event-ID is not the id of an event of a router's stream of several nodes";
                return rejected(Access::Documents, StatusCode::BAD_REQUEST, "bad_request", why);
            }
        },
    };
    let target = if query.is_empty() { "/kv".to_owned() } else { format!("/kv?{query}") };
    let asked = StreamRequest { what: What::Changes, head: head.clone(), target };
    begin(router, asked, known, b": listening\n".to_vec()).await
}

fn epoch(map: &Map) -> u64 {
    map.table.as_ref().map_or(0, |table| table.epoch().0)
}

/// Begins the stream of every node, and responds when it is known of each whether it has begun.
async fn begin(
    router: &Arc<Router>,
    asked: StreamRequest,
    known: Option<Position>,
    mut first: Vec<u8>,
) -> Reply {
    let (map, what) = (router.map(), asked.what);
    let (feed, mut received) = Feed::new(what);
    let (go, gone) = (watch::Sender::new(false), known.clone().unwrap_or_default());
    let mut tasks = JoinSet::new();
    let asked = Arc::new(asked);
    tasks.spawn(follow_all(Arc::clone(router), asked, Arc::clone(&map), gone, feed, go.subscribe()));
    // A node that is away may be missing only if it is known where its stream continues, or nothing is to be continued.
    let may_miss = |node: &Node| match &known {
        _ if what == What::Messages => true,
        Some(known) => known.of(node.id.as_str(), false).is_some(),
        None => false,
    };
    let mut state = State::new(what, Position { epoch: epoch(&map), ..known.clone().unwrap_or_default() });
    let is_moved = known.as_ref().is_some_and(|known| known.epoch != epoch(&map));
    match until_begun(&map, &mut received, &mut state, &mut first).await {
        Begun::Refused(status, body) => {
            return reply::bytes(status, HeaderValue::from_static("application/json"), body.to_vec());
        }
        Begun::Without(away) => {
            let missing = away.values().find(|(node, _)| !may_miss(node));
            let nobody = away.values().next().filter(|_| away.len() == map.nodes.len());
            if let Some((_, error)) = missing.or(nobody) {
                return failed(what.access(), error, false);
            }
        }
    }
    if map.nodes.is_empty() {
        return failed(what.access(), &CallError::Unserved("the cluster has no nodes".to_owned()), false);
    }
    if what == What::Changes {
        state.write_id(&mut first);
        first.push(b'\n');
        if is_moved {
            state.write_moved(&mut first);
        }
    }
    go.send_replace(true);
    let stopping = Arc::clone(router);
    let merged = Merged { received, first: Some(first.into()), state, _tasks: tasks };
    events::stream_until(merged, async move { stopping.stopping().await })
}

/// Which nodes have begun.
enum Begun {
    /// All but these.
    Without(BTreeMap<String, (Arc<Node>, CallError)>),
    /// One rejects the request, and so would the others.
    Refused(StatusCode, bytes::Bytes),
}

async fn until_begun(
    map: &Map,
    received: &mut mpsc::UnboundedReceiver<Item>,
    state: &mut State,
    first: &mut Vec<u8>,
) -> Begun {
    let mut missing: BTreeSet<&str> = map.nodes.iter().map(|node| node.id.as_str()).collect();
    let mut away = BTreeMap::new();
    let mut late = Box::pin(sleep(ROUTER_SUBSCRIBE_TIMEOUT));
    while !missing.is_empty() {
        let item = tokio::select! {
            item = received.recv() => item,
            () = &mut late => None,
        };
        let Some(item) = item else { break };
        if let Item::Of(node, news, _) = &item {
            let name = node.id.as_str();
            missing.remove(name);
            match news {
                News::Refused(status, body) => return Begun::Refused(*status, body.clone()),
                News::Away(error) => drop(away.insert(name.to_owned(), (Arc::clone(node), error.clone()))),
                News::Began(_) | News::Block(_) => drop(away.remove(name)),
            }
        }
        // Only a node that rejects it ends a stream that has not begun.
        let _ = state.write(item, first);
    }
    for node in map.nodes.iter().filter(|node| missing.contains(node.id.as_str())) {
        let why = format!("{} has not begun its stream within {ROUTER_SUBSCRIBE_TIMEOUT:?}", node.shown());
        let away_now = News::Away(CallError::TimedOut(why.clone()));
        let _ = state.write(Item::Of(Arc::clone(node), away_now, None), first);
        away.insert(node.id.as_str().to_owned(), (Arc::clone(node), CallError::TimedOut(why)));
    }
    Begun::Without(away)
}

/// Follows the nodes of this map, and those of the next ones.
async fn follow_all(
    router: Arc<Router>,
    asked: Arc<StreamRequest>,
    mut map: Arc<Map>,
    known: Position,
    feed: Feed,
    go: watch::Receiver<bool>,
) {
    let mut changes = router.maps.changes();
    let mut tasks = JoinSet::new();
    let begin = |tasks: &mut JoinSet<()>, node: &Arc<Node>, after: Option<String>| {
        let (router, asked, node) = (Arc::clone(&router), Arc::clone(&asked), Arc::clone(node));
        tasks.spawn(follow::follow(router, asked, node, after, feed.clone(), go.clone()));
    };
    for node in &map.nodes {
        begin(&mut tasks, node, known.of(node.id.as_str(), map.is_cluster()));
    }
    loop {
        let next = router.map();
        // A node that has left is followed until it ends its stream.
        for node in &next.nodes {
            if !map.nodes.iter().any(|other| Arc::ptr_eq(other, node)) {
                begin(&mut tasks, node, None);
            }
        }
        let is_moved = (0..SLOTS).any(|slot| match (map.owner(slot), next.owner(slot)) {
            (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
            (before, after) => before.is_some() != after.is_some(),
        });
        map = next;
        if is_moved && asked.what == What::Changes && feed.send(Item::Moved(epoch(&map))).is_err() {
            return;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
