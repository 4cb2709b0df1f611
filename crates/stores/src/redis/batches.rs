//! The steps that wait while scripts of their lane are under way. They are sent together, one batch after the other.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keystead_core::{Code, ErasedStep, Error, Key, Millis, Result, Script, Stopwatch};
use tokio::sync::oneshot;

use crate::bounds::{SCRIPTS_COMBINED_MAX, SCRIPTS_IN_FLIGHT, WAITING_MAX};

/// What is sent together: steps of the same source, by its address and the number of arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    source: usize,
    args: usize,
    about: About,
}

/// Whose steps are sent together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum About {
    /// Those of all keys, as one script.
    All,
    /// Those of the keys on this server, as a script for each key.
    Each { server: usize },
    /// Those of this key.
    Key(Key),
}

impl Lane {
    pub(super) fn new(script: &Script, about: About) -> Lane {
        Lane { source: script.source.as_ptr() as usize, args: script.args.len(), about }
    }

    pub(super) fn about(&self) -> &About {
        &self.about
    }

    fn in_flight_max(&self) -> usize {
        match self.about {
            About::Key(_) => 1,
            About::All | About::Each { .. } => SCRIPTS_IN_FLIGHT,
        }
    }
}

/// A step that waits.
pub(super) struct Waiting {
    pub(super) key: Key,
    pub(super) step: Box<dyn ErasedStep>,
    pub(super) script: Script,
    /// The time on the clock when it came; `None` if the server's is the authority.
    pub(super) now: Option<Millis>,
    /// For how long it has waited.
    pub(super) since: Stopwatch,
    pub(super) send: oneshot::Sender<Result<Box<dyn ErasedStep>>>,
}

/// When a step is sent.
pub(super) enum Turn {
    /// At once, by its caller, who must call [`next`](Batches::next) afterwards.
    Now(Script),
    /// With others, by somebody else.
    Later(oneshot::Receiver<Result<Box<dyn ErasedStep>>>),
}

/// A lane with scripts under way.
#[derive(Default)]
struct Queue {
    in_flight: usize,
    waiting: VecDeque<Waiting>,
}

/// The lanes with scripts under way, and what waits for them.
#[derive(Default)]
pub(super) struct Batches(Mutex<HashMap<Lane, Queue>>);

impl Batches {
    /// Whether a step may be sent, or waits.
    pub(super) fn enter(
        &self,
        lane: &Lane,
        key: &Key,
        step: &dyn ErasedStep,
        script: Script,
        now: Option<Millis>,
    ) -> Result<Turn> {
        let mut lanes = self.lock();
        let queue = match lanes.get_mut(lane) {
            Some(queue) => queue,
            None => lanes.entry(lane.clone()).or_default(),
        };
        if queue.in_flight < lane.in_flight_max() {
            queue.in_flight += 1;
            return Ok(Turn::Now(script));
        }
        if queue.waiting.len() >= WAITING_MAX {
            let message = format!("{WAITING_MAX} steps wait for the server already: try again later");
            return Err(Error::new(Code::QueueFull, message));
        }
        let (send, receive) = oneshot::channel();
        let (key, step, since) = (key.clone(), step.detach(), Stopwatch::start());
        queue.waiting.push_back(Waiting { key, step, script, now, since, send });
        Ok(Turn::Later(receive))
    }

    /// The next batch of a lane, the steps of a key one after the other. After `None` one script less is under way.
    pub(super) fn next(&self, lane: &Lane) -> Option<Vec<Waiting>> {
        let mut lanes = self.lock();
        let queue = lanes.get_mut(lane)?;
        if queue.waiting.is_empty() {
            queue.in_flight -= 1;
            if queue.in_flight == 0 {
                lanes.remove(lane);
            }
            return None;
        }
        let count = queue.waiting.len().min(SCRIPTS_COMBINED_MAX);
        let mut batch: Vec<Waiting> = queue.waiting.drain(..count).collect();
        drop(lanes);
        if !matches!(lane.about, About::Key(_)) {
            batch.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Some(batch)
    }

    /// A script less is under way, and nobody else may be left to send what waits for its lane.
    pub(super) fn abandon(&self, lane: &Lane) {
        let mut lanes = self.lock();
        let Some(queue) = lanes.get_mut(lane) else { return };
        let waiting = std::mem::take(&mut queue.waiting);
        queue.in_flight -= 1;
        if queue.in_flight == 0 {
            lanes.remove(lane);
        }
        drop(lanes);
        for waiting in waiting {
            let error = Error::new(Code::StoreUnavailable, "the runtime stopped before the step began");
            // The caller may have gone away.
            let _ = waiting.send.send(Err(error));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Lane, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
