//! The body of a node's response: passed on as it arrives, read whole where several are put together. Touches the node's
//! connection.
//!
//! When the client disconnects, the body is dropped, and with it the connection to the node.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

use super::node::{Node, Sender};
use crate::http::events::Source;

/// A response's body. The connection is kept when all of it was read.
pub(super) struct NodeBody {
    /// What was read of it already.
    first: Option<Bytes>,
    incoming: Incoming,
    node: Arc<Node>,
    sender: Option<Sender>,
    has_ended: bool,
    _permit: OwnedSemaphorePermit,
    within: Duration,
    /// Runs while nothing arrives.
    silence: Option<Pin<Box<Sleep>>>,
    /// Ends a stream when the router stops.
    stopping: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl NodeBody {
    pub(super) fn new(
        incoming: Incoming,
        node: &Arc<Node>,
        sender: Sender,
        permit: OwnedSemaphorePermit,
        within: Duration,
    ) -> NodeBody {
        NodeBody {
            first: None,
            incoming,
            node: Arc::clone(node),
            sender: Some(sender),
            has_ended: false,
            _permit: permit,
            within,
            silence: None,
            stopping: None,
        }
    }

    /// Ends when this happens.
    pub(super) fn until(mut self, stopping: impl Future<Output = ()> + Send + 'static) -> NodeBody {
        self.stopping = Some(Box::pin(stopping));
        self
    }

    /// How long it is, as far as that is known.
    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    /// All of it, if it is not over the bound.
    pub(super) async fn whole(mut self, most: usize) -> io::Result<Bytes> {
        let mut all = BytesMut::new();
        while let Some(part) = self.next().await {
            all.extend_from_slice(&part?);
            if all.len() > most {
                return Err(io::Error::other(format!("the response of {} is too large", self.node.shown())));
            }
        }
        Ok(all.freeze())
    }

    /// All of it, if it is not over the bound. It can be passed on nevertheless.
    pub(super) async fn peek_whole(&mut self, most: usize) -> io::Result<Option<Bytes>> {
        let mut all = BytesMut::new();
        while all.len() <= most {
            match self.next().await {
                Some(part) => all.extend_from_slice(&part?),
                None => break,
            }
        }
        let all = all.freeze();
        self.first = Some(all.clone()).filter(|all| !all.is_empty());
        Ok((all.len() <= most).then_some(all))
    }

    /// The next part.
    pub(super) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn is_silent(&mut self, cx: &mut Context<'_>) -> bool {
        let within = self.within;
        self.silence.get_or_insert_with(|| Box::pin(sleep(within))).as_mut().poll(cx).is_ready()
    }
}

impl Source for NodeBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        if self.stopping.as_mut().is_some_and(|stopping| stopping.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(None);
        }
        loop {
            return match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.silence = None;
                    match frame.into_data() {
                        Ok(bytes) => Poll::Ready(Some(Ok(bytes))),
                        // Trailers are not passed on.
                        Err(_) => continue,
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let why = format!("the connection to {} was lost ({error})", self.node.shown());
                    Poll::Ready(Some(Err(io::Error::other(why))))
                }
                Poll::Ready(None) => {
                    self.has_ended = true;
                    Poll::Ready(None)
                }
                Poll::Pending if self.is_silent(cx) => {
                    let why = format!("{} was silent for {:?}", self.node.shown(), self.within);
                    Poll::Ready(Some(Err(io::Error::other(why))))
                }
                Poll::Pending => Poll::Pending,
            };
        }
    }
}

impl Drop for NodeBody {
    fn drop(&mut self) {
        // The server does not ask for the end of a body whose length it knows.
        if (self.has_ended || self.incoming.is_end_stream())
            && let Some(sender) = self.sender.take()
        {
            self.node.give_back(sender);
        }
    }
}
