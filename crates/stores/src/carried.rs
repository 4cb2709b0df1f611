//! A future that its caller polls while nobody else waits for it: no task, and no wake-up of another thread. As soon as somebody else waits, or
//! the caller goes away, it goes on as a task of its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What others have of it: they can make it go on without its caller.
#[derive(Clone, Default)]
pub(crate) struct Carried(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// `None` before it begins, while it is polled, and after it has become a task.
    work: Mutex<Option<Work>>,
    detached: AtomicBool,
}

impl Carried {
    /// Makes it a task, now or when its caller has polled it.
    pub(crate) fn detach(&self) {
        self.0.detached.store(true, Ordering::SeqCst);
        let work = self.work().take();
        if let (Some(work), Ok(runtime)) = (work, Handle::try_current()) {
            runtime.spawn(work);
        }
    }

    /// Whether this is the other.
    pub(crate) fn is(&self, other: &Carried) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Runs it until `receive` has a result, which it sends. What is left of it then is a task.
    pub(crate) async fn run<T>(
        self,
        work: impl Future<Output = ()> + Send + 'static,
        receive: oneshot::Receiver<T>,
    ) -> Result<T, oneshot::error::RecvError> {
        *self.work() = Some(Box::pin(work));
        Running { carried: self, receive }.await
    }

    fn poll(&self, context: &mut Context<'_>) {
        let Some(mut work) = self.work().take() else { return };
        // Work that panics is dropped here.
        if work.as_mut().poll(context).is_pending() {
            *self.work() = Some(work);
            // Whoever came while it was polled did not find it.
            if self.0.detached.load(Ordering::SeqCst) {
                self.detach();
            }
        }
    }

    fn work(&self) -> MutexGuard<'_, Option<Work>> {
        self.0.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller's side.
struct Running<T> {
    carried: Carried,
    receive: oneshot::Receiver<T>,
}

impl<T> Future for Running<T> {
    type Output = Result<T, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.carried.poll(context);
        Pin::new(&mut self.receive).poll(context)
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.carried.detach();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    /// Work that needs two turns, and sends the id of the task that did the second.
    fn work() -> (impl Future<Output = ()> + Send, oneshot::Receiver<Option<tokio::task::Id>>) {
        let (send, receive) = oneshot::channel();
        let work = async move {
            sleep(Duration::from_millis(10)).await;
            let _ = send.send(tokio::task::try_id());
        };
        (work, receive)
    }

    #[tokio::test(start_paused = true)]
    async fn alone_it_runs_in_the_task_of_its_caller() {
        let (work, receive) = work();
        let caller =
            tokio::spawn(async { (Carried::default().run(work, receive).await, tokio::task::try_id()) });
        let (by, own) = caller.await.unwrap();
        assert_eq!(by.unwrap(), own);
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_when_its_caller_goes_away() {
        let (inner, receive) = work();
        let (send, mut done) = oneshot::channel();
        let work = async move {
            inner.await;
            let _ = send.send(());
        };
        assert!(timeout(Duration::from_millis(1), Carried::default().run(work, receive)).await.is_err());
        assert!(done.try_recv().is_err());
        timeout(Duration::from_secs(1), done).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_when_another_waits_and_its_caller_does_not_poll() {
        let (work, receive) = work();
        let carried = Carried::default();
        let mut caller = Box::pin(carried.clone().run(work, receive));
        assert!(timeout(Duration::ZERO, &mut caller).await.is_err());
        carried.detach();
        sleep(Duration::from_millis(20)).await;
        // A channel that has its value is ready at the first poll.
        let by = timeout(Duration::ZERO, caller).await.unwrap().unwrap();
        assert_ne!(by, tokio::task::try_id());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_wanted_before_it_began_becomes_a_task() {
        let (work, receive) = work();
        let carried = Carried::default();
        carried.detach();
        let by = carried.run(work, receive).await.unwrap();
        assert_ne!(by, tokio::task::try_id());
    }
}
