//! The batches of a key: the steps that wait for it in this process run one batch after the other, whatever persists them.

use std::future::Future;
use std::sync::Arc;

use keystead_core::{Code, Error, Key, Result};

use super::combine::{Job, Work};
use super::queue::{Queued, Queues, Waiting};
use super::retry::Pace;
use crate::copied::copy;

/// Persists what a batch makes of the value of its key.
pub(crate) trait Persists: Send + Sync + 'static {
    /// What waits.
    fn queues(&self) -> &Queues;

    /// How long it may wait.
    fn pace(&self) -> Pace;

    /// Runs the jobs one after the other and persists what they changed. A job that failed has its error; an error of the batch is one of
    /// all jobs. A key has one batch at a time.
    fn persist(&self, key: &Key, jobs: &mut [Job]) -> impl Future<Output = Result<()>> + Send;
}

/// Runs work in the next batch of its key.
pub(crate) async fn run<P: Persists>(store: &Arc<P>, key: &Key, work: Work) -> Result<Work> {
    let (queued, receive) = store.queues().push(key, work)?;
    let received = match queued {
        Queued::First(carried) => carried.run(Driver::new(store, key).run(), receive).await,
        Queued::Behind => receive.await,
    };
    let stopped = "the runtime stopped before the store replied";
    received.unwrap_or_else(|_| Err(Error::unknown(Code::StoreUnavailable, stopped)))
}

/// Runs the batches of one key until none waits.
struct Driver<P: Persists> {
    store: Arc<P>,
    key: Key,
    ended: bool,
}

impl<P: Persists> Driver<P> {
    fn new(store: &Arc<P>, key: &Key) -> Self {
        Driver { store: Arc::clone(store), key: key.clone(), ended: false }
    }

    async fn run(mut self) {
        while let Some(batch) = self.store.queues().take(&self.key) {
            self.batch(batch).await;
        }
        self.ended = true;
    }

    async fn batch(&self, batch: Vec<Waiting>) {
        let (mut jobs, mut sends) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for Waiting { work, since, send } in batch {
            if self.store.pace().is_late(since) {
                let message = "the step waited too long for those before it: the server is slow or stuck";
                let _ = send.send(Err(Error::new(Code::StoreUnavailable, message)));
            } else if !send.is_closed() {
                jobs.push(Job::new(work));
                sends.push(send);
            }
        }
        if jobs.is_empty() {
            return;
        }
        let persisted = self.store.persist(&self.key, &mut jobs).await;
        for (Job { work, result }, send) in jobs.into_iter().zip(sends) {
            let result = match &persisted {
                Ok(()) => result.map(|()| work),
                Err(error) => Err(copy(error)),
            };
            // The caller may have gone away.
            let _ = send.send(result);
        }
    }
}

impl<P: Persists> Drop for Driver<P> {
    /// Also when its runtime stops: no caller waits for ever.
    fn drop(&mut self) {
        if !self.ended {
            self.store.queues().abandon(&self.key);
        }
    }
}
