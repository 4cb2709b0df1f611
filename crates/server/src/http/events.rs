//! Server-sent events: a response that continues until the client or the server ends it. Touches a timer.
//!
//! When the client disconnects, the connection drops the stream, and with it everything that the source holds.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use tokio::time::{Sleep, sleep};

use super::reply::{self, Body, Reply};
use crate::app::App;
use crate::bounds::HEARTBEAT;

/// The media type of such a response.
pub(crate) const MEDIA: &str = "text/event-stream";

/// The source of a streamed body. Each part of an event stream ends with an empty line.
pub trait Source: Send {
    /// The next bytes; nothing at the end; an error aborts the response, which the client sees.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

/// The events for one client.
struct Events {
    source: Box<dyn Source>,
    /// A comment now and then detects that the client has disconnected, and keeps proxies from closing the connection.
    heartbeat: Pin<Box<Sleep>>,
    stopping: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Source for Events {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(next) = self.source.poll_next(cx) {
            return Poll::Ready(next);
        }
        if self.heartbeat.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.heartbeat.as_mut().set(sleep(HEARTBEAT));
        Poll::Ready(Some(Ok(Bytes::from_static(b": still here\n\n"))))
    }
}

/// A response of events, until the server stops.
pub(super) fn stream(app: &Arc<App>, source: impl Source + 'static) -> Reply {
    let app = Arc::clone(app);
    stream_until(source, async move { app.stopping().await })
}

/// A response of events, until something has happened.
pub(crate) fn stream_until(
    source: impl Source + 'static,
    stopping: impl Future<Output = ()> + Send + 'static,
) -> Reply {
    let (heartbeat, stopping) = (Box::pin(sleep(HEARTBEAT)), Box::pin(stopping));
    let events = Events { source: Box::new(source), heartbeat, stopping };
    let mut reply = reply::bytes(StatusCode::OK, HeaderValue::from_static(MEDIA), Vec::new());
    *reply.body_mut() = Body::Stream(Box::new(events));
    let headers = reply.headers_mut();
    // Makes nginx forward each event at once.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

/// Bytes of a line of an event besides its text.
const LINE_BYTES: usize = b"data: \n".len();

/// Up to this many bytes, a buffer for events is doubled when it is full.
const EVENTS_DOUBLED_BYTES: usize = 1024 * 1024;

/// Appends one event with this text. Each of its lines is a line of the event.
pub(crate) fn event(text: &str, out: &mut Vec<u8>) {
    // A large text is not doubled in memory while it is copied.
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let needed = text.len() + lines * LINE_BYTES + 1;
    if needed > out.capacity() - out.len() {
        out.reserve_exact(needed.max(out.capacity().min(EVENTS_DOUBLED_BYTES)));
    }
    for line in text.split('\n') {
        out.extend_from_slice(b"data: ");
        // A lone carriage return would end the line, too.
        out.extend(line.bytes().map(|byte| if byte == b'\r' { b' ' } else { byte }));
        out.push(b'\n');
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_line_for_each_line_of_its_text() {
        let mut out = Vec::new();
        event("message,ch,a\nb\rc", &mut out);
        assert_eq!(out, b"data: message,ch,a\ndata: b c\n\n");
    }
}
