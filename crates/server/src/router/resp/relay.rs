//! Pub/Sub over all nodes: the router subscribes on every node to what its clients subscribe to, and passes messages on. A message is
//! published on one node, so a subscriber gets it one time, whichever node that is. Calls nodes.
//!
//! Shard channels are subscribed to on their owners only, because other nodes reject that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use keystead_commands::ctx::Publication;
use keystead_commands::hub::{Kind, Subscribed};
use keystead_commands::session::Protocol;
use keystead_core::key::slot;
use keystead_model::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Sleep, sleep};

use super::Shared;
use super::dial::dial;
use super::frame::{self, Scanner};
use crate::bounds::{ROUTER_READ_BYTES, ROUTER_RECONNECT_PAUSE, ROUTER_SUBSCRIBE_NAMES};
use crate::router::node::Node;
use crate::router::redirect::Redirect;

/// Subscriptions, and how far the nodes have them.
pub(super) struct Relay {
    /// Counts changes of the clients' subscriptions.
    wanted: watch::Sender<u64>,
    /// For each node, by address, up to which change it has them. Nothing: it cannot be reached.
    reached: Mutex<BTreeMap<(usize, Group), Option<u64>>>,
    progress: watch::Sender<u64>,
}

impl Default for Relay {
    fn default() -> Self {
        Relay { wanted: watch::Sender::new(0), reached: Mutex::default(), progress: watch::Sender::new(0) }
    }
}

/// Which subscriptions share a connection. A node may reject shard channels while slots move; the others must not be lost by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Everywhere,
    Shard,
}

/// A subscription.
type Name = (u8, Bytes);

const KINDS: [(Subscribed, &[u8], &[u8]); 3] = [
    (Subscribed::Channel, b"SUBSCRIBE", b"UNSUBSCRIBE"),
    (Subscribed::Pattern, b"PSUBSCRIBE", b"PUNSUBSCRIBE"),
    (Subscribed::Shard, b"SSUBSCRIBE", b"SUNSUBSCRIBE"),
];

/// The kind of a shard channel in [`KINDS`].
const SHARD: u8 = 2;

fn id(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

impl Relay {
    /// Clients have subscribed or unsubscribed.
    pub(super) fn changed(&self) {
        self.wanted.send_modify(|count| *count += 1);
    }

    /// Waits until all nodes that can be reached have what is wanted now.
    pub(super) async fn settled(&self) {
        let wanted = *self.wanted.borrow();
        let mut progress = self.progress.subscribe();
        loop {
            let is_settled = {
                let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
                reached.values().all(|reached| reached.is_none_or(|reached| reached >= wanted))
            };
            if is_settled || progress.changed().await.is_err() {
                return;
            }
        }
    }

    fn note(&self, node: &Arc<Node>, group: Group, reached: Option<u64>) {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).insert((id(node), group), reached);
        self.progress.send_modify(|count| *count += 1);
    }

    fn forget(&self, node: &Arc<Node>) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.retain(|(other, _), _| *other != id(node));
        drop(reached);
        self.progress.send_modify(|count| *count += 1);
    }
}

/// Keeps a subscriber for each node of the map.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut changes = shared.router.maps.changes();
    let mut tasks: Vec<(Arc<Node>, AbortHandle)> = Vec::new();
    loop {
        let map = shared.router.map();
        tasks.retain(|(node, task)| {
            let is_in = map.nodes.iter().any(|other| Arc::ptr_eq(node, other));
            if !is_in {
                task.abort();
                shared.relay.forget(node);
            }
            is_in
        });
        for node in &map.nodes {
            if !tasks.iter().any(|(other, _)| Arc::ptr_eq(node, other)) {
                for group in [Group::Everywhere, Group::Shard] {
                    shared.relay.note(node, group, Some(0));
                    let task = tokio::spawn(subscriber(Arc::clone(&shared), Arc::clone(node), group));
                    tasks.push((Arc::clone(node), task.abort_handle()));
                }
            }
        }
        // Shard channels have moved with their slots.
        shared.relay.changed();
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn subscriber(shared: Arc<Shared>, node: Arc<Node>, group: Group) {
    let mut wanted = shared.relay.wanted.subscribe();
    loop {
        let number = *wanted.borrow_and_update();
        if names(&shared, &node, group).is_empty() {
            shared.relay.note(&node, group, Some(number));
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let token = shared.router.settings.token.as_ref();
        match dial(&node, Protocol::Resp2, token).await {
            Ok(dialled) => {
                let ended = serve(&shared, &node, group, dialled.stream, &mut wanted).await;
                tracing::debug!(node = %node.id, why = ended, "a connection with subscriptions has ended");
            }
            Err(why) => tracing::debug!(node = %node.id, why, "cannot subscribe"),
        }
        shared.relay.note(&node, group, None);
        sleep(ROUTER_RECONNECT_PAUSE).await;
    }
}

/// What clients are subscribed to and this node can have.
fn names(shared: &Shared, node: &Arc<Node>, group: Group) -> BTreeSet<Name> {
    let map = shared.router.map();
    let is_here = |name: &Bytes| map.owner(slot(name)).is_some_and(|owner| Arc::ptr_eq(owner, node));
    let mut names = BTreeSet::new();
    for (n, (kind, ..)) in KINDS.iter().enumerate() {
        if (*kind == Subscribed::Shard) != (group == Group::Shard) {
            continue;
        }
        let all = shared.hub.bus.channels(*kind).into_iter().map(|(name, _)| name);
        let all = all.filter(|name| *kind != Subscribed::Shard || is_here(name));
        names.extend(all.map(|name| (n as u8, name)));
    }
    names
}

/// Follows what is wanted on one connection, and passes messages on, until the connection ends. Returns why.
async fn serve(
    shared: &Arc<Shared>,
    node: &Arc<Node>,
    group: Group,
    mut stream: TcpStream,
    wanted: &mut watch::Receiver<u64>,
) -> String {
    let mut on_node = OnNode::default();
    let (mut buffer, mut scanner) = (Vec::with_capacity(ROUTER_READ_BYTES), Scanner::default());
    // The change that the requests under way are about.
    let mut number = *wanted.borrow_and_update();
    let (mut is_stale, mut again) = (true, None::<Pin<Box<Sleep>>>);
    loop {
        if std::mem::take(&mut on_node.is_rejected) {
            // The map may say more by then.
            again = Some(Box::pin(sleep(ROUTER_RECONNECT_PAUSE)));
        }
        if is_stale && on_node.pending.is_empty() {
            number = *wanted.borrow_and_update();
            is_stale = false;
            let requests = on_node.begin(names(shared, node, group));
            if let Err(error) = stream.write_all(&requests).await {
                return error.to_string();
            }
            if on_node.pending.is_empty() {
                shared.relay.note(node, group, Some(number));
            }
        }
        tokio::select! {
            changed = wanted.changed(), if !is_stale => match changed {
                Ok(()) => is_stale = true,
                Err(_) => return "the router stops".to_owned(),
            },
            () = pause_of(&mut again), if again.is_some() => (is_stale, again) = (true, None),
            read = stream.read_buf(&mut buffer) => match read {
                Ok(0) => return "it closed the connection".to_owned(),
                Err(error) => return error.to_string(),
                Ok(_) => {}
            },
        }
        let mut start = 0;
        loop {
            match scanner.read(&buffer[start..]) {
                Err(_) => return "it sent what is no message".to_owned(),
                Ok(None) => break,
                Ok(Some(len)) => {
                    let frame = &buffer[start..start + len];
                    if !pass_on(shared, frame) {
                        match on_node.reply(frame) {
                            // While it loads, a node rejects subscriptions.
                            Err(error) => return error,
                            Ok(Replied::OfItself) => shared.router.maps.want_next(),
                            Ok(Replied::ToRequest) if on_node.pending.is_empty() => {
                                shared.relay.note(node, group, Some(number));
                            }
                            Ok(Replied::ToRequest) => {}
                        }
                    }
                    start += len;
                }
            }
        }
        buffer.drain(..start);
    }
}

/// The subscriptions of one connection.
#[derive(Default)]
struct OnNode {
    have: BTreeSet<Name>,
    /// The names whose confirmations are to come, in order, and whether they begin.
    pending: VecDeque<(bool, Name)>,
    /// The node has rejected a shard channel, or ended the subscription to it.
    is_rejected: bool,
}

/// What a node has replied to.
#[derive(Debug, PartialEq, Eq)]
enum Replied {
    ToRequest,
    /// It has ended a subscription, because the slot of the channel is another node's.
    OfItself,
}

impl OnNode {
    /// The requests that lead to what is wanted now.
    fn begin(&mut self, want: BTreeSet<Name>) -> Vec<u8> {
        let (requests, pending) = difference(&self.have, &want);
        (self.have, self.pending) = (want, pending);
        requests
    }

    /// What is no message: a confirmation, or an error.
    ///
    /// # Errors
    /// The error that ends the connection.
    fn reply(&mut self, frame: &[u8]) -> Result<Replied, String> {
        if let Some(error) = frame::error(frame) {
            let is_of_slot = Redirect::of_line(error).is_some();
            let Some((begins, name)) = self.pending.pop_front().filter(|_| is_of_slot) else {
                return Err(error.to_owned());
            };
            if begins {
                self.have.remove(&name);
                self.is_rejected = true;
            }
            return Ok(Replied::ToRequest);
        }
        let parts = frame::elements(frame).unwrap_or_default();
        let strings: Vec<Option<&[u8]>> = parts.into_iter().map(frame::string).collect();
        if let [Some(b"sunsubscribe"), Some(channel), ..] = strings[..] {
            let name = (SHARD, Bytes::from(channel));
            if self.pending.front() != Some(&(false, name.clone())) {
                self.have.remove(&name);
                self.is_rejected = true;
                return Ok(Replied::OfItself);
            }
        }
        self.pending.pop_front();
        Ok(Replied::ToRequest)
    }
}

/// Ends with the pause; without one, never.
async fn pause_of(pause: &mut Option<Pin<Box<Sleep>>>) {
    match pause {
        Some(pause) => pause.as_mut().await,
        None => std::future::pending().await,
    }
}

/// The requests that lead from one set of subscriptions to another, and what they get confirmations of.
fn difference(have: &BTreeSet<Name>, want: &BTreeSet<Name>) -> (Vec<u8>, VecDeque<(bool, Name)>) {
    let (mut requests, mut pending) = (Vec::new(), VecDeque::new());
    for (n, (_, begin, end)) in KINDS.iter().enumerate() {
        for (word, begins, names) in
            [(begin, true, want.difference(have)), (end, false, have.difference(want))]
        {
            let names: Vec<&Name> = names.filter(|(kind, _)| usize::from(*kind) == n).collect();
            pending.extend(names.iter().map(|name| (begins, (*name).clone())));
            // Shard channels of one request must be in one slot.
            let most = if n == usize::from(SHARD) { 1 } else { ROUTER_SUBSCRIBE_NAMES };
            for names in names.chunks(most) {
                let names = names.iter().map(|(_, name)| &**name);
                let words: Vec<&[u8]> = std::iter::once(*word).chain(names).collect();
                super::command(words.into_iter(), &mut requests);
            }
        }
    }
    (requests, pending)
}

/// Passes a message on. False: it is no message, but a confirmation.
fn pass_on(shared: &Shared, bytes: &[u8]) -> bool {
    let Some(parts) = frame::elements(bytes) else { return false };
    let parts: Option<Vec<&[u8]>> = parts.into_iter().map(frame::string).collect();
    let (kind, name, channel, content) = match parts.as_deref() {
        Some([b"message", channel, content]) => (Subscribed::Channel, channel, channel, content),
        Some([b"pmessage", pattern, channel, content]) => (Subscribed::Pattern, pattern, channel, content),
        Some([b"smessage", channel, content]) => (Subscribed::Shard, channel, channel, content),
        _ => return false,
    };
    let publication = Publication {
        channel: Bytes::from(*channel),
        message: Bytes::from(*content),
        sharded: kind == Subscribed::Shard,
    };
    let limit = crate::bounds::hard_bytes(shared.hub.config.output_limit(Kind::Pubsub));
    shared.hub.bus.pass_on(kind, name, &publication, limit);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_sent() {
        let set = |names: &[(u8, &str)]| -> BTreeSet<Name> {
            names.iter().map(|(kind, name)| (*kind, Bytes::from(name.as_bytes()))).collect()
        };
        let (requests, pending) =
            difference(&set(&[(0, "a"), (1, "p*")]), &set(&[(0, "a"), (0, "b"), (2, "s")]));
        let shown = String::from_utf8(requests).unwrap().replace("\r\n", " ");
        assert_eq!(
            (shown.as_str(), pending.len()),
            ("*2 $9 SUBSCRIBE $1 b *2 $12 PUNSUBSCRIBE $2 p* *2 $10 SSUBSCRIBE $1 s ", 3)
        );
    }

    #[test]
    fn a_channel_whose_slot_has_moved_disturbs_no_other() {
        let shard = |name: &str| (SHARD, Bytes::from(name.as_bytes()));
        let mut on_node = OnNode::default();
        on_node.begin([shard("a"), shard("b"), shard("c")].into());
        assert_eq!(on_node.reply(b"*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n"), Ok(Replied::ToRequest));
        // The node ends a subscription before it rejects the next one.
        assert_eq!(on_node.reply(b"*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n"), Ok(Replied::OfItself));
        assert_eq!(on_node.reply(b"-MOVED 3 h:1\r\n"), Ok(Replied::ToRequest));
        assert_eq!(on_node.reply(b"*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n"), Ok(Replied::ToRequest));
        assert_eq!((on_node.have.clone(), on_node.pending.len()), ([shard("c")].into(), 0));
        assert!(on_node.is_rejected);
        on_node.begin([].into());
        assert_eq!(on_node.reply(b"*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n"), Ok(Replied::ToRequest));
        on_node.begin([shard("d")].into());
        assert!(on_node.reply(b"-LOADING x\r\n").is_err(), "the connection ends");
    }
}
