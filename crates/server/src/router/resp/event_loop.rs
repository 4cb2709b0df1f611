//! What the clients of one thread share: the map, the connections to nodes, and the requests that are sent again. Touches nothing by
//! itself; threads share nothing but the map.
//!
//! Requests that a node rejected because of a slot that moves are sent again in the order in which they were rejected, and of one client
//! one at a time: the next owner may reject one and run the next, if it learns of the move between them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use keystead_commands::session::Protocol;
use keystead_core::Stopwatch;
use tokio::sync::Notify;
use tokio::time::{interval, sleep};

use super::Shared;
use super::client::Client;
use super::frame;
use super::link::{Entry, Lane, Link, Target};
use super::own::Pool;
use crate::bounds::{ROUTER_REDIRECT_PAUSE, ROUTER_REDIRECT_TIMEOUT, ROUTER_REDIRECTS_MAX, ROUTER_TICK};
use crate::router::map::Map;
use crate::router::node::Node;
use crate::router::redirect::{Redirect, STILL_MOVES};

/// The links of one node, by lane and version.
type Links = [Option<Rc<Link>>; 4];

/// One thread.
pub(super) struct Loop {
    pub(super) shared: Arc<Shared>,
    map: RefCell<Arc<Map>>,
    /// In the order of the map's nodes.
    links: RefCell<Vec<Links>>,
    pub(super) pool: Pool,
    tick: Cell<u32>,
    held: RefCell<VecDeque<Held>>,
    held_wake: Rc<Notify>,
}

/// A request that is to be sent again.
struct Held {
    entry: Entry,
    request: Vec<u8>,
    redirect: Redirect,
    /// Where it was rejected.
    link: Weak,
    /// The reply, if it cannot be sent again.
    frame: Vec<u8>,
    /// Since when it waits, and whether it must, as sending it at once would be in vain.
    since: Stopwatch,
    pauses: bool,
}

/// A request that was sent again and has no reply yet. The next one of its client is sent when this is dropped.
pub(super) struct Resent {
    client: Rc<Client>,
    wake: Rc<Notify>,
}

impl Drop for Resent {
    fn drop(&mut self) {
        self.client.end_resent();
        self.wake.notify_one();
    }
}

/// The way back to where a request was rejected.
struct Weak {
    node: Arc<Node>,
    protocol: Protocol,
    lane: Lane,
}

fn at(protocol: Protocol, lane: Lane) -> usize {
    2 * usize::from(lane == Lane::Long) + usize::from(protocol == Protocol::Resp3)
}

impl Loop {
    /// A loop whose tasks run on the present thread.
    pub(super) fn start(shared: Arc<Shared>) -> Rc<Loop> {
        let map = shared.router.map();
        let links = map.nodes.iter().map(|_| Links::default()).collect();
        let on = Rc::new(Loop {
            shared,
            map: RefCell::new(map),
            links: RefCell::new(links),
            pool: Pool::default(),
            tick: Cell::new(0),
            held: RefCell::default(),
            held_wake: Rc::default(),
        });
        tokio::task::spawn_local(tick(Rc::clone(&on)));
        tokio::task::spawn_local(send_held(Rc::clone(&on)));
        on
    }

    /// Seconds since the start.
    pub(super) fn tick(&self) -> u32 {
        self.tick.get()
    }

    /// The number of the map in force, which is followed first.
    #[inline]
    pub(super) fn follow(&self) -> u64 {
        let number = self.shared.router.maps.number();
        if self.map.borrow().number != number {
            self.learn();
        }
        number
    }

    #[cold]
    fn learn(&self) {
        let map = self.shared.router.map();
        let before = self.map.replace(Arc::clone(&map));
        let mut old = self.links.replace(Vec::new());
        let links = map.nodes.iter().map(|node| {
            let place = before.nodes.iter().position(|other| Arc::ptr_eq(node, other));
            place.map(|place| std::mem::take(&mut old[place])).unwrap_or_default()
        });
        let links = links.collect();
        old.iter().flatten().flatten().for_each(|link| link.retire());
        self.links.replace(links);
        self.pool.keep_only(&map);
    }

    pub(super) fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.borrow())
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.map.borrow().is_cluster()
    }

    /// The place of the owner of a slot.
    #[inline]
    pub(super) fn owner(&self, slot: u16) -> Option<usize> {
        self.map.borrow().owner_index(slot)
    }

    /// The place of a node that replies, as far as that is known.
    pub(super) fn any(&self) -> Option<usize> {
        let map = self.map.borrow();
        let any = map.any()?;
        map.nodes.iter().position(|node| Arc::ptr_eq(node, any))
    }

    pub(super) fn nodes(&self) -> usize {
        self.map.borrow().nodes.len()
    }

    /// The places of the nodes in the order in which scans visit them, and their tags.
    pub(super) fn scan_order(&self) -> (Vec<usize>, Vec<u16>) {
        self.map.borrow().scan_order()
    }

    /// The link to the node at this place of the map.
    #[inline]
    pub(super) fn link(self: &Rc<Self>, place: usize, protocol: Protocol, lane: Lane) -> Option<Rc<Link>> {
        let mut links = self.links.borrow_mut();
        let link = &mut links.get_mut(place)?[at(protocol, lane)];
        if let Some(link) = link {
            return Some(Rc::clone(link));
        }
        let node = Arc::clone(self.map.borrow().nodes.get(place)?);
        Some(Rc::clone(link.insert(Link::start(self, &node, protocol, lane))))
    }

    /// The link to a node, if it is in the map.
    fn link_to(self: &Rc<Self>, node: &Arc<Node>, protocol: Protocol, lane: Lane) -> Option<Rc<Link>> {
        let place = self.map.borrow().nodes.iter().position(|other| Arc::ptr_eq(node, other))?;
        self.link(place, protocol, lane)
    }

    /// What an error of a node means. Nodes of a list reject nothing.
    pub(super) fn redirect_of(&self, frame: &[u8]) -> Option<Redirect> {
        if !self.is_cluster() {
            return None;
        }
        Redirect::of_line(frame::error(frame)?)
    }

    /// Sends a request again that was rejected with `frame`.
    pub(super) fn redirect(
        self: &Rc<Self>,
        from: &Link,
        mut entry: Entry,
        request: Vec<u8>,
        redirect: Redirect,
        frame: &[u8],
    ) {
        self.shared.router.metrics.record_redirect(&from.node);
        self.shared.router.maps.want_next();
        entry.attempts += 1;
        entry.resent = None;
        let is_free =
            self.held.borrow().is_empty() && entry.client.as_ref().is_none_or(|client| client.resent() == 0);
        if let Some(client) = &entry.client {
            client.begin_redirect();
        }
        let is_first = entry.attempts == 1;
        let link = Weak { node: Arc::clone(&from.node), protocol: from.protocol, lane: from.lane };
        let is_named = redirect.named(&self.map.borrow()).is_some_and(|node| !Arc::ptr_eq(node, &from.node));
        let held = Held {
            entry,
            request,
            redirect,
            link,
            frame: frame.to_vec(),
            since: Stopwatch::start(),
            pauses: !is_first || !is_named,
        };
        if is_free && !held.pauses {
            return self.send_again(held);
        }
        // What was sent again before is older than all others of its client.
        match is_first {
            true => self.held.borrow_mut().push_back(held),
            false => self.held.borrow_mut().push_front(held),
        }
        self.held_wake.notify_one();
    }

    /// Sends those again whose time has come, of each client the oldest.
    fn send_ready(self: &Rc<Self>, is_new_map: bool) {
        let all = std::mem::take(&mut *self.held.borrow_mut());
        let (mut kept, mut waiting) = (VecDeque::new(), Vec::new());
        for held in all {
            let client = held.entry.client.as_ref().map_or(std::ptr::null(), Rc::as_ptr);
            let is_busy = held.entry.client.as_ref().is_some_and(|client| client.resent() > 0);
            let is_early = held.pauses && !is_new_map && held.since.elapsed() < ROUTER_REDIRECT_PAUSE;
            if is_busy || is_early || waiting.contains(&client) {
                waiting.push(client);
                kept.push_back(held);
            } else {
                self.send_again(held);
            }
        }
        let mut later = self.held.borrow_mut();
        kept.extend(later.drain(..));
        *later = kept;
    }

    fn send_again(self: &Rc<Self>, held: Held) {
        let Held { mut entry, request, redirect, link: from, frame, .. } = held;
        let client = entry.client.clone();
        let most_s = ROUTER_REDIRECT_TIMEOUT.as_secs() as u32;
        let is_over = entry.attempts > ROUTER_REDIRECTS_MAX || self.tick() - entry.began > most_s;
        let named = match entry.target {
            Target::Here => Some(Arc::clone(&from.node)),
            Target::Slot(slot) => {
                let map = self.map();
                let named = redirect.named(&map).filter(|node| !Arc::ptr_eq(node, &from.node));
                named.or_else(|| map.owner(slot)).cloned()
            }
        };
        let link = named.and_then(|node| self.link_to(&node, from.protocol, from.lane));
        match link {
            _ if is_over && matches!(redirect, Redirect::Moved(_)) => entry.fail(STILL_MOVES),
            // In the words of the node.
            _ if is_over => entry.fill(&frame),
            Some(link) => {
                entry.frames = entry.frames_all;
                entry.resent = client.clone().map(|client| {
                    client.begin_resent();
                    Resent { client, wake: Rc::clone(&self.held_wake) }
                });
                link.push(&request, entry);
            }
            None => entry.fail("the slot of the request has no owner: try again"),
        }
        if let Some(client) = client {
            client.end_redirect();
        }
    }
}

async fn tick(on: Rc<Loop>) {
    let mut tick = interval(ROUTER_TICK);
    loop {
        tick.tick().await;
        on.tick.set(on.tick.get() + 1);
    }
}

/// Sends requests again that were not sent again at once: after a pause, or with the next map.
async fn send_held(on: Rc<Loop>) {
    let mut changes = on.shared.router.maps.changes();
    loop {
        on.held_wake.notified().await;
        while !on.held.borrow().is_empty() {
            changes.mark_unchanged();
            let is_new_map = tokio::select! {
                changed = changes.changed() => changed.is_ok(),
                () = on.held_wake.notified() => false,
                () = sleep(ROUTER_REDIRECT_PAUSE) => false,
            };
            on.follow();
            on.send_ready(is_new_map);
        }
    }
}
