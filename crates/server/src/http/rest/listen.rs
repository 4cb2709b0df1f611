//! Messages of channels as server-sent events: `subscribe,ch,1`, then `message,ch,payload`; and every command, for those who
//! watch. Touches the hub.
//!
//! A client that goes ends its connection, which drops the listener, which then no longer listens.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use keystead_commands::hub::{Hub, Mailbox, Message, Subscribed};
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
    let mut session = visitor(here);
    let mut first = Vec::new();
    for name in names {
        here.app.hub.bus.subscribe(kind, &name, session.client.id, &session.mailbox);
        let shown = String::from_utf8_lossy(&name).into_owned();
        session.names(kind).insert(name);
        events::event(&format!("{word},{shown},{}", session.subscriptions()), &mut first);
    }
    let mailbox = Arc::clone(&session.mailbox);
    stream(here, session, mailbox, first, message)
}

/// Every command that runs from now on.
pub(super) fn to_commands(here: &Here) -> Reply {
    let (mut session, mailbox) = (visitor(here), Arc::new(Mailbox::default()));
    here.app.hub.monitors.subscribe(session.client.id, &mailbox);
    session.monitor = Some(Arc::clone(&mailbox));
    let mut first = Vec::new();
    events::event("\"OK\"", &mut first);
    stream(here, session, mailbox, first, |message| String::from_utf8_lossy(&message.content).into_owned())
}

/// Somebody who listens for as long as its request lasts.
fn visitor(here: &Here) -> Session {
    let address = here.session.borrow().client.address.clone();
    Session::new(here.app.hub.clients.unlisted(address, here.app.now()), true)
}

fn stream(here: &Here, session: Session, mailbox: Arc<Mailbox>, first: Vec<u8>, text: Text) -> Reply {
    *here.listening.borrow_mut() = Arc::downgrade(&mailbox);
    let hub = Arc::clone(&here.app.hub);
    events::stream(&here.app, Listener { hub, session, mailbox, first: Some(first.into()), text })
}

/// What the client reads of a message.
type Text = fn(&Message) -> String;

/// One who listens.
struct Listener {
    hub: Arc<Hub>,
    session: Session,
    mailbox: Arc<Mailbox>,
    /// What it is told before anything else.
    first: Option<Bytes>,
    text: Text,
}

impl Source for Listener {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        match self.mailbox.take(cx.waker()) {
            None => Poll::Ready(Some(Err(io::Error::other("this reader is too slow")))),
            Some(messages) if messages.is_empty() => Poll::Pending,
            Some(messages) => {
                let mut out = Vec::new();
                messages.iter().for_each(|message| events::event(&(self.text)(message), &mut out));
                Poll::Ready(Some(Ok(out.into())))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.session.leave(&self.hub);
    }
}

fn message(message: &Message) -> String {
    let (channel, content) =
        (String::from_utf8_lossy(&message.channel), String::from_utf8_lossy(&message.content));
    match &message.pattern {
        Some(pattern) => format!("pmessage,{},{channel},{content}", String::from_utf8_lossy(pattern)),
        None => format!("message,{channel},{content}"),
    }
}
