//! The steps that wait for a key in this process. A key that has a queue has exactly one driver, which takes them batch by batch.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keystead_core::{Code, Error, Key, Result};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::combine::Work;
use super::retry;
use crate::bounds::{COMBINED_MAX, WAITING_MAX};
use crate::carried::Carried;

/// A power of two. Only a lock each: keys of different shards do not wait for each other here.
const SHARDS: usize = 16;

/// What waits for its batch.
pub(crate) struct Waiting {
    pub(crate) work: Work,
    pub(crate) since: Instant,
    pub(crate) send: oneshot::Sender<Result<Work>>,
}

/// Whether a key had a driver already.
pub(crate) enum Queued {
    /// The caller runs the driver.
    First(Carried),
    Behind,
}

/// What waits for a key, and its driver.
struct Queue {
    waiting: VecDeque<Waiting>,
    /// While its caller runs it.
    driver: Option<Carried>,
}

type Shard = HashMap<Key, Queue>;

pub(crate) struct Queues {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    drivers: watch::Sender<usize>,
}

impl Default for Queues {
    fn default() -> Self {
        Queues { shards: Default::default(), hasher: RandomState::new(), drivers: watch::Sender::new(0) }
    }
}

impl Queues {
    /// Appends work to the queue of its key.
    pub(crate) fn push(&self, key: &Key, work: Work) -> Result<(Queued, oneshot::Receiver<Result<Work>>)> {
        let (send, receive) = oneshot::channel();
        let waiting = Waiting { work, since: retry::now(), send };
        let mut shard = self.shard(key);
        let Some(queue) = shard.get_mut(key) else {
            let driver = Carried::default();
            let queue = Queue { waiting: VecDeque::from([waiting]), driver: Some(driver.clone()) };
            shard.insert(key.clone(), queue);
            self.drivers.send_modify(|drivers| *drivers += 1);
            return Ok((Queued::First(driver), receive));
        };
        if queue.waiting.len() >= WAITING_MAX {
            let message = format!("{WAITING_MAX} steps wait for the key already: try again later");
            return Err(Error::new(Code::QueueFull, message));
        }
        queue.waiting.push_back(waiting);
        let driver = queue.driver.take();
        drop(shard);
        if let Some(driver) = driver {
            // Somebody else waits for it now, so it does not depend on its caller any more.
            driver.detach();
        }
        Ok((Queued::Behind, receive))
    }

    /// The next batch of a key. After `None` it has no driver.
    pub(crate) fn take(&self, key: &Key) -> Option<Vec<Waiting>> {
        let mut shard = self.shard(key);
        let queue = shard.get_mut(key)?;
        let batch: Vec<Waiting> = queue.waiting.drain(..queue.waiting.len().min(COMBINED_MAX)).collect();
        if batch.is_empty() {
            shard.remove(key);
            self.drivers.send_modify(|drivers| *drivers -= 1);
            return None;
        }
        Some(batch)
    }

    /// The driver of a key has ended before its queue: nothing of what still waits has begun.
    pub(crate) fn abandon(&self, key: &Key) {
        let queue = self.shard(key).remove(key);
        self.drivers.send_modify(|drivers| *drivers -= 1);
        for waiting in queue.into_iter().flat_map(|queue| queue.waiting) {
            let error = Error::new(Code::StoreUnavailable, "the runtime stopped before the step began");
            // The caller may have gone away.
            let _ = waiting.send.send(Err(error));
        }
    }

    /// Returns when no key has a driver.
    pub(crate) async fn drained(&self) {
        // It fails only when the sender is dropped, and that is `self`.
        let _ = self.drivers.subscribe().wait_for(|drivers| *drivers == 0).await;
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[self.hasher.hash_one(key) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
