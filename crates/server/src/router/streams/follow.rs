//! The stream of one node: begun, read, and begun again where it stopped when the connection is lost. Calls the node.
//!
//! Invariant: changes of documents are not read faster than the client reads them; messages of channels that the client does not read are
//! bounded, and end its stream.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::sleep;

use super::blocks::{Block, Blocks};
use super::{StreamRequest, What};
use crate::bounds::{
    ROUTER_EVENTS_BYTES_MAX, ROUTER_PART_BYTES_MAX, ROUTER_RECONNECT_PAUSE, ROUTER_RECONNECT_PAUSE_MAX,
};
use crate::http::events::MEDIA;
use crate::router::Router;
use crate::router::incoming::NodeBody;
use crate::router::node::{CallError, Kind, Node};
use crate::router::reply::part;

pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What has happened on a node.
pub(super) enum News {
    /// It streams from now on, after this position.
    Began(Option<String>),
    Block(Block),
    /// It cannot be reached, or the connection was lost. It is tried again.
    Away(CallError),
    /// It rejects the stream, and that will not change.
    Refused(StatusCode, Bytes),
}

/// What the client gets to know.
pub(super) enum Item {
    Of(
        Arc<Node>,
        News,
        #[allow(dead_code, reason = "it is given back when the item is dropped")]
        Option<OwnedSemaphorePermit>,
    ),
    /// Slots have other owners, as of this epoch.
    Moved(u64),
    /// More messages wait for the client than the bound.
    TooSlow,
}

/// The way to the client.
#[derive(Clone)]
pub(super) struct Feed {
    items: mpsc::UnboundedSender<Item>,
    /// What may wait for the client.
    room: Arc<Semaphore>,
    what: What,
}

/// The client has gone, or is too slow.
pub(super) struct Ended;

impl Feed {
    pub(super) fn new(what: What) -> (Feed, mpsc::UnboundedReceiver<Item>) {
        let (items, received) = mpsc::unbounded_channel();
        (Feed { items, room: Arc::new(Semaphore::new(ROUTER_EVENTS_BYTES_MAX)), what }, received)
    }

    pub(super) fn send(&self, item: Item) -> Result<(), Ended> {
        self.items.send(item).map_err(|_| Ended)
    }

    async fn block(&self, node: &Arc<Node>, block: Block) -> Result<(), Ended> {
        let bytes = block.lines.len().clamp(1, ROUTER_EVENTS_BYTES_MAX) as u32;
        let room = Arc::clone(&self.room);
        let room = match self.what {
            What::Changes => room.acquire_many_owned(bytes).await.ok(),
            What::Messages => room.try_acquire_many_owned(bytes).ok(),
        };
        match room {
            Some(room) => self.send(Item::Of(Arc::clone(node), News::Block(block), Some(room))),
            None => self.send(Item::TooSlow).and(Err(Ended)),
        }
    }
}

/// Follows a node until the client has gone, the node rejects it, or it is no node any more.
pub(super) async fn follow(
    router: Arc<Router>,
    asked: Arc<StreamRequest>,
    node: Arc<Node>,
    mut position: Option<String>,
    feed: Feed,
    mut go: watch::Receiver<bool>,
) {
    let mut pause = ROUTER_RECONNECT_PAUSE;
    loop {
        let lost = match begin(&router, &asked, &node, position.as_deref()).await {
            Ok(mut stream) => {
                pause = ROUTER_RECONNECT_PAUSE;
                position = stream.first.take().or(position);
                let began = News::Began(position.clone());
                if feed.send(Item::Of(Arc::clone(&node), began, None)).is_err()
                    || go.wait_for(|go| *go).await.is_err()
                {
                    return;
                }
                match stream.read(&feed, &node, &mut position).await {
                    Ok(lost) => lost,
                    Err(Ended) => return,
                }
            }
            Err(News::Away(error)) => error,
            Err(news) => return drop(feed.send(Item::Of(node, news, None))),
        };
        if !router.map().nodes.iter().any(|other| Arc::ptr_eq(other, &node))
            || feed.send(Item::Of(Arc::clone(&node), News::Away(lost), None)).is_err()
        {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(ROUTER_RECONNECT_PAUSE_MAX);
    }
}

/// A stream that has begun.
struct Stream {
    body: NodeBody,
    blocks: Blocks,
    /// The position that it begins after.
    first: Option<String>,
}

async fn begin(
    router: &Router,
    asked: &StreamRequest,
    node: &Arc<Node>,
    after: Option<&str>,
) -> Result<Stream, News> {
    let mut request = part(&asked.head, Method::GET, &asked.target, Vec::new());
    let headers = request.headers_mut();
    headers.remove(LAST_EVENT_ID);
    if let Some(Ok(id)) = after.map(HeaderValue::from_str) {
        headers.insert(LAST_EVENT_ID, id);
    }
    let response = router.call(node, request, Kind::Stream).await.map_err(News::Away)?;
    let (head, mut body) = response.into_parts();
    let is_stream = head.headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes() == MEDIA.as_bytes());
    if head.status != StatusCode::OK || !is_stream {
        let text = body.whole(ROUTER_PART_BYTES_MAX).await.unwrap_or_default();
        return Err(match head.status.is_client_error() && head.status != StatusCode::MISDIRECTED_REQUEST {
            true => News::Refused(head.status, text),
            // It loads, or is overloaded.
            false => {
                let why = format!("{} responded with {}", node.shown(), head.status.as_u16());
                News::Away(CallError::Unserved(why))
            }
        });
    }
    let (mut blocks, mut first) = (Blocks::default(), None);
    // The first block of changes is the position.
    while asked.what == What::Changes && first.is_none() {
        let lost = |why: String| News::Away(CallError::Lost(why));
        match body.next().await {
            Some(Ok(bytes)) => blocks.push(&bytes),
            Some(Err(error)) => return Err(lost(error.to_string())),
            None => return Err(lost(format!("{} ended the stream", node.shown()))),
        }
        if let Ok(Some(block)) = blocks.next() {
            first = block.id;
        }
    }
    Ok(Stream { body, blocks, first })
}

impl Stream {
    /// Passes on what comes. Returns why it has ended.
    async fn read(
        mut self,
        feed: &Feed,
        node: &Arc<Node>,
        position: &mut Option<String>,
    ) -> Result<CallError, Ended> {
        loop {
            loop {
                match self.blocks.next() {
                    Ok(None) => break,
                    Ok(Some(block)) if block.is_empty() => {}
                    Ok(Some(block)) => {
                        let id = block.id.clone();
                        feed.block(node, block).await?;
                        *position = id.or(position.take());
                    }
                    Err(_) => {
                        return Ok(CallError::Lost(format!("{} sent an event over the bound", node.shown())));
                    }
                }
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.blocks.push(&bytes),
                Some(Err(error)) => return Ok(CallError::Lost(error.to_string())),
                None => return Ok(CallError::Lost(format!("{} ended the stream", node.shown()))),
            }
        }
    }
}
