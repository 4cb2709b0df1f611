//! Messages of channels, and commands as they run, as server-sent events. Touches the memory of the object.
//!
//! A subscription lives as long as its request: when the client goes, the stream is dropped, and with it the subscription.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use http::StatusCode;
use http::header::HeaderValue;
use keystead_commands::hub::{Hub, Mailbox, Message, Subscribed};
use keystead_commands::session::Session;
use keystead_http_api::upstash::{BodyError, path};
use keystead_model::Bytes;
use worker::Delay;

use crate::bounds::{CHANNELS_MAX, HEARTBEAT_MS};
use crate::database::{Database, now};
use crate::exchange::{Body, Reply};
use crate::upstash::bad_request;

const MEDIA: HeaderValue = HeaderValue::from_static("text/event-stream");

pub(crate) fn to_channels(database: &Database, path: &str) -> Reply {
    listen(database, path, Subscribed::Channel, "subscribe")
}

pub(crate) fn to_patterns(database: &Database, path: &str) -> Reply {
    listen(database, path, Subscribed::Pattern, "psubscribe")
}

fn names_of(path: &str) -> Result<Vec<Bytes>, BodyError> {
    let names = path::segments(path)?;
    let names: Vec<Bytes> =
        names.into_iter().skip(1).map(|name| Bytes::from(&*name)).filter(|name| !name.is_empty()).collect();
    match names.len() {
        0 => Err(BodyError("ERR name a channel in the path: /subscribe/CHANNEL")),
        count if count > CHANNELS_MAX => Err(BodyError("ERR too many channels in one request")),
        _ => Ok(names),
    }
}

fn listen(database: &Database, path: &str, kind: Subscribed, word: &str) -> Reply {
    let names = match names_of(path) {
        Ok(names) => names,
        Err(error) => return bad_request(error),
    };
    let mut session = new_session(database);
    let mut first = VecDeque::new();
    for name in names {
        database.hub.bus.subscribe(kind, &name, session.client.id, &session.mailbox);
        let shown = String::from_utf8_lossy(&name).into_owned();
        session.names(kind).insert(name);
        first.push_back(event(&format!("{word},{shown},{}", session.subscriptions())));
    }
    let mailbox = Arc::clone(&session.mailbox);
    stream(Subscriber {
        hub: Arc::clone(&database.hub),
        session,
        mailbox,
        ready: first,
        text: message,
        heartbeat: heartbeat(),
    })
}

/// Every command that runs from now on.
pub(crate) fn to_commands(database: &Database) -> Reply {
    let (mut session, mailbox) = (new_session(database), Arc::new(Mailbox::default()));
    database.hub.monitors.subscribe(session.client.id, &mailbox);
    session.monitor = Some(Arc::clone(&mailbox));
    let text: Text = |message| String::from_utf8_lossy(&message.content).into_owned();
    let ready = VecDeque::from([event("\"OK\"")]);
    stream(Subscriber {
        hub: Arc::clone(&database.hub),
        session,
        mailbox,
        ready,
        text,
        heartbeat: heartbeat(),
    })
}

fn new_session(database: &Database) -> Session {
    Session::new(database.hub.clients.unlisted(String::new(), now()), true)
}

fn stream(subscriber: Subscriber) -> Reply {
    let mut reply = Reply::new(StatusCode::OK, MEDIA, Vec::new());
    reply.body = Body::Events(subscriber);
    reply
}

/// One event. A line end in a text would end it, so each line has the prefix.
fn event(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for line in text.split(['\n', '\r']) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
    out
}

fn heartbeat() -> Pin<Box<Delay>> {
    Box::pin(Delay::from(Duration::from_millis(HEARTBEAT_MS)))
}

type Text = fn(&Message) -> String;

/// One subscriber.
pub(crate) struct Subscriber {
    hub: Arc<Hub>,
    session: Session,
    mailbox: Arc<Mailbox>,
    ready: VecDeque<Vec<u8>>,
    text: Text,
    heartbeat: Pin<Box<Delay>>,
}

impl Stream for Subscriber {
    type Item = worker::Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ready.is_empty() {
            let text = self.text;
            match self.mailbox.take(cx.waker()) {
                None => {
                    let error = worker::Error::RustError("this client reads too slowly".to_owned());
                    return Poll::Ready(Some(Err(error)));
                }
                Some(messages) => self.ready = messages.iter().map(|message| event(&text(message))).collect(),
            }
        }
        match self.ready.pop_front() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None if self.heartbeat.as_mut().poll(cx).is_pending() => Poll::Pending,
            None => {
                self.heartbeat = heartbeat();
                Poll::Ready(Some(Ok(b": still here\n\n".to_vec())))
            }
        }
    }
}

impl Drop for Subscriber {
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
