//! Messages of the upstream as server-sent events, each subscription on a connection of its own.
//!
//! A task reads the messages at once and puts them into a bounded mailbox, so that a client that reads slowly fills no memory of
//! the upstream. If the connection to the upstream is lost, the stream ends, and clients subscribe again.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use keystead_commands::Reply as RedisReply;
use keystead_commands::hub::{Mailbox, Message, MessageKind};
use keystead_core::Error;
use keystead_stores::redis::{Subscribed, Subscription};
use tokio::task::AbortHandle;

use super::super::super::context::HttpContext;
use super::super::super::events::{self, Source};
use super::super::super::reply::Reply;
use super::super::super::request::HttpRequest;
use super::super::response::{self, Form};
use super::super::subscribe::{message, names_of};
use super::failed;
use crate::bounds::UPSTREAM_MESSAGES_BYTES_MAX;
use crate::upstream::Forwarder;

/// Messages of the channels or patterns in the path.
pub(in super::super) async fn subscribe(
    context: &HttpContext,
    forwarder: &Forwarder,
    request: &HttpRequest,
    kind: Subscribed,
) -> Reply {
    let names: Vec<Vec<u8>> = match names_of(request) {
        Ok(names) => names.iter().map(|name| name.to_vec()).collect(),
        Err(error) => return response::bad_request(error),
    };
    let first = first_events(kind, &names);
    let subscribed = forwarder.run(|upstream| async move { upstream.subscribe(kind, &names).await }).await;
    let subscription = match subscribed.and_then(|subscribed| subscribed) {
        Ok(subscription) => subscription,
        Err(error) => return unavailable(forwarder, &error),
    };
    forwarder.count(None);
    let mailbox = Arc::new(Mailbox::default());
    let pump = forwarder.runtime().spawn(pump(subscription, Arc::clone(&mailbox)));
    *context.listening.borrow_mut() = Arc::downgrade(&mailbox);
    let listener = Listener { mailbox, first: Some(first.into()), pump: pump.abort_handle() };
    events::stream(&context.app, listener)
}

fn unavailable(forwarder: &Forwarder, error: &Error) -> Reply {
    forwarder.count(Some(error));
    response::one(&RedisReply::Error(failed(error, false)), Form::default())
}

/// The events that confirm the subscriptions.
fn first_events(kind: Subscribed, names: &[Vec<u8>]) -> Vec<u8> {
    let word = match kind {
        Subscribed::Channels => "subscribe",
        Subscribed::Patterns => "psubscribe",
    };
    let (mut first, mut distinct) = (Vec::new(), BTreeSet::new());
    for name in names {
        distinct.insert(name);
        let shown = String::from_utf8_lossy(name);
        events::event(&format!("{word},{shown},{}", distinct.len()), &mut first);
    }
    first
}

/// Moves messages until the connection is lost or the mailbox is full.
async fn pump(mut subscription: Subscription, mailbox: Arc<Mailbox>) {
    while !mailbox.is_overflown() {
        let Ok(published) = subscription.next().await else { break };
        let message = Message {
            channel: published.channel.into(),
            pattern: published.pattern.map(Into::into),
            content: published.content.into(),
            kind: MessageKind::Message,
        };
        mailbox.put(message, UPSTREAM_MESSAGES_BYTES_MAX);
    }
    mailbox.end();
}

/// One client. The subscription ends with it.
struct Listener {
    mailbox: Arc<Mailbox>,
    /// The first events.
    first: Option<Bytes>,
    pump: AbortHandle,
}

impl Source for Listener {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        match self.mailbox.take(cx.waker()) {
            None => Poll::Ready(Some(Err(io::Error::other("the messages have ended")))),
            Some(messages) if messages.is_empty() => Poll::Pending,
            Some(messages) => {
                let mut out = Vec::new();
                messages.iter().for_each(|published| events::event(&message(published), &mut out));
                Poll::Ready(Some(Ok(out.into())))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.pump.abort();
    }
}
