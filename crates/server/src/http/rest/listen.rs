//! Messages of channels as server-sent events: `subscribe,ch,1`, then `message,ch,payload`. Touches the bus of the hub.
//!
//! A client that goes ends its connection, which drops the listener, which then no longer listens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use keystead_commands::hub::{Hub, Message, Subscribed};
use keystead_commands::session::Session;
use keystead_model::Bytes as Name;

use super::super::events::{self, Source};
use super::super::here::Here;
use super::super::reply::Reply;
use super::super::request::Asked;
use super::body::Refused;
use super::{answer, path};
use crate::limits::REST_CHANNELS_MAX;

pub(super) fn to_channels(here: &Here, asked: &Asked) -> Reply {
    listen(here, asked, Subscribed::Channel, "subscribe")
}

pub(super) fn to_patterns(here: &Here, asked: &Asked) -> Reply {
    listen(here, asked, Subscribed::Pattern, "psubscribe")
}

fn listen(here: &Here, asked: &Asked, kind: Subscribed, word: &str) -> Reply {
    let names = match path::segments(asked.head.uri.path()) {
        Ok(segments) => segments,
        Err(refused) => return answer::refused(refused),
    };
    let names = names.into_iter().skip(1).map(|name| Name::from(&*name)).filter(|name| !name.is_empty());
    let names: Vec<Name> = names.collect();
    if names.is_empty() {
        return answer::refused(Refused("ERR name a channel in the path: /subscribe/CHANNEL"));
    }
    if names.len() > REST_CHANNELS_MAX {
        return answer::refused(Refused("ERR too many channels in one request"));
    }
    let client = here.app.hub.clients.unlisted(here.session.borrow().client.address.clone(), here.app.now());
    let mut session = Session::new(client, true);
    let mut first = Vec::new();
    for name in names {
        here.app.hub.bus.subscribe(kind, &name, session.client.id, &session.mailbox);
        let shown = String::from_utf8_lossy(&name).into_owned();
        session.names(kind).insert(name);
        events::event(&format!("{word},{shown},{}", session.subscriptions()), &mut first);
    }
    let hub = Arc::clone(&here.app.hub);
    events::stream(&here.app, Listener { hub, session, first: Some(first.into()) })
}

/// One who listens.
struct Listener {
    hub: Arc<Hub>,
    session: Session,
    /// What it is told before anything else.
    first: Option<Bytes>,
}

impl Source for Listener {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        match self.session.mailbox.take(cx.waker()) {
            // It reads too slowly, and is told so by the end.
            None => Poll::Ready(None),
            Some(messages) if messages.is_empty() => Poll::Pending,
            Some(messages) => Poll::Ready(Some(shown(&messages).into())),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.session.leave(&self.hub);
    }
}

fn shown(messages: &VecDeque<Message>) -> Vec<u8> {
    let mut out = Vec::new();
    for message in messages {
        let (channel, content) =
            (String::from_utf8_lossy(&message.channel), String::from_utf8_lossy(&message.content));
        let text = match &message.pattern {
            Some(pattern) => format!("pmessage,{},{channel},{content}", String::from_utf8_lossy(pattern)),
            None => format!("message,{channel},{content}"),
        };
        events::event(&text, &mut out);
    }
    out
}
