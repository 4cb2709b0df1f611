//! The layer around a test service: what a response says, and that a slot is released exactly once.

use std::future::{pending, ready};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use keystead_core::{ManualClock, MemoryStore, Millis};
use tower_service::Service;

use super::*;
use crate::client::Trust;
use crate::fail_mode::FailMode;
use crate::lease::LeaseIds;
use crate::strategy::{Concurrency, FixedWindow, Gcra, LeakyBucket};
use crate::testing::{Shared, memory, now};
use crate::tier::Mode;

const START: Millis = Millis(1_700_000_000_000);

/// What the service does with a request, by its path.
#[derive(Clone)]
struct Inner;

enum Out {
    Text(Full<Bytes>),
    Fails,
    Endless,
}

impl Body for Out {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match self.get_mut() {
            Out::Text(text) => Pin::new(text).poll_frame(cx).map_err(|_| "never"),
            Out::Fails => Poll::Ready(Some(Err("broken pipe"))),
            Out::Endless => Poll::Pending,
        }
    }
}

impl Service<Request<()>> for Inner {
    type Response = Response<Out>;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Out>, &'static str>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        match request.uri().path() {
            "/hangs" => Box::pin(pending()),
            "/refuses" => Box::pin(ready(Err("no"))),
            "/body-fails" => Box::pin(ready(Ok(Response::new(Out::Fails)))),
            "/endless" => Box::pin(ready(Ok(Response::new(Out::Endless)))),
            _ => Box::pin(ready(Ok(Response::new(Out::Text(Full::from("hello")))))),
        }
    }
}

fn get(path: &str, key: &str) -> Request<()> {
    Request::builder().uri(path).header("x-key", key).body(()).unwrap()
}

fn key(request: &Parts) -> Option<String> {
    Some(request.headers.get("x-key")?.to_str().ok()?.to_string())
}

fn text(response: Response<LimitBody<Out>>) -> String {
    let bytes = now(response.into_body().collect()).map_err(|_| "broken").unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn every_response_has_headers_and_a_denial_has_retry_after() {
    let clock = ManualClock::at(START);
    let policy = FixedWindow::new(2, 60_000).unwrap();
    let limiter = Limiter::new(policy, memory(&clock), FailMode::Closed);
    let layer = LimitLayer::new(Arc::new(limiter), key).unwrap().headers(HeaderStyles::ALL);
    let mut service = layer.layer(Inner);
    let first = now(service.call(get("/", "ada"))).unwrap();
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(first.headers()["ratelimit-limit"], "2");
    assert_eq!(first.headers()["ratelimit-remaining"], "1");
    assert_eq!(first.headers()["ratelimit-policy"], "\"default\";q=2;w=60");
    assert_eq!(first.headers()["x-ratelimit-remaining"], "1");
    assert!(!first.headers().contains_key("retry-after"));
    assert_eq!(text(first), "hello");
    now(service.call(get("/", "ada"))).unwrap();
    let denied = now(service.call(get("/", "ada"))).unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    let left_ms = 60_000 - START.0 % 60_000;
    assert_eq!(denied.headers()["retry-after"], left_ms.div_ceil(1000).to_string());
    assert_eq!(denied.headers()["ratelimit-remaining"], "0");
    assert_eq!(denied.headers()["content-type"], "application/json");
    let decision: crate::Decision = serde_json::from_str(&text(denied)).unwrap();
    assert_eq!((decision.allowed, decision.retry_after_ms), (false, left_ms));
    assert_eq!(now(service.call(get("/", "bob"))).unwrap().status(), StatusCode::OK, "another key");
    let free = now(service.call(Request::new(()))).unwrap();
    assert_eq!(free.status(), StatusCode::OK);
    assert!(!free.headers().contains_key("ratelimit-limit"), "no key, no limit");
    assert_eq!(now(service.call(get("/refuses", "eve"))).err(), Some("no"));
}

#[test]
fn a_request_costs_what_the_layer_says() {
    let limiter = Limiter::in_memory(Gcra::new(10, 60_000_000, None).unwrap(), FailMode::Closed);
    let layer = LimitLayer::new(Arc::new(limiter), key).unwrap();
    let layer = layer.cost(|request| if request.uri.path() == "/dear" { 8 } else { 0 });
    let mut service = layer.layer(Inner);
    let dear = now(service.call(get("/dear", "ada"))).unwrap();
    assert_eq!(dear.headers()["ratelimit-remaining"], "2");
    assert_eq!(now(service.call(get("/dear", "ada"))).unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    let wrong = now(service.call(get("/", "ada"))).unwrap();
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
    assert_eq!(text(wrong), r#"{"code":"bad_request"}"#);
}

#[test]
fn a_failed_store_is_503_closed_and_passes_open() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    store.set_broken(true);
    let layer = |fail| {
        let limiter =
            Limiter::new(Gcra::new(1, 1000, None).unwrap(), store.clone(), fail).clock(clock.clone());
        LimitLayer::new(Arc::new(limiter), key).unwrap()
    };
    let closed = now(layer(FailMode::Closed).layer(Inner).call(get("/", "ada"))).unwrap();
    assert_eq!(closed.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(closed.headers()["retry-after"], "1");
    assert_eq!(text(closed), r#"{"code":"store_unavailable"}"#, "no internals");
    let open = now(layer(FailMode::Open).layer(Inner).call(get("/", "ada"))).unwrap();
    assert_eq!(open.status(), StatusCode::OK);
}

/// One slot, and a service behind it; `free` returns whether the slot is free.
struct Slot {
    limiter: Arc<Limiter<MemoryStore>>,
    service: LimitService<MemoryStore, Inner>,
}

impl Slot {
    fn new() -> Self {
        let limiter = Arc::new(Limiter::in_memory(Concurrency::new(1, 600_000).unwrap(), FailMode::Closed));
        let service = LimitLayer::new(limiter.clone(), key).unwrap().layer(Inner);
        Slot { limiter, service }
    }

    fn free(&self) -> bool {
        now(self.limiter.peek("ada")).unwrap().allowed
    }
}

#[test]
fn a_slot_is_held_until_the_body_has_ended() {
    let mut slot = Slot::new();
    let response = now(slot.service.call(get("/", "ada"))).unwrap();
    assert!(!slot.free(), "the response is not read yet");
    let busy = now(slot.service.call(get("/", "ada"))).unwrap();
    assert_eq!(busy.status(), StatusCode::TOO_MANY_REQUESTS);
    let mut body = response.into_body();
    assert!(now(body.frame()).unwrap().is_ok());
    assert!(!slot.free());
    assert!(now(body.frame()).is_none());
    assert!(slot.free(), "the body has ended, though it is not dropped");
    // Another request holds the slot now; dropping the first body must not release it.
    let other = now(slot.service.call(get("/endless", "ada"))).unwrap();
    drop(body);
    assert!(!slot.free(), "exactly once");
    drop(other);
    assert!(slot.free());
}

#[test]
fn a_slot_is_released_however_the_response_ends() {
    let mut slot = Slot::new();
    // The body fails.
    let mut body = now(slot.service.call(get("/body-fails", "ada"))).unwrap().into_body();
    assert!(!slot.free());
    assert!(now(body.frame()).unwrap().is_err());
    assert!(slot.free());
    drop(body);
    // The service fails.
    assert_eq!(now(slot.service.call(get("/refuses", "ada"))).err(), Some("no"));
    assert!(slot.free());
    // The client disconnects while the service runs.
    let mut call = slot.service.call(get("/hangs", "ada"));
    assert!(poll(&mut call).is_pending());
    assert!(!slot.free());
    drop(call);
    assert!(slot.free());
    // The client disconnects in the middle of the response.
    let response = now(slot.service.call(get("/endless", "ada"))).unwrap();
    assert!(!slot.free());
    drop(response);
    assert!(slot.free());
    // A call that was never polled has not checked the limit.
    drop(slot.service.call(get("/", "ada")));
    assert!(slot.free());
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[test]
fn a_slot_is_released_though_the_store_was_still_pending() {
    let store = Shared::new(&ManualClock::at(START));
    let tasks: Arc<Mutex<Vec<Task>>> = Arc::default();
    let spawned = tasks.clone();
    let limiter = Limiter::new(Concurrency::new(1, 600_000).unwrap(), store.clone(), FailMode::Closed)
        .lease_ids(LeaseIds::of_node(1))
        .spawn_with(Arc::new(move |task| spawned.lock().unwrap().push(task)));
    let limiter = Arc::new(limiter);
    let mut service = LimitLayer::new(limiter.clone(), key).unwrap().layer(Inner);
    let run_tasks = || {
        let waiting = std::mem::take(&mut *tasks.lock().unwrap());
        let count = waiting.len();
        waiting.into_iter().for_each(now);
        count
    };

    store.set_closed(true);
    let mut call = service.call(get("/", "ada"));
    assert!(poll(&mut call).is_pending());
    drop(call);
    store.set_closed(false);
    assert_eq!(run_tasks(), 1, "the outcome is unknown, so it may hold a slot");
    assert!(now(limiter.peek("ada")).unwrap().allowed);

    let response = now(service.call(get("/", "ada"))).unwrap();
    assert!(!now(limiter.peek("ada")).unwrap().allowed);
    assert_eq!(now(service.call(get("/", "ada"))).unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(run_tasks(), 0, "a denial holds nothing");
    drop(response);
    assert_eq!(run_tasks(), 1);
    assert!(now(limiter.peek("ada")).unwrap().allowed);
}

#[test]
fn a_shaper_holds_requests_back() {
    let slept = Arc::new(Mutex::new(Vec::new()));
    let log = slept.clone();
    let limiter =
        Limiter::new(LeakyBucket::new(10.0, 100).unwrap(), memory(&ManualClock::at(START)), FailMode::Closed);
    let layer = LimitLayer::shaping(Arc::new(limiter), key, move |time| {
        log.lock().unwrap().push(time.as_millis());
        Box::pin(ready(()))
    });
    let mut service = layer.unwrap().layer(Inner);
    let statuses = [0; 3].map(|_| now(service.call(get("/", "ada"))).unwrap().status());
    assert_eq!(statuses, [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
    assert_eq!(*slept.lock().unwrap(), [100]);
}

#[test]
fn a_local_tier_can_stand_before_the_store() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let policy = FixedWindow::new(4, 60_000).unwrap();
    let limiter = Limiter::new(policy, store.clone(), FailMode::Closed).clock(clock.clone());
    let tiered = Tiered::new(limiter, Mode::Leased { units: 4 }).unwrap().clock(clock);
    let mut service = LimitLayer::tiered(Arc::new(tiered), key).unwrap().layer(Inner);
    let allowed = (0..10).filter(|_| now(service.call(get("/", "ada"))).unwrap().status() == StatusCode::OK);
    assert_eq!(allowed.count(), 4);
    assert_eq!(store.applies(), 2);
}

#[test]
fn the_key_of_a_client_cannot_be_chosen_by_it() {
    let of =
        client_key(ClientAddress::new(Trust::Hops(1)), |request| request.extensions.get::<IpAddr>().copied());
    let request = |peer: Option<&str>| {
        let mut request = Request::builder().header("x-forwarded-for", "6.6.6.6");
        request = request.header("x-forwarded-for", "203.0.113.5");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        if let Some(peer) = peer {
            parts.extensions.insert(peer.parse::<IpAddr>().unwrap());
        }
        parts
    };
    assert_eq!(of(&request(Some("10.0.0.1"))).unwrap(), "203.0.113.5");
    assert_eq!(of(&request(None)).unwrap(), "unknown peer");
    // An entry that a client wrote does not hide the entry of the proxy.
    let mut bytes = request(Some("10.0.0.1"));
    let value = HeaderValue::from_bytes(b"\xe9, 203.0.113.5").unwrap();
    bytes.headers.insert("x-forwarded-for", value);
    assert_eq!(of(&bytes).unwrap(), "203.0.113.5");
}

#[test]
fn the_headers_are_those_of_the_limit_that_was_reached() {
    let layer = |limit| {
        let limiter = Limiter::in_memory(FixedWindow::new(limit, 60_000_000).unwrap(), FailMode::Closed);
        LimitLayer::new(Arc::new(limiter), key).unwrap()
    };
    let mut service = layer(100).layer(layer(1).layer(Inner));
    let reported =
        |response: Response<_>| response.headers()["ratelimit-limit"].to_str().unwrap().to_string();
    assert_eq!(reported(now(service.call(get("/", "ada"))).map_err(|_| "no").unwrap()), "1");
    let denied = now(service.call(get("/", "ada"))).map_err(|_| "no").unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()["ratelimit-remaining"], "0");
    assert_eq!(reported(denied), "1");
}

#[test]
fn invalid_layers_are_rejected() {
    let store = Shared::new(&ManualClock::at(START));
    let on = |policy: crate::Policy| Arc::new(Limiter::new(policy, store.clone(), FailMode::Closed));
    let code = |layer: Result<LimitLayer<Shared>>| layer.err().map(|error| error.code());
    let leaky = || LeakyBucket::new(1.0, 1).unwrap().into();
    let slots = || Concurrency::new(1, 1).unwrap();
    let sleep = |_| -> Pin<Box<dyn Future<Output = ()> + Send>> { Box::pin(ready(())) };
    assert_eq!(code(LimitLayer::new(on(leaky()), key)), Some(Code::ConfigInvalid));
    assert_eq!(code(LimitLayer::new(on(slots().into()), key)), Some(Code::ConfigInvalid));
    let gcra = || Gcra::new(1, 1, None).unwrap().into();
    assert_eq!(code(LimitLayer::shaping(on(gcra()), key, sleep)), Some(Code::ConfigInvalid));
    assert_eq!(code(LimitLayer::shaping(on(leaky()), key, sleep)), None);
    let tiered = Tiered::new(Limiter::new(slots(), store.clone(), FailMode::Closed), Mode::Strict).unwrap();
    assert_eq!(code(LimitLayer::tiered(Arc::new(tiered), key)), Some(Code::ConfigInvalid));
}

#[test]
fn it_is_a_service_that_others_accept() {
    fn accepts<T: Clone + Send + 'static>(_: &T) {}
    let service = Slot::new().service;
    accepts(&service);
    fn is_send<T: Send>(_: &T) {}
    is_send(&now(Slot::new().service.call(get("/", "ada"))).unwrap());
}
