//! A Redis Cluster: which node has the slot of a key, and following a slot that moves. A call is sent again only if a node has
//! said that it did not run it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keystead_core::Key;
use keystead_core::key::slot;
use redis::{Cmd, Value};

use super::failure::Failure;
use super::node::{Node, NodeBounds};
use super::target::Login;
use crate::bounds::REDIS_REDIRECTS_MAX;
use crate::net::Address;

/// How long to wait before asking a node again that is busy moving a slot.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// A cluster, or one server alone.
pub(super) struct Cluster {
    seeds: Vec<Arc<Node>>,
    /// One server that has every slot.
    alone: bool,
    login: Arc<Login>,
    bounds: NodeBounds,
    known: Mutex<Known>,
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    nodes: HashMap<Address, Arc<Node>>,
    slots: HashMap<u16, Arc<Node>>,
    /// Counts the refreshes.
    epoch: u64,
}

/// Whether the node has been made to accept a key of a slot that is being moved to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    No,
    Yes,
}

impl Cluster {
    pub(super) fn alone(address: Address, login: Login, bounds: NodeBounds) -> Cluster {
        Cluster { alone: true, ..Cluster::new(vec![address], login, bounds) }
    }

    pub(super) fn new(seeds: Vec<Address>, login: Login, bounds: NodeBounds) -> Cluster {
        let login = Arc::new(login);
        let node = |address| Arc::new(Node::new(address, Arc::clone(&login), bounds));
        let seeds = seeds.into_iter().map(node).collect();
        let (known, refreshing) = (Mutex::default(), tokio::sync::Mutex::default());
        Cluster { seeds, alone: false, login, bounds, known, refreshing }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        let new = || Arc::new(Node::new(address.clone(), Arc::clone(&self.login), self.bounds));
        Arc::clone(self.known().nodes.entry(address.clone()).or_insert_with(new))
    }

    /// Sends a command to the node of a key.
    pub(super) async fn call(&self, key: &Key, command: &Cmd) -> Result<Value, Failure> {
        let mut route = self.route(key).await?;
        loop {
            let reply = match route.asking {
                Asking::No => route.node.call(command).await,
                Asking::Yes => {
                    let mut both = redis::pipe();
                    both.cmd("ASKING").add_command(command.clone());
                    route.node.call_all(&both).await
                }
            };
            match reply {
                Ok(value) => return Ok(value),
                Err(failure) => route.follow(failure).await?,
            }
        }
    }

    /// Names the node of a key, as far as it is known: calls with the same name may go together.
    pub(super) fn place(&self, key: &Key) -> usize {
        match self.alone {
            true => 0,
            false => {
                let known = self.known();
                known.slots.get(&slot(key.as_bytes())).map_or(0, |node| Arc::as_ptr(node) as usize)
            }
        }
    }

    /// Whether it is one server alone.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Every node that has slots.
    pub(super) async fn masters(&self) -> Result<Vec<Arc<Node>>, Failure> {
        if self.alone {
            return Ok(self.seeds.clone());
        }
        let masters = || {
            let mut masters: Vec<Arc<Node>> = Vec::new();
            for node in self.known().slots.values() {
                if !masters.iter().any(|known| Arc::ptr_eq(known, node)) {
                    masters.push(Arc::clone(node));
                }
            }
            masters
        };
        if masters().is_empty() {
            self.refresh_now().await?;
        }
        let mut masters = masters();
        masters.sort_by_cached_key(|node| node.address.to_string());
        Ok(masters)
    }

    /// Reads the slots again.
    pub(super) async fn refresh_now(&self) -> Result<(), Failure> {
        let epoch = self.known().epoch;
        self.refresh(epoch).await
    }

    /// The way to the node of a key.
    pub(super) async fn route(&self, key: &Key) -> Result<Route<'_>, Failure> {
        self.route_to(slot(key.as_bytes())).await
    }

    /// The way to the node of a slot.
    pub(super) async fn route_to(&self, slot: u16) -> Result<Route<'_>, Failure> {
        let node = match self.alone {
            true => Arc::clone(&self.seeds[0]),
            false => self.owner(slot).await?,
        };
        Ok(Route {
            cluster: self,
            slot,
            node,
            asking: Asking::No,
            refreshed: false,
            left: REDIS_REDIRECTS_MAX,
        })
    }

    async fn owner(&self, slot: u16) -> Result<Arc<Node>, Failure> {
        let (found, epoch) = {
            let known = self.known();
            (known.slots.get(&slot).cloned(), known.epoch)
        };
        if let Some(node) = found {
            return Ok(node);
        }
        self.refresh(epoch).await?;
        let found = self.known().slots.get(&slot).cloned();
        found.ok_or_else(|| Failure::NotSent(format!("no node of the cluster has the slot {slot}")))
    }

    /// Reads the slots from the first node that replies, unless that happened since `epoch`.
    async fn refresh(&self, epoch: u64) -> Result<(), Failure> {
        let _refreshing = self.refreshing.lock().await;
        if self.known().epoch != epoch {
            return Ok(());
        }
        let mut nodes: Vec<Arc<Node>> = self.known().nodes.values().cloned().collect();
        nodes.extend(self.seeds.iter().cloned());
        let mut failure = Failure::NotSent("the cluster has no nodes".to_owned());
        for node in nodes {
            match node.call(redis::cmd("CLUSTER").arg("SLOTS")).await {
                Ok(reply) => {
                    self.learn(&reply, &node.address);
                    return Ok(());
                }
                // Reading the slots changes nothing.
                Err(Failure::Lost(message)) => failure = Failure::NotSent(message),
                Err(other) if other.is("ERR") => {
                    let message =
                        format!("the server at {} is no node of a cluster: write redis://", node.address);
                    return Err(Failure::NotSent(message));
                }
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }

    fn learn(&self, reply: &Value, from: &Address) {
        let Value::Array(ranges) = reply else { return };
        let ranges: Vec<_> = ranges.iter().filter_map(|range| slots_of(range, from)).collect();
        let owners: Vec<_> =
            ranges.into_iter().map(|(first, last, address)| (first, last, self.node(&address))).collect();
        let mut known = self.known();
        known.epoch += 1;
        known.slots.clear();
        for (first, last, node) in owners {
            known.slots.extend((first..=last).map(|slot| (slot, Arc::clone(&node))));
        }
    }

    /// Closes all connections.
    pub(super) fn close(&self) {
        let nodes: Vec<Arc<Node>> = self.known().nodes.values().chain(&self.seeds).cloned().collect();
        nodes.iter().for_each(|node| node.close());
    }
}

/// The way of one call.
pub(super) struct Route<'a> {
    cluster: &'a Cluster,
    slot: u16,
    /// The node to call.
    pub(super) node: Arc<Node>,
    pub(super) asking: Asking,
    refreshed: bool,
    left: u32,
}

impl Route<'_> {
    /// Goes to the node that has the slot now, after the slots were read again for another call to the same node.
    pub(super) async fn renew(&mut self) -> Result<(), Failure> {
        self.refreshed = true;
        (self.node, self.asking) = (self.cluster.owner(self.slot).await?, Asking::No);
        Ok(())
    }

    /// Goes where a node says that the slot is. If the failure says nothing of the kind, it is returned.
    pub(super) async fn follow(&mut self, failure: Failure) -> Result<(), Failure> {
        let cluster = self.cluster;
        if cluster.alone {
            return Err(failure);
        }
        if self.left == 0 {
            return Err(Failure::NotSent("the slot of the key is being moved: try again later".to_owned()));
        }
        self.left -= 1;
        match &failure {
            Failure::Rejected { code, detail } if code == "MOVED" || code == "ASK" => {
                let Some(other) = redirected(detail, &self.node.address) else { return Err(failure) };
                self.node = cluster.node(&other);
                self.asking = if code == "ASK" { Asking::Yes } else { Asking::No };
                if self.asking == Asking::No {
                    cluster.known().slots.insert(self.slot, Arc::clone(&self.node));
                }
            }
            Failure::Rejected { code, .. } if code == "TRYAGAIN" => tokio::time::sleep(TRY_AGAIN).await,
            // The node may have been replaced: the others know by which.
            Failure::NotSent(_) if !self.refreshed => {
                self.refreshed = true;
                cluster.refresh_now().await?;
                (self.node, self.asking) = (cluster.owner(self.slot).await?, Asking::No);
            }
            _ => return Err(failure),
        }
        Ok(())
    }
}

/// The address in `SLOT HOST:PORT`. A node that does not know its own host leaves it out.
fn redirected(detail: &str, from: &Address) -> Option<Address> {
    let address = detail.split_ascii_whitespace().nth(1)?;
    match address.strip_prefix(':') {
        Some(port) => Some(Address { host: from.host.clone(), port: port.parse().ok()? }),
        None => Address::parse(address, 0),
    }
}

/// First and last slot and the master of a range in CLUSTER SLOTS.
fn slots_of(range: &Value, from: &Address) -> Option<(u16, u16, Address)> {
    let Value::Array(fields) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &fields[..] else { return None };
    let [host, Value::Int(port), ..] = &master[..] else { return None };
    let host = match host {
        Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
        _ => from.host.clone(),
    };
    let port = u16::try_from(*port).ok()?;
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, Address { host, port }))
}
