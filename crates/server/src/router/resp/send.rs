//! What becomes of one request: where it runs, and what is sent. Touches nothing by itself.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use keystead_commands::conn::Conn;
use keystead_commands::dispatch::{self, Plan};
use keystead_commands::errors::{self, Fail};
use keystead_commands::spec::{Control, Run};
use keystead_commands::{Args, Reply, Spec};
use keystead_core::{Clock, SystemClock};
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{Connection, Next};
use super::destination::{self, Destination, Split};
use super::link::{Entry, Link, Target};
use super::merge::{self, Gather, Merge};
use crate::bounds::{ROUTER_SHORT_BYTES_MAX, ROUTER_SPLIT_SLOTS_MAX};
use crate::http::upstash::has_effect;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Runs one request, or lets it wait.
    #[inline]
    pub(super) fn request(&mut self, raw: &[u8], args: Args<'_>) -> Next {
        let resolved = dispatch::resolve(args);
        let Ok(spec) = resolved else {
            return self.plan(resolved, Ok(Destination::Router), raw, args);
        };
        if let Some(until) = self.paused_until(spec, args) {
            self.pause(until);
            return Next::Waits;
        }
        let place = destination::place(spec, args, self.on.is_cluster());
        let is_sent = self.session.multi.is_none() || matches!(spec.run, Run::Control(Control::Exec));
        if is_sent && !self.may_go(spec, &place, raw, args) {
            return Next::Waits;
        }
        self.plan(resolved, place, raw, args)
    }

    /// Whether a request can be sent now. If not, the client is woken when that may have changed.
    #[inline]
    fn may_go(&mut self, spec: &Spec, place: &Result<Destination, Fail>, raw: &[u8], args: Args<'_>) -> bool {
        let is_special = match (place, spec.run) {
            (Err(_), _) => return true,
            (_, Run::Control(Control::Watch | Control::Exec | Control::Discard | Control::Unwatch)) => {
                let is_large =
                    self.session.multi.as_ref().is_some_and(|multi| multi.bytes > ROUTER_SHORT_BYTES_MAX);
                is_large || self.watched.is_some() || matches!(spec.run, Run::Control(Control::Watch))
            }
            (Ok(Destination::Router), _) => return true,
            _ => raw.len() > ROUTER_SHORT_BYTES_MAX || destination::may_block(spec, args),
        };
        if is_special && self.client.waiting() > 0 || !self.keeps_order() {
            return false;
        }
        let (protocol, lane) = (self.session.protocol, self.lane);
        let full = |at: usize| self.on.link(at, protocol, lane).filter(|link| link.is_full());
        let full = match place {
            Ok(Destination::Slot(slot)) => self.on.owner(*slot).and_then(full),
            _ => (0..self.on.nodes()).find_map(full),
        };
        if let Some(link) = full {
            link.wait(&self.client);
            return false;
        }
        true
    }

    /// Until when CLIENT PAUSE holds a request. CLIENT itself runs, or no client could end the pause.
    fn paused_until(&self, spec: &Spec, args: Args<'_>) -> Option<u64> {
        let clients = &self.on.shared.hub.clients;
        let until = clients.paused_until.load(Ordering::Relaxed);
        if until == 0 || args.name().eq_ignore_ascii_case(b"CLIENT") {
            return None;
        }
        let is_exec = matches!(spec.run, Run::Control(Control::Exec));
        let writes = spec.writes() || is_exec || matches!(spec.full_name, "publish" | "spublish");
        clients.paused(writes, SystemClock.now()).map(|until| until.0)
    }

    fn plan(
        &mut self,
        resolved: Result<&'static Spec, Fail>,
        place: Result<Destination, Fail>,
        raw: &[u8],
        args: Args<'_>,
    ) -> Next {
        if let (Some(multi), Ok(spec)) = (&mut self.session.multi, &resolved)
            && !matches!(spec.run, Run::Control(_))
        {
            // It runs on a connection that others share, so only what leaves no state there is queued.
            let rejected = match &place {
                Err(fail) => Some(fail.clone()),
                Ok(place) if !destination::may_queue(spec, place) => {
                    Some(destination::not_in_transaction(spec))
                }
                Ok(_) => None,
            };
            if let Some(fail) = rejected {
                multi.dirty = true;
                self.reply(&Reply::Error(fail));
                return Next::Ran;
            }
        }
        let shared = self.on.shared.clone();
        match dispatch::plan_resolved(&mut self.session, &shared.hub, resolved, args) {
            Plan::Reply(reply) => self.reply(&reply),
            Plan::Data(spec) => self.on_nodes(spec, place, raw, args),
            Plan::Conn(spec) => match place {
                Ok(Destination::Router) => self.here(spec, args),
                place => self.on_nodes(spec, place, raw, args),
            },
            Plan::Unwatch(reply) => {
                self.unwatch();
                self.reply(&reply);
            }
            Plan::Watch => self.watch(raw, args),
            Plan::Exec => self.exec(),
        }
        Next::Ran
    }

    /// Runs a command about the connection.
    fn here(&mut self, spec: &'static Spec, args: Args<'_>) {
        let shared = self.on.shared.clone();
        let reply = {
            let mut conn = Conn::new(&mut self.session, &shared.hub, SystemClock.now());
            dispatch::run_conn(&mut conn, spec, args)
        };
        if spec.full_name.ends_with("subscribe") {
            return self.subscribe(&reply);
        }
        self.reply(&reply);
    }

    fn on_nodes(
        &mut self,
        spec: &'static Spec,
        place: Result<Destination, Fail>,
        raw: &[u8],
        args: Args<'_>,
    ) {
        let place = match place {
            Ok(place) => place,
            Err(fail) => return self.reply(&Reply::Error(fail)),
        };
        if let (true, Some(target)) =
            (raw.len() > ROUTER_SHORT_BYTES_MAX || destination::may_block(spec, args), target_of(&place))
        {
            return self.on_own(spec, target, raw, destination::may_block(spec, args));
        }
        let effect = has_effect(spec);
        match place {
            Destination::Slot(slot) => {
                let link = self.on.owner(slot).and_then(|at| self.link(at));
                self.send(link, Target::Slot(slot), raw, 1, effect);
            }
            Destination::Any => {
                let link = self.on.any().and_then(|at| self.link(at));
                self.send(link, Target::Here, raw, 1, effect);
            }
            Destination::Every(merge) => self.every(merge, raw, effect),
            Destination::Split(split) => self.split(split, args, effect),
            Destination::Scan => self.scan(args),
            // A command on data does not run in the router.
            Destination::Router => self.reply(&Reply::Error(destination::unavailable(spec))),
        }
    }

    fn link(&self, at: usize) -> Option<Rc<Link>> {
        self.on.link(at, self.session.protocol, self.lane)
    }

    /// Sends a request whose reply is the client's.
    #[inline]
    pub(super) fn send(
        &mut self,
        link: Option<Rc<Link>>,
        target: Target,
        raw: &[u8],
        frames: u32,
        has_effect: bool,
    ) {
        let Some(link) = link else { return self.reply(&Reply::Error(errors::SLOT_NOT_SERVED)) };
        let is_muted = !self.session.wants_reply();
        let number = self.client.expect(is_muted);
        link.push(raw, self.entry(number, 0, target, frames, has_effect));
    }

    fn entry(&self, number: u64, part: u32, target: Target, frames: u32, has_effect: bool) -> Entry {
        Entry {
            client: Some(Rc::clone(&self.client)),
            number,
            part,
            target,
            frames,
            frames_all: frames,
            has_effect,
            attempts: 0,
            began: self.on.tick(),
            bytes: 0,
            redirect: None,
            resent: None,
        }
    }

    /// Begins a reply of several parts.
    fn gather(&mut self, parts: usize, merge: Merge) -> u64 {
        let is_muted = !self.session.wants_reply();
        self.client.expect_all(Gather::new(parts, merge, self.session.protocol), is_muted)
    }

    /// Sends a request to all nodes.
    fn every(&mut self, merge: Merge, raw: &[u8], has_effect: bool) {
        let nodes = self.on.nodes();
        if nodes == 0 {
            return self.reply(&Reply::Error(errors::SLOT_NOT_SERVED));
        }
        // What returns one of several values begins at another node each time.
        let first = match merge {
            Merge::Some => SystemClock.now().0 as usize % nodes,
            _ => 0,
        };
        let number = self.gather(nodes, merge);
        for n in 0..nodes {
            let entry = self.entry(number, n as u32, Target::Here, 1, has_effect);
            match self.link((first + n) % nodes) {
                Some(link) => link.push(raw, entry),
                None => entry.fail("the node has left: try again"),
            }
        }
    }

    /// Sends each slot its keys.
    fn split(&mut self, split: Split, args: Args<'_>, has_effect: bool) {
        if split.parts.len() > ROUTER_SPLIT_SLOTS_MAX {
            let words = format!("ERR the keys are in more than {ROUTER_SPLIT_SLOTS_MAX} slots: send fewer");
            return self.reply(&Reply::Error(Fail::text(words)));
        }
        let number = self.gather(split.parts.len(), split.merge);
        let mut request = Vec::new();
        for (part, (slot, keys)) in split.parts.iter().enumerate() {
            let words: Vec<&[u8]> =
                std::iter::once(args.name()).chain(keys.iter().map(|key| args.at(*key))).collect();
            request.clear();
            super::command(words.into_iter(), &mut request);
            let entry = self.entry(number, part as u32, Target::Slot(*slot), 1, has_effect);
            match self.on.owner(*slot).and_then(|at| self.link(at)) {
                Some(link) => link.push(&request, entry),
                None => entry.fill(b"-CLUSTERDOWN Hash slot not served\r\n"),
            }
        }
    }

    /// Continues a scan on the node that its cursor names.
    fn scan(&mut self, args: Args<'_>) {
        let cursor = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse::<u64>().ok());
        let Some(cursor) = cursor else { return self.reply(&Reply::Error(errors::INVALID_CURSOR)) };
        let (order, tags) = self.on.scan_order();
        let Some((at, within)) = merge::resume(cursor, &tags) else {
            return self.reply(&Reply::Array(vec![Reply::bulk(b"0"), Reply::Array(Vec::new())]));
        };
        let number = self.gather(1, Merge::Scan(tags[at], tags.get(at + 1).copied()));
        let within = within.to_string();
        let words: Vec<&[u8]> =
            args.from(0).enumerate().map(|(n, word)| if n == 1 { within.as_bytes() } else { word }).collect();
        let mut request = Vec::new();
        super::command(words.into_iter(), &mut request);
        let entry = self.entry(number, 0, Target::Here, 1, false);
        match self.link(order[at]) {
            Some(link) => link.push(&request, entry),
            None => entry.fail("the node has left: try again"),
        }
    }

    /// Runs the transaction that was queued: on the owner of its slot, as one piece.
    fn exec(&mut self) {
        let Some(multi) = dispatch::end_multi(&mut self.session) else {
            return self.reply(&Reply::Error(errors::EXEC_WITHOUT_MULTI));
        };
        let mut slot = self.watched.as_ref().map(|watched| watched.slot);
        let (mut request, mut crossed) = (Vec::new(), false);
        super::command([&b"MULTI"[..]].into_iter(), &mut request);
        for queued in &multi.queue {
            let args = queued.command.args();
            if let Ok(Destination::Slot(own)) = destination::place(queued.spec, args, self.on.is_cluster()) {
                crossed |= *slot.get_or_insert(own) != own;
            }
            super::command(args.from(0), &mut request);
        }
        super::command([&b"EXEC"[..]].into_iter(), &mut request);
        if crossed {
            self.unwatch();
            return self.reply(&Reply::Error(errors::CROSS_SLOT));
        }
        let frames = multi.queue.len() as u32 + 2;
        if self.watched.is_some() {
            return self.exec_watched(request, frames);
        }
        match slot {
            Some(slot) if request.len() > ROUTER_SHORT_BYTES_MAX && self.client.waiting() == 0 => {
                self.exec_own(Target::Slot(slot), request, frames);
            }
            Some(slot) => {
                let link = self.on.owner(slot).and_then(|at| self.link(at));
                self.send(link, Target::Slot(slot), &request, frames, true);
            }
            None => {
                let link = self.on.any().and_then(|at| self.link(at));
                self.send(link, Target::Here, &request, frames, true);
            }
        }
    }
}

/// The one place that a request goes to.
fn target_of(place: &Destination) -> Option<Target> {
    match place {
        Destination::Slot(slot) => Some(Target::Slot(*slot)),
        Destination::Any => Some(Target::Here),
        _ => None,
    }
}
