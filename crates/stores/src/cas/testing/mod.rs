//! A server in memory that loses replies, delays writes past the deadline, refuses and hangs, at the calls that a plan names. It, or one of its
//! clients, may also die there. It keeps every value that a key has had.
//!
//! | To find                                        | open     |
//! |------------------------------------------------|----------|
//! | a scene of several handles, and what is wrong with its outcome | `model` |
//! | every fault, every pair, every moment of a death, random plans | `plans` |
//! | round trips, deadlines, bounds                 | `layer`  |

mod layer;
mod model;
mod plans;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{Capabilities, Code, Error, Key, Result};

use super::{Backend, Reading, Stored, Swap, Swapped, VersionToken};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallFault {
    pub(super) reply: Reply,
    pub(super) effect: Effect,
}

/// What the caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The connection is lost.
    Lost,
    /// Nothing, until the caller gives up.
    Hangs,
    /// The server is known not to have got it. The effect is none.
    Refused,
    /// The process that called has ended, so it sends nothing more and learns nothing.
    Dies,
}

/// What happens on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Now,
    Never,
    /// It arrives when so many further calls have arrived, or after the end of the run.
    Late(usize),
}

/// Faults by the number of the call.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) at: BTreeMap<usize, CallFault>,
    /// The fault of every other call from this one on: the server has died.
    pub(super) from: Option<(usize, CallFault)>,
}

impl Plan {
    fn of(&self, call: usize) -> Option<CallFault> {
        let lasting = self.from.filter(|(from, _)| call >= *from).map(|(_, fault)| fault);
        self.at.get(&call).copied().or(lasting)
    }
}

impl FromIterator<(usize, CallFault)> for Plan {
    fn from_iter<T: IntoIterator<Item = (usize, CallFault)>>(faults: T) -> Plan {
        Plan { at: faults.into_iter().collect(), from: None }
    }
}

/// How a server is, apart from faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Manner {
    #[default]
    Correct,
    /// Deletes what it is asked to keep: a late write to an absent key then lands.
    DeletesTombstones,
    /// Somebody else always writes the key before a swap.
    Contended,
}

#[derive(Default)]
struct World {
    values: HashMap<Key, (u64, String)>,
    revision: u64,
    calls: usize,
    plan: Plan,
    /// Writes that are still on their way, with the call at which they arrive.
    late: Vec<(usize, Key, Write)>,
    /// Every value that a key has had, in order.
    history: Vec<String>,
    /// The handles whose process has ended.
    dead: BTreeSet<usize>,
    handles: usize,
    seed: u64,
    manner: Manner,
    returns_current: bool,
}

#[derive(Clone)]
struct Write {
    expected: Option<VersionToken>,
    text: String,
}

impl World {
    fn swap(&mut self, key: &Key, write: &Write) -> Swapped {
        if self.manner == Manner::Contended {
            self.revision += 1;
            let revision = self.revision;
            self.values.entry(key.clone()).and_modify(|value| value.0 = revision);
            return Swapped::Conflict(self.returns_current.then(|| self.read(key)));
        }
        let current = self.values.get(key).map(|(revision, _)| VersionToken(u128::from(*revision)));
        if current != write.expected {
            return Swapped::Conflict(self.returns_current.then(|| self.read(key)));
        }
        self.revision += 1;
        self.history.push(write.text.clone());
        if self.manner == Manner::DeletesTombstones && write.text.ends_with('\n') {
            self.values.remove(key);
        } else {
            self.values.insert(key.clone(), (self.revision, write.text.clone()));
        }
        Swapped::Done(VersionToken(u128::from(self.revision)))
    }

    fn read(&self, key: &Key) -> Reading {
        let stored = self.values.get(key).map(|(revision, text)| Stored {
            token: VersionToken(u128::from(*revision)),
            text: text.clone(),
        });
        Reading { stored, now: None }
    }

    fn arrive(&mut self, until: usize) {
        let (due, late) = std::mem::take(&mut self.late).into_iter().partition(|(at, ..)| *at <= until);
        self.late = late;
        let due: Vec<(usize, Key, Write)> = due;
        for (_, key, write) in due {
            self.swap(&key, &write);
        }
    }

    /// Counts a call, and delivers what is due before it.
    fn call(&mut self) -> (Option<CallFault>, Duration) {
        let call = self.calls;
        self.calls += 1;
        self.arrive(call);
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.plan.of(call), Duration::from_millis(1 + (self.seed >> 33) % 4))
    }
}

/// The server, for one of its clients.
pub(super) struct FaultyBackend {
    world: Arc<Mutex<World>>,
    handle: usize,
}

impl Clone for FaultyBackend {
    /// Another client.
    fn clone(&self) -> Self {
        let mut world = self.lock();
        world.handles += 1;
        FaultyBackend { world: Arc::clone(&self.world), handle: world.handles }
    }
}

impl FaultyBackend {
    pub(super) fn new(plan: Plan, seed: u64, returns_current: bool) -> Self {
        let world = World { plan, seed, returns_current, ..World::default() };
        FaultyBackend { world: Arc::new(Mutex::new(world)), handle: 0 }
    }

    pub(super) fn of_manner(self, manner: Manner) -> Self {
        self.lock().manner = manner;
        self
    }

    pub(super) fn calls(&self) -> usize {
        self.lock().calls
    }

    /// Delivers everything that is still on its way.
    pub(super) fn arrive_all(&self) {
        self.lock().arrive(usize::MAX);
    }

    /// Every value that the one key of a scene has had.
    pub(super) fn history(&self) -> Vec<String> {
        self.lock().history.clone()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way there, the effect on the server, and the way back.
    async fn perform<T>(&self, effect: impl Fn(&mut World) -> T, late: Option<(Key, Write)>) -> Result<T> {
        if self.lock().dead.contains(&self.handle) {
            std::future::pending::<()>().await;
        }
        let (fault, latency) = self.lock().call();
        if fault.is_some_and(|fault| fault.reply == Reply::Dies) {
            self.lock().dead.insert(self.handle);
        }
        tokio::time::sleep(latency).await;
        let Some(CallFault { reply, effect: when }) = fault else {
            let result = effect(&mut self.lock());
            tokio::time::sleep(latency).await;
            return Ok(result);
        };
        match (reply, when, late) {
            (Reply::Refused, ..) | (_, Effect::Never, _) | (_, Effect::Late(_), None) => {}
            (_, Effect::Now, _) => drop(effect(&mut self.lock())),
            (_, Effect::Late(after), Some((key, write))) => {
                let mut world = self.lock();
                let at = world.calls.saturating_add(after);
                world.late.push((at, key, write));
            }
        }
        match reply {
            Reply::Lost => Err(Error::unknown(Code::StoreUnavailable, "the connection was lost")),
            Reply::Hangs | Reply::Dies => std::future::pending().await,
            Reply::Refused => Err(Error::new(Code::StoreUnavailable, "the connection was refused")),
        }
    }
}

impl Backend for FaultyBackend {
    fn scheme(&self) -> &'static str {
        "faulty"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: false,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: KEY_BYTES_MAX,
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        self.perform(|world| world.read(key), None).await
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let write = Write { expected: swap.expected, text: swap.text.to_owned() };
        self.perform(|world| world.swap(key, &write), Some((key.clone(), write.clone()))).await
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
