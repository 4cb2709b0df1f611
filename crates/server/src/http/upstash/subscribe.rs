//! Messages of channels as server-sent events: `subscribe,ch,1`, then `message,ch,payload`; and every command, for
//! monitors. Touches the hub.
//!
//! When the client disconnects, its connection drops the [`Subscriber`], which ends its subscriptions.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use keystead_commands::hub::{Hub, Mailbox, Message, Subscribed};
use keystead_commands::session::Session;
use keystead_model::Bytes as Name;

use super::super::context::HttpContext;
use super::super::events::{self, Source};
use super::super::reply::Reply;
use super::super::request::HttpRequest;
use super::body::BodyError;
use super::{path, response};
use crate::bounds::REST_CHANNELS_MAX;

pub(super) fn to_channels(context: &HttpContext, request: &HttpRequest) -> Reply {
    listen(context, request, Subscribed::Channel, "subscribe")
}

pub(super) fn to_patterns(context: &HttpContext, request: &HttpRequest) -> Reply {
    listen(context, request, Subscribed::Pattern, "psubscribe")
}

/// The channels or patterns in the path.
pub(super) fn names_of(request: &HttpRequest) -> Result<Vec<Name>, BodyError> {
    let names = path::segments(request.head.uri.path())?;
    let names = names.into_iter().skip(1).map(|name| Name::from(&*name)).filter(|name| !name.is_empty());
    let names: Vec<Name> = names.collect();
    match names.len() {
        0 => Err(BodyError("ERR name a channel in the path: /subscribe/CHANNEL")),
        count if count > REST_CHANNELS_MAX => Err(BodyError("ERR too many channels in one request")),
        _ => Ok(names),
    }
}

fn listen(context: &HttpContext, request: &HttpRequest, kind: Subscribed, word: &str) -> Reply {
    let names = match names_of(request) {
        Ok(names) => names,
        Err(error) => return response::bad_request(error),
    };
    let mut session = new_session(context);
    let mut first = Vec::new();
    for name in names {
        context.app.hub.bus.subscribe(kind, &name, session.client.id, &session.mailbox);
        let shown = String::from_utf8_lossy(&name).into_owned();
        session.names(kind).insert(name);
        events::event(&format!("{word},{shown},{}", session.subscriptions()), &mut first);
    }
    let mailbox = Arc::clone(&session.mailbox);
    stream(context, session, mailbox, first, message)
}

/// Every command that runs from now on.
pub(super) fn to_commands(context: &HttpContext) -> Reply {
    let (mut session, mailbox) = (new_session(context), Arc::new(Mailbox::default()));
    context.app.hub.monitors.subscribe(session.client.id, &mailbox);
    session.monitor = Some(Arc::clone(&mailbox));
    let mut first = Vec::new();
    events::event("\"OK\"", &mut first);
    stream(context, session, mailbox, first, |message| String::from_utf8_lossy(&message.content).into_owned())
}

/// A session that ends with its request.
fn new_session(context: &HttpContext) -> Session {
    let address = context.session.borrow().client.address.clone();
    Session::new(context.app.hub.clients.unlisted(address, context.app.now()), true)
}

fn stream(
    context: &HttpContext,
    session: Session,
    mailbox: Arc<Mailbox>,
    first: Vec<u8>,
    text: Text,
) -> Reply {
    *context.listening.borrow_mut() = Arc::downgrade(&mailbox);
    let hub = Arc::clone(&context.app.hub);
    events::stream(&context.app, Subscriber { hub, session, mailbox, first: Some(first.into()), text })
}

/// The text of a message for the client.
type Text = fn(&Message) -> String;

/// One subscriber.
struct Subscriber {
    hub: Arc<Hub>,
    session: Session,
    mailbox: Arc<Mailbox>,
    /// The first events.
    first: Option<Bytes>,
    text: Text,
}

impl Source for Subscriber {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        match self.mailbox.take(cx.waker()) {
            None => Poll::Ready(Some(Err(io::Error::other("this client reads too slowly")))),
            Some(messages) if messages.is_empty() => Poll::Pending,
            Some(messages) => {
                let mut out = Vec::new();
                messages.iter().for_each(|message| events::event(&(self.text)(message), &mut out));
                Poll::Ready(Some(Ok(out.into())))
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.session.leave(&self.hub);
    }
}

/// The text of a message of a channel.
pub(super) fn message(message: &Message) -> String {
    let (channel, content) =
        (String::from_utf8_lossy(&message.channel), String::from_utf8_lossy(&message.content));
    match &message.pattern {
        Some(pattern) => format!("pmessage,{},{channel},{content}", String::from_utf8_lossy(pattern)),
        None => format!("message,{channel},{content}"),
    }
}
