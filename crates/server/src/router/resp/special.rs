//! Requests that are served apart from the others: those that wait for their keys, large ones, WATCH and its EXEC, and
//! subscriptions. The next requests of the client wait for them. Calls nodes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use keystead_commands::errors;
use keystead_commands::hub::Unblock;
use keystead_commands::session::Protocol;
use keystead_commands::wire::encode;
use keystead_commands::{Args, Reply, Spec};
use keystead_core::Stopwatch;
use keystead_core::key::slot;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use super::connection::{Busy, Connection};
use super::event_loop::Loop;
use super::link::{Entry, Target};
use super::own::{AT_ONCE, Called, Failed, Own};
use crate::bounds::{ROUTER_REDIRECT_PAUSE, ROUTER_REDIRECT_TIMEOUT};
use crate::http::upstash::has_effect;
use crate::router::node::Node;
use crate::router::redirect::STILL_MOVES;

/// The result of a special request.
pub(super) struct Done {
    pub(super) frame: Vec<u8>,
    /// The connection with the watched keys, from then on.
    pub(super) watched: Option<Watched>,
}

/// Keys that are watched: all in one slot.
pub(super) struct Watched {
    own: Own,
    pub(super) slot: u16,
}

/// The node on which a request waits, and the id of its connection there. Nothing: no request waits.
pub(super) type Blocked = Option<Rc<RefCell<Option<(Arc<Node>, i64)>>>>;

/// The error of a request without a reply.
fn failed(failed: &Failed, has_effect: bool) -> Vec<u8> {
    let line = super::one_line(&failed.why);
    match failed.was_sent && has_effect {
        true => format!("-ERR {line}: it is unknown whether the command was applied\r\n").into_bytes(),
        false => format!("-ERR {line}\r\n").into_bytes(),
    }
}

/// What is sent on a connection of its own.
struct Request {
    bytes: Vec<u8>,
    frames: u32,
    target: Target,
    has_effect: bool,
    protocol: Protocol,
    /// Set while it waits for its keys.
    blocked: Blocked,
}

/// Sends a request to its owner, wherever that moves, and returns the connection if it can be used again.
async fn run(on: &Rc<Loop>, request: &Request) -> (Vec<u8>, Option<Own>) {
    let since = Stopwatch::start();
    let (mut named, mut is_first) = (None::<Arc<Node>>, true);
    loop {
        on.follow();
        let map = on.map();
        let owner = match request.target {
            Target::Slot(slot) => map.owner(slot),
            Target::Here => map.any(),
        };
        let Some(node) = named.take().or_else(|| owner.cloned()) else {
            return (b"-CLUSTERDOWN Hash slot not served\r\n".to_vec(), None);
        };
        let mut own = match Own::open(on, &node, request.protocol).await {
            Ok(own) => own,
            // It may have left the cluster.
            Err(_) if std::mem::take(&mut is_first) && map.is_cluster() => {
                on.shared.router.maps.want_next();
                sleep(ROUTER_REDIRECT_PAUSE).await;
                continue;
            }
            Err(error) => return (failed(&error, false), None),
        };
        if let Some(blocked) = &request.blocked {
            *blocked.borrow_mut() = Some((Arc::clone(&node), own.id));
        }
        let within = if request.blocked.is_some() { None } else { AT_ONCE };
        let called = own.call(on, &request.bytes, request.frames, within).await;
        if let Some(blocked) = &request.blocked {
            *blocked.borrow_mut() = None;
        }
        let Called { frame, redirect } = match called {
            Ok(called) => called,
            Err(error) => return (failed(&error, request.has_effect), None),
        };
        let Some(redirect) = redirect else { return (frame, Some(own)) };
        on.pool.give_back(own);
        on.shared.router.metrics.record_redirect(&node);
        on.shared.router.maps.want_next();
        // A request that waits is not bounded in time: each slot that moves away ends the wait one time.
        if since.elapsed() > ROUTER_REDIRECT_TIMEOUT && request.blocked.is_none() {
            return (format!("-ERR {STILL_MOVES}\r\n").into_bytes(), None);
        }
        named = redirect.named(&on.map()).filter(|other| !Arc::ptr_eq(other, &node)).cloned();
        if named.is_none() || since.elapsed() > ROUTER_REDIRECT_PAUSE {
            sleep(ROUTER_REDIRECT_PAUSE).await;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Lets the next requests wait for this one.
    fn begin(&mut self, special: impl Future<Output = Done> + 'static) {
        let is_muted = !self.session.wants_reply();
        let number = self.client.expect(is_muted);
        self.busy = Some(Busy::Special(number, Box::pin(special)));
    }

    /// A request on a connection of its own.
    pub(super) fn on_own(&mut self, spec: &'static Spec, target: Target, raw: &[u8], may_block: bool) {
        if may_block {
            self.blocked = Some(Rc::default());
            self.session.client.shown().blocked = true;
        }
        let request = Request {
            bytes: raw.to_vec(),
            frames: 1,
            target,
            has_effect: has_effect(spec),
            protocol: self.session.protocol,
            blocked: self.blocked.clone(),
        };
        self.run_own(request);
    }

    /// A transaction that is too large for a shared connection.
    pub(super) fn exec_own(&mut self, target: Target, bytes: Vec<u8>, frames: u32) {
        let protocol = self.session.protocol;
        self.run_own(Request { bytes, frames, target, has_effect: true, protocol, blocked: None });
    }

    fn run_own(&mut self, request: Request) {
        let (on, watched) = (Rc::clone(&self.on), self.watched.take());
        self.begin(async move {
            let (frame, own) = run(&on, &request).await;
            own.into_iter().for_each(|own| on.pool.give_back(own));
            Done { frame, watched }
        });
    }

    /// Ends the wait of a request as another client wants it (CLIENT UNBLOCK).
    pub(super) fn unblock(&mut self, how: Unblock) {
        let at = self.blocked.as_ref().and_then(|blocked| blocked.borrow().clone());
        let Some((node, id)) = at else { return };
        let how: &[u8] = if how == Unblock::Error { b"ERROR" } else { b"TIMEOUT" };
        let id = id.to_string();
        let mut request = Vec::new();
        super::command([&b"CLIENT"[..], b"UNBLOCK", id.as_bytes(), how].into_iter(), &mut request);
        let place = self.on.map().nodes.iter().position(|other| Arc::ptr_eq(other, &node));
        if let Some(link) = place.and_then(|at| self.on.link(at, self.session.protocol, self.lane)) {
            let entry = Entry {
                client: None,
                number: 0,
                part: 0,
                target: Target::Here,
                frames: 1,
                frames_all: 1,
                has_effect: false,
                attempts: 0,
                began: self.on.tick(),
                bytes: 0,
                redirect: None,
                resent: None,
            };
            link.push(&request, entry);
        }
    }

    /// WATCH: from here to EXEC, the keys are watched on one connection.
    pub(super) fn watch(&mut self, raw: &[u8], args: Args<'_>) {
        let first = slot(args.at(1));
        let is_one = args.from(1).all(|key| slot(key) == first);
        if !is_one || self.watched.as_ref().is_some_and(|watched| watched.slot != first) {
            return self.reply(&Reply::Error(errors::CROSS_SLOT));
        }
        let request = Request {
            bytes: raw.to_vec(),
            frames: 1,
            target: Target::Slot(first),
            has_effect: false,
            protocol: self.session.protocol,
            blocked: None,
        };
        let (on, watched) = (Rc::clone(&self.on), self.watched.take());
        self.begin(async move {
            let Some(mut watched) = watched else {
                let (frame, own) = run(&on, &request).await;
                let watched = own.filter(|_| frame.starts_with(b"+")).map(|own| Watched { own, slot: first });
                return Done { frame, watched };
            };
            match watched.own.call(&on, &request.bytes, 1, AT_ONCE).await {
                // If the slot has moved, EXEC will not run: the keys may have changed.
                Ok(Called { redirect: Some(_), .. }) => {
                    Done { frame: b"+OK\r\n".to_vec(), watched: Some(watched) }
                }
                Ok(Called { frame, .. }) => Done { frame, watched: Some(watched) },
                Err(error) => Done { frame: failed(&error, false), watched: None },
            }
        });
    }

    /// Ends WATCH.
    pub(super) fn unwatch(&mut self) {
        let Some(Watched { mut own, .. }) = self.watched.take() else { return };
        let on = Rc::clone(&self.on);
        tokio::task::spawn_local(async move {
            if own.call(&on, b"*1\r\n$7\r\nUNWATCH\r\n", 1, AT_ONCE).await.is_ok() {
                on.pool.give_back(own);
            }
        });
    }

    /// EXEC on the connection that watches.
    pub(super) fn exec_watched(&mut self, request: Vec<u8>, frames: u32) {
        let Some(Watched { mut own, .. }) = self.watched.take() else { return };
        let (on, protocol) = (Rc::clone(&self.on), self.session.protocol);
        self.begin(async move {
            let frame = match own.call(&on, &request, frames, AT_ONCE).await {
                Ok(Called { frame, redirect: None }) => {
                    on.pool.give_back(own);
                    frame
                }
                // The slot has moved, and with it what was watched. It did not run, as if a key had changed.
                Ok(_) => {
                    on.shared.router.metrics.record_redirect(&own.node);
                    on.shared.router.maps.want_next();
                    let mut nil = Vec::new();
                    encode(protocol, &Reply::NilArray, &mut nil);
                    nil
                }
                Err(error) => failed(&error, true),
            };
            Done { frame, watched: None }
        });
    }

    /// The reply to a subscription, when the nodes have it.
    pub(super) fn subscribe(&mut self, reply: &Reply) {
        let (on, watched) = (Rc::clone(&self.on), self.watched.take());
        let mut frame = Vec::new();
        encode(self.session.protocol, reply, &mut frame);
        on.shared.relay.changed();
        self.begin(async move {
            let _ = timeout(crate::bounds::ROUTER_SUBSCRIBE_TIMEOUT, on.shared.relay.settled()).await;
            Done { frame, watched }
        });
        // Its reply is the last that is waited for.
        self.subscribed_at = Some(self.client.first() + self.client.waiting() as u64 - 1);
    }
}
