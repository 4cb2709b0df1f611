//! One node: its connections, and a call of it with deadlines. Opens sockets.
//!
//! Invariant: a request is sent again only if it was certainly not applied: no connection could be opened, or an idle one was closed
//! before anything was sent.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use keystead_cluster::NodeId;
use keystead_core::Code;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::incoming::NodeBody;
use super::nodes::Listed;
use crate::bounds::{
    ROUTER_CALLS_MAX, ROUTER_CONNECT_TIMEOUT, ROUTER_IDLE_MAX, ROUTER_OWN_MAX, ROUTER_QUEUE_TIMEOUT,
    ROUTER_RESPONSE_TIMEOUT, ROUTER_SILENCE_TIMEOUT, ROUTER_STREAMS_MAX, WAIT_MS_MAX,
};
use crate::failure::io_words;
use crate::http::events::Source;

/// A connection to a node.
pub(super) type Sender = SendRequest<Outgoing>;

/// The body of a request to a node.
pub(super) enum Outgoing {
    /// All of it.
    Whole(Bytes),
    /// That of a client, as it arrives, and how many bytes more it may have.
    Streamed(Incoming, usize),
    /// That of a client, which a node has sent back, as it arrives.
    Returned(Box<NodeBody>),
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Outgoing::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Outgoing::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Outgoing::Returned(body) => {
                let part = ready!(body.poll_next(cx));
                Poll::Ready(part.map(|part| Ok(Frame::data(part?))))
            }
            Outgoing::Streamed(incoming, left) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| {
                    let frame = frame.map_err(io::Error::other)?;
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    *left =
                        left.checked_sub(bytes).ok_or_else(|| io::Error::other("the body is too large"))?;
                    Ok(frame)
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(bytes) => bytes.is_empty(),
            Outgoing::Streamed(incoming, _) => incoming.is_end_stream(),
            Outgoing::Returned(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outgoing::Streamed(incoming, _) => incoming.size_hint(),
            Outgoing::Returned(body) => body.size_hint(),
        }
    }
}

/// How long a response may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It comes at once.
    Call,
    /// A stream, or a long poll.
    Stream,
}

/// Why a call has no response. The text is for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// It was not sent: the node cannot be reached.
    Unreachable(String),
    /// It was not sent: too many requests are in flight.
    Full(String),
    /// It was sent, and the connection was lost.
    Lost(String),
    /// It was sent, and there was no response in time.
    TimedOut(String),
    /// The client did not send its body.
    Client(String),
    /// It was not sent, or was rejected: nobody owns the slot, or it is still being moved.
    Unserved(String),
}

impl CallError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            CallError::Unreachable(_) | CallError::Full(_) | CallError::Unserved(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            CallError::Lost(_) => StatusCode::BAD_GATEWAY,
            CallError::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
            CallError::Client(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// The stable code, and the label in metrics.
    pub(super) fn code(&self) -> &'static str {
        match self {
            CallError::Unreachable(_) => "node_unreachable",
            CallError::Full(_) => "queue_full",
            CallError::Lost(_) => "node_lost",
            CallError::TimedOut(_) => "node_timed_out",
            CallError::Client(_) => "bad_request",
            CallError::Unserved(_) => Code::TryAgain.as_str(),
        }
    }

    pub(super) fn message(&self) -> &str {
        match self {
            CallError::Unreachable(why)
            | CallError::Full(why)
            | CallError::Lost(why)
            | CallError::TimedOut(why)
            | CallError::Client(why)
            | CallError::Unserved(why) => why,
        }
    }

    /// Whether the request may have been applied.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, CallError::Lost(_) | CallError::TimedOut(_))
    }

    /// Whether it says that the node does not work.
    fn blames_node(&self) -> bool {
        !matches!(self, CallError::Full(_) | CallError::Client(_) | CallError::Unserved(_))
    }
}

/// The bounds on the calls of a node.
#[derive(Clone, Copy)]
pub(super) struct Deadlines {
    pub(super) queue: Duration,
    pub(super) connect: Duration,
    pub(super) response: Duration,
    pub(super) silence: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines {
            queue: ROUTER_QUEUE_TIMEOUT,
            connect: ROUTER_CONNECT_TIMEOUT,
            response: ROUTER_RESPONSE_TIMEOUT,
            silence: ROUTER_SILENCE_TIMEOUT,
        }
    }
}

/// A node and its connections.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) listed: Listed,
    authority: HeaderValue,
    deadlines: Deadlines,
    idle: Mutex<Vec<Sender>>,
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    owns: Arc<Semaphore>,
    broken: AtomicBool,
}

impl Node {
    pub(super) fn new(listed: &Listed, deadlines: Deadlines) -> Node {
        let authority = HeaderValue::try_from(listed.authority());
        Node {
            id: listed.id.clone(),
            listed: listed.clone(),
            authority: authority.unwrap_or_else(|_| HeaderValue::from_static("localhost")),
            deadlines,
            idle: Mutex::default(),
            calls: Arc::new(Semaphore::new(ROUTER_CALLS_MAX)),
            streams: Arc::new(Semaphore::new(ROUTER_STREAMS_MAX)),
            owns: Arc::new(Semaphore::new(ROUTER_OWN_MAX)),
            broken: AtomicBool::new(false),
        }
    }

    /// Its name and address, for messages.
    pub(super) fn shown(&self) -> String {
        format!("node {} (http://{})", self.id, self.listed.authority())
    }

    /// Its name and address by RESP, for messages.
    pub(super) fn shown_resp(&self) -> String {
        format!("node {} ({})", self.id, self.resp().unwrap_or_default())
    }

    /// The right to one more connection that belongs to one client.
    pub(super) fn own_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.owns).try_acquire_owned().ok()
    }

    /// The URL of its HTTP listener.
    pub(super) fn http(&self) -> String {
        format!("http://{}", self.listed.authority())
    }

    /// The URL of its RESP listener.
    pub(super) fn resp(&self) -> Option<String> {
        self.listed.resp.as_ref().map(|resp| format!("redis://{}", resp.authority()))
    }

    /// Whether it did not reply to the last request or check.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request whose URI is a path, and returns the response, whose body is still to arrive.
    pub(super) async fn call(
        self: &Arc<Self>,
        request: Request<Outgoing>,
        kind: Kind,
    ) -> Result<Response<NodeBody>, CallError> {
        let called = self.try_call(request, kind).await;
        match &called {
            Ok(_) => self.note(None),
            Err(error) if error.blames_node() => self.note(Some(error)),
            Err(_) => {}
        }
        called
    }

    /// Notes whether the node replies. A change is logged.
    fn note(&self, failed: Option<&CallError>) {
        let was_broken = self.broken.swap(failed.is_some(), Ordering::Relaxed);
        match failed {
            Some(error) if !was_broken => {
                tracing::warn!("{} does not reply: {}", self.shown(), error.message());
            }
            None if was_broken => tracing::warn!("{} replies again", self.shown()),
            _ => {}
        }
    }

    /// Notes that it did not reply to a check in time.
    pub(super) fn note_silent(&self) {
        self.note(Some(&CallError::TimedOut("it did not reply to a check in time".to_owned())));
    }

    async fn try_call(
        self: &Arc<Self>,
        mut request: Request<Outgoing>,
        kind: Kind,
    ) -> Result<Response<NodeBody>, CallError> {
        let permit = self.permit(kind).await?;
        request.headers_mut().insert(HOST, self.authority.clone());
        loop {
            let idle = self.take_idle();
            let is_new = idle.is_none();
            let mut sender = match idle {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            let within = match kind {
                Kind::Call => self.deadlines.response,
                Kind::Stream => self.deadlines.response + Duration::from_millis(WAIT_MS_MAX),
            };
            let sent = match timeout(within, sender.try_send_request(request)).await {
                Ok(sent) => sent,
                Err(_) => {
                    return Err(CallError::TimedOut(format!(
                        "{} did not respond within {within:?}",
                        self.shown()
                    )));
                }
            };
            match sent {
                Ok(response) => {
                    let body =
                        |incoming| NodeBody::new(incoming, self, sender, permit, self.deadlines.silence);
                    return Ok(response.map(body));
                }
                Err(mut error) => match error.take_message() {
                    // The node has closed an idle connection: the request has not been sent.
                    Some(unsent) if !is_new => request = unsent,
                    Some(_) => {
                        return Err(CallError::Unreachable(format!(
                            "{} closed the connection",
                            self.shown()
                        )));
                    }
                    None if error.error().is_user() => {
                        return Err(CallError::Client("the body cannot be read, or is too large".to_owned()));
                    }
                    None => {
                        let why = format!("the connection to {} was lost ({})", self.shown(), error.error());
                        return Err(CallError::Lost(why));
                    }
                },
            }
        }
    }

    async fn permit(&self, kind: Kind) -> Result<OwnedSemaphorePermit, CallError> {
        let full = || {
            CallError::Full(format!("too many requests are in flight to {}: try again later", self.shown()))
        };
        match kind {
            Kind::Stream => Arc::clone(&self.streams).try_acquire_owned().map_err(|_| full()),
            Kind::Call => {
                let free = timeout(self.deadlines.queue, Arc::clone(&self.calls).acquire_owned()).await;
                free.ok().and_then(Result::ok).ok_or_else(full)
            }
        }
    }

    /// An idle connection that is not known to be closed.
    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle();
        while let Some(sender) = idle.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    async fn connect(&self) -> Result<Sender, CallError> {
        let unreachable =
            |why: &str| CallError::Unreachable(format!("{} cannot be reached: {why}", self.shown()));
        if self.listed.http.is_tls {
            return Err(unreachable("it wants TLS, which a router does not speak"));
        }
        let connecting = async {
            let stream = TcpStream::connect((self.listed.http.host.as_str(), self.listed.http.port)).await;
            let stream = stream.map_err(|error| unreachable(&io_words(&error)))?;
            // Requests are written whole, so waiting to fill a packet would only delay them.
            let _ = stream.set_nodelay(true);
            let (sender, connection) =
                handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error.to_string()))?;
            // Its error is also the error of the request under way.
            tokio::spawn(async { drop(connection.await) });
            Ok(sender)
        };
        match timeout(self.deadlines.connect, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(unreachable(&format!("no connection within {:?}", self.deadlines.connect))),
        }
    }

    /// Keeps a connection whose response has been read to its end.
    pub(super) fn give_back(self: &Arc<Self>, mut sender: Sender) {
        if sender.is_closed() {
            return;
        }
        if sender.is_ready() {
            return self.keep(sender);
        }
        // The end of the response is seen a little before the connection is free.
        let (node, within) = (Arc::clone(self), self.deadlines.connect);
        tokio::spawn(async move {
            if let Ok(Ok(())) = timeout(within, sender.ready()).await {
                node.keep(sender);
            }
        });
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle();
        if idle.len() < ROUTER_IDLE_MAX {
            idle.push(sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::router::NodeList;

    fn get() -> Request<Outgoing> {
        Request::builder().uri("/").body(Outgoing::Whole(Bytes::new())).unwrap()
    }

    #[tokio::test]
    async fn a_node_that_accepts_and_does_not_reply_times_out_with_an_unknown_outcome() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let list = NodeList::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let soon = Duration::from_millis(100);
        let deadlines = Deadlines { queue: soon, response: soon, ..Deadlines::default() };
        let node = Arc::new(Node::new(&list.nodes()[0], deadlines));
        let error = node.call(get(), Kind::Call).await.err().unwrap();
        assert_eq!(
            (error.status().as_u16(), error.code(), error.is_unknown()),
            (504, "node_timed_out", true)
        );
        assert!(node.is_broken());
        let _all = Arc::clone(&node.calls).acquire_many_owned(ROUTER_CALLS_MAX as u32).await.unwrap();
        let error = node.call(get(), Kind::Call).await.err().unwrap();
        assert_eq!((error.status().as_u16(), error.code(), error.is_unknown()), (503, "queue_full", false));
        drop(listener);
        let streams = Arc::clone(&node.streams).acquire_many_owned(ROUTER_STREAMS_MAX as u32).await.unwrap();
        assert_eq!(node.call(get(), Kind::Stream).await.err().unwrap().code(), "queue_full");
        drop(streams);
        let error = node.call(get(), Kind::Stream).await.err().unwrap();
        assert_eq!(
            (error.status().as_u16(), error.code(), error.is_unknown()),
            (503, "node_unreachable", false)
        );
    }
}
