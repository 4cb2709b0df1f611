//! A connection to a node for one client: a request that waits for its keys, a large one, a transaction with WATCH. Opens sockets.
//!
//! Invariant: a connection is used again only if its state is that of a new one and the reply to its last request was read whole. One whose
//! request has no reply yet is closed with its client.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use keystead_commands::session::Protocol;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::dial::dial;
use super::event_loop::Loop;
use super::inbox::Inbox;
use crate::bounds::{ROUTER_OWN_KEPT_MAX, ROUTER_RESPONSE_TIMEOUT};
use crate::router::map::Map;
use crate::router::node::Node;
use crate::router::redirect::Redirect;

/// A connection.
pub(super) struct Own {
    pub(super) node: Arc<Node>,
    /// Its id on the node.
    pub(super) id: i64,
    protocol: Protocol,
    stream: TcpStream,
    inbox: Inbox,
    _permit: OwnedSemaphorePermit,
}

/// Why a request has no reply.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) why: String,
    /// Whether something of it was sent.
    pub(super) was_sent: bool,
}

/// The reply to a request.
pub(super) struct Called {
    pub(super) frame: Vec<u8>,
    /// Why it was not applied.
    pub(super) redirect: Option<Redirect>,
}

/// Connections without a request.
#[derive(Default)]
pub(super) struct Pool(RefCell<Vec<Own>>);

impl Pool {
    /// Closes those to nodes that have left.
    pub(super) fn keep_only(&self, map: &Map) {
        self.0.borrow_mut().retain(|own| map.nodes.iter().any(|node| Arc::ptr_eq(node, &own.node)));
    }

    fn take(&self, node: &Arc<Node>, protocol: Protocol) -> Option<Own> {
        let mut kept = self.0.borrow_mut();
        loop {
            let fits = |own: &Own| Arc::ptr_eq(&own.node, node) && own.protocol == protocol;
            let at = kept.iter().position(fits)?;
            let own = kept.swap_remove(at);
            if own.is_idle() {
                return Some(own);
            }
        }
    }

    /// Keeps a connection whose state is that of a new one.
    pub(super) fn give_back(&self, own: Own) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < ROUTER_OWN_KEPT_MAX {
            kept.push(own);
        }
    }
}

impl Own {
    /// A kept connection, or a new one.
    ///
    /// # Errors
    /// Nothing was sent.
    pub(super) async fn open(on: &Rc<Loop>, node: &Arc<Node>, protocol: Protocol) -> Result<Own, Failed> {
        if let Some(own) = on.pool.take(node, protocol) {
            return Ok(own);
        }
        let unsent = |why: String| Failed { why, was_sent: false };
        let permit = node.own_permit().ok_or_else(|| {
            let shown = node.shown_resp();
            unsent(format!("too many requests wait on connections of their own to {shown}: try again later"))
        })?;
        let token = on.shared.router.settings.token.as_ref();
        let dialled = dial(node, protocol, token).await.map_err(unsent)?;
        Ok(Own {
            node: Arc::clone(node),
            id: dialled.id,
            protocol,
            stream: dialled.stream,
            inbox: Inbox::default(),
            _permit: permit,
        })
    }

    /// Whether the node has neither closed it nor sent something.
    fn is_idle(&self) -> bool {
        let mut byte = [0; 1];
        matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Sends a request, and returns the last of its replies. `within` is how long that may take; nothing: the request waits for its keys.
    ///
    /// # Errors
    /// The connection cannot be used again.
    pub(super) async fn call(
        &mut self,
        on: &Loop,
        request: &[u8],
        frames: u32,
        within: Option<Duration>,
    ) -> Result<Called, Failed> {
        on.shared.router.metrics.record_commands(&self.node, 1);
        let shown = self.node.shown_resp();
        let calling = async {
            self.stream.write_all(request).await.map_err(|error| error.to_string())?;
            let mut redirect = None;
            for _ in 1..frames {
                let frame = self.reply().await?;
                redirect = redirect.or(on.redirect_of(&frame));
            }
            let frame = self.reply().await?;
            Ok::<_, String>(Called { redirect: redirect.or_else(|| on.redirect_of(&frame)), frame })
        };
        let lost = |why: String| Failed { why, was_sent: true };
        let called = match within {
            None => calling.await,
            Some(within) => timeout(within, calling)
                .await
                .map_err(|_| lost(format!("{shown} did not reply within {within:?}")))?,
        };
        called.map_err(|why| lost(format!("the connection to {shown} was lost ({why})")))
    }

    async fn reply(&mut self) -> Result<Vec<u8>, String> {
        poll_fn(|cx| {
            loop {
                match self.inbox.next() {
                    Err(_) => return Poll::Ready(Err("it sent what is no reply".to_owned())),
                    Ok(Some(len)) => {
                        let frame = self.inbox.front(len).to_vec();
                        self.inbox.advance(len);
                        return Poll::Ready(Ok(frame));
                    }
                    Ok(None) => {}
                }
                match std::task::ready!(self.inbox.poll_read(&mut self.stream, cx)) {
                    Ok(0) => return Poll::Ready(Err("it closed the connection".to_owned())),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Err(error.to_string())),
                }
            }
        })
        .await
    }
}

/// How long the reply to a request that does not wait may take.
pub(super) const AT_ONCE: Option<Duration> = Some(ROUTER_RESPONSE_TIMEOUT);
