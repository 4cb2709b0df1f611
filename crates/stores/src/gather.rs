//! Calls that come while others are under way wait, and are then sent together: what a round trip costs is shared by all of them. A call
//! that is alone is sent at once, by its caller.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keystead_core::{Code, Error, Result};
use tokio::sync::oneshot;

use crate::bounds::{GATHERED_IN_FLIGHT, GATHERED_MAX, WAITING_MAX};
use crate::carried::Carried;

/// Sends calls of one kind.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// A call.
    type Call: Send + 'static;
    /// Its reply.
    type Reply: Send + 'static;

    /// Sends calls in one round trip. The replies are in the same order, one for each.
    fn send(&self, calls: Vec<Self::Call>) -> impl Future<Output = Vec<Result<Self::Reply>>> + Send;
}

/// The calls of one kind to one server.
pub(crate) struct Gather<C: Carrier>(Arc<Shared<C>>);

struct Shared<C: Carrier> {
    carrier: C,
    lane: Mutex<Lane<C>>,
}

struct Lane<C: Carrier> {
    in_flight: usize,
    /// Of those, the ones that their callers poll.
    carried: Vec<Carried>,
    waiting: VecDeque<Waiting<C>>,
}

impl<C: Carrier> Lane<C> {
    fn end(&mut self, driver: &Carried) {
        self.in_flight -= 1;
        self.carried.retain(|carried| !carried.is(driver));
    }
}

struct Waiting<C: Carrier> {
    call: C::Call,
    send: oneshot::Sender<Result<C::Reply>>,
}

impl<C: Carrier> Gather<C> {
    pub(crate) fn new(carrier: C) -> Self {
        let lane = Lane { in_flight: 0, carried: Vec::new(), waiting: VecDeque::new() };
        Gather(Arc::new(Shared { carrier, lane: Mutex::new(lane) }))
    }

    pub(crate) fn carrier(&self) -> &C {
        &self.0.carrier
    }

    /// Sends a call, alone or with others. If this future is dropped, a call that waits is not sent.
    pub(crate) async fn call(&self, call: C::Call) -> Result<C::Reply> {
        let (send, receive) = oneshot::channel();
        let waiting = Waiting { call, send };
        let received = match self.enter(waiting)? {
            Entered::First(carried, first) => {
                let driver = Driver { shared: Arc::clone(&self.0), carried: carried.clone(), ended: false };
                carried.run(driver.run(first), receive).await
            }
            Entered::Behind => receive.await,
        };
        let stopped = "the runtime stopped before the store replied";
        received.unwrap_or_else(|_| Err(Error::unknown(Code::StoreUnavailable, stopped)))
    }

    fn enter(&self, waiting: Waiting<C>) -> Result<Entered<C>> {
        let mut lane = self.0.lane();
        if lane.in_flight < GATHERED_IN_FLIGHT {
            lane.in_flight += 1;
            let carried = Carried::default();
            lane.carried.push(carried.clone());
            return Ok(Entered::First(carried, vec![waiting]));
        }
        if lane.waiting.len() >= WAITING_MAX {
            let message = format!("{WAITING_MAX} calls wait for the server already: try again later");
            return Err(Error::new(Code::QueueFull, message));
        }
        lane.waiting.push_back(waiting);
        let carried = std::mem::take(&mut lane.carried);
        drop(lane);
        // Somebody waits for them now, so they do not depend on their callers any more.
        carried.iter().for_each(Carried::detach);
        Ok(Entered::Behind)
    }
}

enum Entered<C: Carrier> {
    /// To be sent at once, by a driver of its own.
    First(Carried, Vec<Waiting<C>>),
    Behind,
}

impl<C: Carrier> Shared<C> {
    fn lane(&self) -> MutexGuard<'_, Lane<C>> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a driver sends next. After `None` it has ended.
    fn next(&self, driver: &Carried) -> Option<Vec<Waiting<C>>> {
        let mut lane = self.lane();
        let mut batch = Vec::new();
        while batch.len() < GATHERED_MAX {
            let Some(waiting) = lane.waiting.pop_front() else { break };
            if !waiting.send.is_closed() {
                batch.push(waiting);
            }
        }
        if batch.is_empty() {
            lane.end(driver);
            return None;
        }
        Some(batch)
    }
}

/// Sends batches until none waits.
struct Driver<C: Carrier> {
    shared: Arc<Shared<C>>,
    carried: Carried,
    ended: bool,
}

impl<C: Carrier> Driver<C> {
    async fn run(mut self, first: Vec<Waiting<C>>) {
        let mut batch = Some(first);
        while let Some(waiting) = batch {
            let is_shared = waiting.len() > 1;
            let (calls, sends): (Vec<_>, Vec<_>) =
                waiting.into_iter().map(|Waiting { call, send }| (call, send)).unzip();
            let replies = self.shared.carrier.send(calls).await;
            for (send, reply) in sends.into_iter().zip(replies) {
                // The caller may have gone away.
                let _ = send.send(reply);
            }
            if is_shared {
                // Those who got their replies may come again, and share the next round trip.
                tokio::task::yield_now().await;
            }
            batch = self.shared.next(&self.carried);
        }
        self.ended = true;
    }
}

impl<C: Carrier> Drop for Driver<C> {
    /// Also when its runtime stops: no caller waits for ever.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut lane = self.shared.lane();
        lane.end(&self.carried);
        // Nobody else may be left to send them. They were not sent.
        let waiting = std::mem::take(&mut lane.waiting);
        drop(lane);
        for Waiting { send, .. } in waiting {
            let error = Error::new(Code::StoreUnavailable, "the runtime stopped before the call was sent");
            // The caller may have gone away.
            let _ = send.send(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    /// Doubles numbers, and replies to as many round trips as it has permits.
    struct Doubles {
        permits: Semaphore,
        sent: Mutex<Vec<Vec<u64>>>,
    }

    impl Carrier for Doubles {
        type Call = u64;
        type Reply = u64;

        async fn send(&self, calls: Vec<u64>) -> Vec<Result<u64>> {
            self.sent.lock().unwrap().push(calls.clone());
            self.permits.acquire().await.unwrap().forget();
            calls.into_iter().map(|call| Ok(call * 2)).collect()
        }
    }

    fn gather() -> Arc<Gather<Doubles>> {
        Arc::new(Gather::new(Doubles { permits: Semaphore::new(0), sent: Mutex::default() }))
    }

    async fn turn() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_are_sent_together_and_each_gets_its_reply() {
        let gather = gather();
        let calls: Vec<_> = (0..GATHERED_IN_FLIGHT as u64 + 100)
            .map(|number| {
                let gather = Arc::clone(&gather);
                tokio::spawn(async move { gather.call(number).await })
            })
            .collect();
        turn().await;
        gather.carrier().permits.add_permits(1000);
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap(), number as u64 * 2);
        }
        let sizes: Vec<usize> = gather.carrier().sent.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(sizes[..GATHERED_IN_FLIGHT], [1; GATHERED_IN_FLIGHT]);
        assert_eq!(sizes[GATHERED_IN_FLIGHT..].iter().sum::<usize>(), 100);
        assert!(
            sizes.iter().all(|size| *size <= GATHERED_MAX) && sizes.len() < GATHERED_IN_FLIGHT + 5,
            "{sizes:?}"
        );
        let lane = gather.0.lane();
        assert!(lane.in_flight == 0 && lane.carried.is_empty() && lane.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_while_it_waits_is_not_sent() {
        let gather = gather();
        let begun: Vec<_> = (0..GATHERED_IN_FLIGHT as u64)
            .map(|number| {
                let gather = Arc::clone(&gather);
                tokio::spawn(async move { gather.call(number).await })
            })
            .collect();
        turn().await;
        assert!(timeout(Duration::from_millis(1), gather.call(77)).await.is_err());
        gather.carrier().permits.add_permits(1000);
        for call in begun {
            call.await.unwrap().unwrap();
        }
        assert!(!gather.carrier().sent.lock().unwrap().iter().flatten().any(|call| *call == 77));
    }

    /// A caller may hold its future without polling it, for example in a `select!` that is busy elsewhere.
    #[tokio::test(start_paused = true)]
    async fn callers_that_do_not_poll_hold_nobody_up() {
        let gather = gather();
        let mut begun: Vec<_> = (0..GATHERED_IN_FLIGHT as u64)
            .map(|number| {
                let gather = Arc::clone(&gather);
                Box::pin(async move { gather.call(number).await })
            })
            .collect();
        for call in &mut begun {
            assert!(timeout(Duration::ZERO, call).await.is_err());
        }
        gather.carrier().permits.add_permits(1000);
        assert_eq!(timeout(Duration::from_secs(1), gather.call(5)).await.unwrap().unwrap(), 10);
        for (number, call) in begun.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), number as u64 * 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_the_bound_do_not_wait() {
        let gather = gather();
        let mut calls = Vec::new();
        for number in 0..(WAITING_MAX + GATHERED_IN_FLIGHT) as u64 {
            let gather = Arc::clone(&gather);
            calls.push(tokio::spawn(async move { gather.call(number).await }));
        }
        turn().await;
        assert_eq!(gather.call(1).await.unwrap_err().code(), Code::QueueFull);
        gather.carrier().permits.add_permits(100_000);
        for call in calls {
            call.await.unwrap().unwrap();
        }
    }
}
