//! A server as a node of a cluster: which slots it serves, and who owns the others. It touches nothing.
//!
//! Without `--cluster` there is none of it, and a command pays one test for that. With it, a slot that this node serves costs one load;
//! the table is read only to say where another slot is.
//!
//! What is checked here is checked before a request reaches its shard. The fence of the keyspace has the last word.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use keystead_cluster::bounds::SLOTS;
use keystead_cluster::{Epoch, Node, SlotTable};
use keystead_core::key;

use crate::args::Args;
use crate::errors::{self, Fail};
use crate::keys_of::Keys;
use crate::session::{Queued, Session};
use crate::spec::{Control, Run, Spec, flag};

/// This node, and its copy of the slot table.
pub struct Cluster {
    me: Node,
    /// For each slot what requests for it do ([`ELSEWHERE`], [`SERVED`], [`PARKED`], [`EXPECTED`]).
    slots: Box<[AtomicU8]>,
    /// Whether slots are moving to or from this node.
    is_moving: AtomicBool,
    table: RwLock<Arc<SlotTable>>,
    redirects: AtomicU64,
}

/// Another node has the slot, or none.
const ELSEWHERE: u8 = 0;
/// Requests run.
const SERVED: u8 = 1;
/// Requests wait: the slot is being handed over.
const PARKED: u8 = 2;
/// Requests wait: this node has everything of the slot, and does not know yet that it owns it. Who sends them may know, and would
/// otherwise be sent to and fro.
const EXPECTED: u8 = 3;

/// Why a node does not run a command on some keys. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Another node owns the slot, as of an epoch.
    Moved {
        /// The slot.
        slot: u16,
        /// Its owner.
        owner: Box<Node>,
        /// The epoch of the table that says so.
        epoch: Epoch,
    },
    /// The keys are in several slots.
    CrossSlot,
    /// Nobody owns the slot.
    Unassigned(u16),
    /// The slot is being handed over: the request waits, and if that takes too long, is sent again.
    Parked(u16),
}

impl Cluster {
    /// This node of a table. It serves the slots of its id, if the table has the same addresses for it.
    #[must_use]
    pub fn new(me: Node, table: Arc<SlotTable>) -> Cluster {
        let slots = (0..SLOTS).map(|_| AtomicU8::new(ELSEWHERE)).collect();
        let is_moving = AtomicBool::new(false);
        let cluster = Cluster {
            me,
            slots,
            is_moving,
            table: RwLock::new(Arc::clone(&table)),
            redirects: AtomicU64::new(0),
        };
        cluster.learn(table, |_, _| false);
        cluster
    }

    /// Follows another table. The caller has checked that it may, and has persisted it. `is_parked` says for which slots requests wait now: of
    /// those that this node owns, or is about to own. Its second argument is whether the slot is parked already: only the thread of its shard may begin that.
    pub fn learn(&self, table: Arc<SlotTable>, is_parked: impl Fn(u16, bool) -> bool) {
        let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for (slot, state) in (0..).zip(&self.slots) {
            let is_own = table.owner(slot).is_some_and(|owner| self.is_me(owner));
            let is_parked = is_parked(slot, state.load(Ordering::Acquire) == PARKED);
            let next = match (is_own, is_parked) {
                (false, false) => ELSEWHERE,
                (false, true) => EXPECTED,
                (true, false) => SERVED,
                (true, true) => PARKED,
            };
            state.store(next, Ordering::Release);
        }
        *current = table;
    }

    /// Lets the requests for a slot that is served wait. Called on the thread of the slot's shard, so that no request is between its check
    /// and its run there.
    pub fn park(&self, slot: u16) {
        if let Some(state) = self.slots.get(usize::from(slot)) {
            let _ = state.compare_exchange(SERVED, PARKED, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Says whether slots are moving to or from this node.
    pub fn set_moving(&self, moving: bool) {
        self.is_moving.store(moving, Ordering::Release);
    }

    /// Whether slots are moving to or from this node: it may have keys that are not its own, or not yet.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.is_moving.load(Ordering::Acquire)
    }

    /// This node, as it was started.
    #[must_use]
    pub fn me(&self) -> &Node {
        &self.me
    }

    /// Whether a node of the table is this one: one id with other addresses is another server.
    #[must_use]
    pub fn is_me(&self, node: &Node) -> bool {
        node.id == self.me.id && node.resp == self.me.resp && node.http == self.me.http
    }

    /// The table that this node follows.
    #[must_use]
    pub fn table(&self) -> Arc<SlotTable> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this node serves a slot.
    #[inline]
    #[must_use]
    pub fn serves(&self, slot: u16) -> bool {
        self.state(slot) == SERVED
    }

    #[inline]
    fn state(&self, slot: u16) -> u8 {
        self.slots.get(usize::from(slot)).map_or(ELSEWHERE, |state| state.load(Ordering::Acquire))
    }

    /// Whether this node owns a slot, also while that is handed over.
    #[must_use]
    pub fn owns(&self, slot: u16) -> bool {
        matches!(self.state(slot), SERVED | PARKED)
    }

    /// Whether any of these slots is being handed over, so that requests for it wait.
    #[must_use]
    pub fn is_parked(&self, slots: &[u16]) -> bool {
        slots.iter().any(|slot| matches!(self.state(*slot), PARKED | EXPECTED))
    }

    /// The slots of a request of this session: of its keys, or, for EXEC, of those of all queued commands.
    #[must_use]
    pub fn slots_of(&self, session: &Session, spec: &Spec, args: Args<'_>) -> Vec<u16> {
        match (spec.run, &session.multi) {
            (Run::Control(Control::Exec), Some(multi)) => self.slots_of_queue(&multi.queue),
            _ => slots_of(spec, args),
        }
    }

    /// The slots of the keys of a command; none if it is not one.
    #[must_use]
    pub fn slots_of_command(&self, args: Args<'_>) -> Vec<u16> {
        crate::dispatch::resolve(args).map(|spec| slots_of(spec, args)).unwrap_or_default()
    }

    /// The slots of the keys of these commands.
    #[must_use]
    pub fn slots_of_queue(&self, queue: &[Queued]) -> Vec<u16> {
        queue.iter().flat_map(|queued| slots_of(queued.spec, queued.command.args())).collect()
    }

    /// How many slots this node serves.
    #[must_use]
    pub fn slots_served(&self) -> usize {
        self.slots.iter().filter(|state| matches!(state.load(Ordering::Relaxed), SERVED | PARKED)).count()
    }

    /// Requests that were sent to another node since the start.
    #[must_use]
    pub fn redirects(&self) -> u64 {
        self.redirects.load(Ordering::Relaxed)
    }

    /// Why this node does not run a command; `None` if it does.
    #[inline]
    #[must_use]
    pub fn rejection(&self, spec: &Spec, args: Args<'_>) -> Option<Rejection> {
        if let Keys::At(index) = spec.keys {
            return self.rejection_of([key::slot(args.at(index))]);
        }
        self.rejection_of(slots_of(spec, args))
    }

    /// Why this node does not run what has keys in these slots; `None` if it does. The order of the checks is that of Redis.
    pub fn rejection_of(&self, slots: impl IntoIterator<Item = u16>) -> Option<Rejection> {
        let mut slots = slots.into_iter();
        let first = slots.next()?;
        let moved = if self.serves(first) { None } else { self.moved(first) };
        if matches!(moved, Some(Rejection::Unassigned(_))) {
            return moved;
        }
        if slots.any(|slot| slot != first) {
            return Some(Rejection::CrossSlot);
        }
        if matches!(moved, Some(Rejection::Moved { .. })) {
            self.redirects.fetch_add(1, Ordering::Relaxed);
        }
        moved
    }

    /// Why this node does not run these commands as one; `None` if it does. All their keys must be in one slot.
    #[must_use]
    pub fn rejection_of_queue(&self, queue: &[Queued]) -> Option<Rejection> {
        self.rejection_of(self.slots_of_queue(queue))
    }

    #[cold]
    fn moved(&self, slot: u16) -> Option<Rejection> {
        let table = self.table();
        match table.owner(slot) {
            // Served again since it was checked.
            Some(owner) if self.is_me(owner) && self.serves(slot) => None,
            Some(owner) if self.is_me(owner) => Some(Rejection::Parked(slot)),
            Some(_) if self.state(slot) == EXPECTED => Some(Rejection::Parked(slot)),
            Some(owner) => {
                Some(Rejection::Moved { slot, owner: Box::new(owner.clone()), epoch: table.epoch() })
            }
            None => Some(Rejection::Unassigned(slot)),
        }
    }
}

/// The slots of a command's keys, or of its shard channels. A command whose keys cannot be found reports that itself.
pub(crate) fn slots_of(spec: &Spec, args: Args<'_>) -> Vec<u16> {
    if spec.flags.has(flag::PUBSUB) {
        let channels = match spec.full_name {
            "ssubscribe" | "sunsubscribe" => usize::MAX,
            "spublish" => 1,
            _ => 0,
        };
        return args.from(1).take(channels).map(key::slot).collect();
    }
    spec.keys(args).unwrap_or_default().into_iter().map(|at| key::slot(args.at(at))).collect()
}

/// Host and port of a URL `scheme://HOST:PORT`. The host of an IPv6 address has no brackets, as in Redis.
#[must_use]
pub fn endpoint(url: &str) -> Option<(&str, u16)> {
    let (_, authority) = url.split_once("://")?;
    let (host, port) = authority.trim_end_matches('/').rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#', ',', '[', ']']);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    is_host.then_some((host, port))
}

impl From<Rejection> for Fail {
    fn from(rejection: Rejection) -> Fail {
        match rejection {
            Rejection::CrossSlot => errors::CROSS_SLOT,
            Rejection::Unassigned(_) => errors::SLOT_NOT_SERVED,
            Rejection::Parked(_) => errors::SLOT_MOVING,
            Rejection::Moved { slot, owner, .. } => {
                // An empty host means the one that the client is connected to, but every address is checked before it is used.
                let (host, port) = endpoint(&owner.resp).unwrap_or(("", 0));
                Fail::text(format!("MOVED {slot} {host}:{port}"))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use keystead_cluster::NodeId;

    use super::*;
    use crate::Command;

    pub(crate) fn node(id: &str, port: u16) -> Node {
        let (resp, http) = (format!("redis://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", port + 1));
        Node::new(NodeId::new(id).unwrap(), resp, http)
    }

    /// Node `a` of a cluster of `a` and `b`, without an owner of slot 0.
    pub(crate) fn member() -> Cluster {
        let table = SlotTable::init("test", vec![node("a", 7000), node("b", 7002)]).unwrap();
        let mut json = table.to_value();
        let mut slots = json["slots"].as_array().unwrap().clone();
        slots[0][0] = 1.into();
        slots.push(serde_json::json!([0, 0, null]));
        json["slots"] = slots.into();
        Cluster::new(node("a", 7000), Arc::new(SlotTable::from_value(&json).unwrap()))
    }

    fn rejection(cluster: &Cluster, line: &str) -> Option<String> {
        let command = Command::new(line.split(' '));
        let spec = crate::dispatch::resolve(command.args()).unwrap();
        cluster.rejection(spec, command.args()).map(|rejection| Fail::from(rejection).line().into_owned())
    }

    /// Keys of which the first is in a slot that passes the test, and the second in the same slot.
    fn keys(wanted: impl Fn(u16) -> bool) -> [String; 2] {
        let found = (0..).map(|n| format!("k{n}")).find(|name| wanted(key::slot(name.as_bytes()))).unwrap();
        [format!("{{{found}}}"), format!("x{{{found}}}")]
    }

    #[test]
    fn only_commands_on_keys_of_other_nodes_are_refused() {
        let cluster = member();
        let [mine, also_mine] = keys(|slot| cluster.serves(slot));
        let [theirs, also_theirs] = keys(|slot| slot != 0 && !cluster.serves(slot));
        let [nobodys, _] = keys(|slot| slot == 0);
        let slot = key::slot(theirs.as_bytes());
        let moved = Some(format!("MOVED {slot} 127.0.0.1:7002"));
        let cross = Some("CROSSSLOT Keys in request don't hash to the same slot".to_owned());
        let down = Some("CLUSTERDOWN Hash slot not served".to_owned());
        for (line, expected) in [
            (format!("GET {mine}"), None),
            (format!("MSET {mine} 1 {also_mine} 2"), None),
            ("PING".to_owned(), None),
            ("DBSIZE".to_owned(), None),
            ("LMPOP x a LEFT".to_owned(), None),
            (format!("PUBLISH {theirs} m"), None),
            (format!("GET {theirs}"), moved.clone()),
            (format!("DEL {theirs} {also_theirs}"), moved.clone()),
            (format!("EVAL s 1 {theirs} {mine}"), moved.clone()),
            (format!("XREAD STREAMS {theirs} 0"), moved.clone()),
            (format!("WATCH {theirs}"), moved.clone()),
            (format!("SPUBLISH {theirs} {mine}"), moved.clone()),
            (format!("SSUBSCRIBE {theirs} {also_theirs}"), moved),
            (format!("DEL {mine} {theirs}"), cross.clone()),
            (format!("DEL {theirs} {mine}"), cross.clone()),
            (format!("MGET {mine} {nobodys}"), cross),
            (format!("GET {nobodys}"), down.clone()),
            (format!("MGET {nobodys} {mine}"), down),
        ] {
            assert_eq!(rejection(&cluster, &line), expected, "{line}");
        }
        assert_eq!(cluster.redirects(), 7);
    }

    #[test]
    fn requests_for_a_slot_that_is_handed_over_wait() {
        let cluster = member();
        let [mine, _] = keys(|slot| cluster.serves(slot));
        let slot = key::slot(mine.as_bytes());
        cluster.park(slot);
        assert_eq!(cluster.rejection_of([slot]), Some(Rejection::Parked(slot)));
        assert_eq!(
            rejection(&cluster, &format!("GET {mine}")).unwrap(),
            "TRYAGAIN The slot is being moved to another node"
        );
        assert_eq!(cluster.redirects(), 0);
        cluster.learn(cluster.table(), |_, _| false);
        assert_eq!(cluster.rejection_of([slot]), None);
        let theirs = (1..SLOTS).find(|slot| !cluster.serves(*slot)).unwrap();
        let served = cluster.slots_served();
        cluster.learn(cluster.table(), |slot, _| slot == theirs);
        assert_eq!(
            cluster.rejection_of([theirs]),
            Some(Rejection::Parked(theirs)),
            "it is about to be this node's"
        );
        assert!(cluster.is_parked(&[theirs]) && !cluster.owns(theirs) && cluster.slots_served() == served);
        cluster.learn(cluster.table(), |_, _| false);
        cluster.park(theirs);
        assert!(
            matches!(cluster.rejection_of([theirs]), Some(Rejection::Moved { .. })),
            "it is not this node's"
        );
    }

    #[test]
    fn a_table_with_another_address_for_this_id_means_another_server() {
        let cluster = member();
        assert!(cluster.slots_served() > 8000);
        let table = cluster.table();
        cluster.learn(Arc::new(table.update(node("a", 9000)).unwrap()), |_, _| false);
        assert_eq!(cluster.slots_served(), 0);
        let mine = (1..SLOTS).find(|slot| cluster.table().owner(*slot).unwrap().id == cluster.me().id);
        let rejection = Fail::from(cluster.rejection_of([mine.unwrap()]).unwrap());
        assert!(rejection.line().ends_with(" 127.0.0.1:9000"), "{}", rejection.line());
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(endpoint("redis://db.internal:6379"), Some(("db.internal", 6379)));
        assert_eq!(endpoint("rediss://[::1]:6379/"), Some(("::1", 6379)));
        for bad in
            ["redis://h", "redis://h:0", "redis://:1", "redis://h:x", "redis://u@h:1", "redis://h:70000"]
        {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
    }
}
