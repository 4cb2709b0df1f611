//! The store: a step with a script is one EVALSHA, any other one goes through the compare-and-set layer.
//!
//! While scripts are under way, further steps wait and are then sent together: as one script for all of their keys, or as a script for each
//! key, in one round trip, where a script may touch one key only. A caller that is alone never waits.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use keystead_core::{
    Capabilities, Clock, Code, ErasedStep, Error, Job, Key, Millis, Result, Script, Store, StoreFuture,
    Together,
};
use redis::Cmd;
use tokio::runtime::Handle;

use super::backend::RedisBackend;
use super::batches::{About, Batches, Lane, Turn, Waiting};
use super::failure::Failure;
use super::hot::HotKeys;
use super::jobs::{self, Jobs};
use super::replies::Replies;
use super::target::{Atomic, Options, TimeSource};
use super::wire::{Prepared, Wire};
use crate::bounds::{DEADLINE_PARTS, HOT_STEPS, RECLAIM_SLACK_MS, SCRIPT_TIME_MAX, WAIT_PARTS};
use crate::cas::{Attempt, CasStore};
use crate::copied::copy;

/// What scripts have in common.
pub(super) const RECORD: &str = include_str!("record.lua");
/// The script around the body of a step.
const FRAME: &str = include_str!("step.lua");

pub(super) struct RedisStore {
    scripts: Arc<Scripts>,
    cas: CasStore<RedisBackend>,
    jobs: Jobs,
    options: Options,
    clock: Arc<dyn Clock>,
}

impl RedisStore {
    pub(super) fn new(
        wire: Arc<Wire>,
        [cas, hot]: [CasStore<RedisBackend>; 2],
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let scripts = Scripts {
            wire,
            prepared: RwLock::default(),
            batches: Batches::default(),
            hot: HotKeys::new(hot),
            keys_apart: AtomicBool::new(false),
            wait_max: Duration::from_millis(options.deadline_ms / DEADLINE_PARTS * WAIT_PARTS),
            closed: AtomicBool::new(false),
        };
        RedisStore { scripts: Arc::new(scripts), cas, jobs: Jobs::default(), options, clock }
    }

    /// The script of a step, and the time to run it at; `None` if it must go through the layer.
    fn scripted(&self, step: &dyn ErasedStep) -> Option<(Script, Option<Millis>)> {
        if self.options.atomic != Atomic::Script {
            return None;
        }
        let script = step.script()?;
        let now = self.now();
        (is_exact(now) && is_exact(script.at)).then_some((script, now))
    }

    /// The time on the clock; `None` if the server's is the authority.
    fn now(&self) -> Option<Millis> {
        (self.options.time == TimeSource::Client).then(|| self.clock.now())
    }

    async fn run(
        &self,
        key: &Key,
        step: &mut dyn ErasedStep,
        script: Script,
        now: Option<Millis>,
    ) -> Result<()> {
        let about = match () {
            () if self.scripts.hot.contains(key) => About::Key(key.clone()),
            () if self.scripts.keys_apart() => About::Each { server: self.scripts.wire.place(key) },
            () => About::All,
        };
        let lane = Lane::new(&script, about);
        let turn = self.scripts.batches.enter(&lane, key, &*step, script, now)?;
        match turn {
            Turn::Now(script) => {
                // Also if this future is dropped, those who wait go on.
                let sent = Sent { scripts: &self.scripts, lane };
                let replies = self.scripts.send(&[(key, &script)], now).await;
                drop(sent);
                let replies = replies?;
                match replies.all().next() {
                    Some(reply) => step.put_script_reply(&reply?),
                    None => Err(no_reply()),
                }
            }
            Turn::Later(receive) => {
                // In time: a batch has a deadline, and nobody waits for many.
                let mut detached = receive.await.unwrap_or_else(|_| Err(no_reply()))?;
                if let Some(reply) = detached.take_reply() {
                    step.put_reply(reply);
                }
                Ok(())
            }
        }
    }
}

/// Whether a script can count with this time.
fn is_exact(time: Option<Millis>) -> bool {
    time.is_none_or(|time| time <= SCRIPT_TIME_MAX)
}

fn no_reply() -> Error {
    Error::unknown(Code::StoreUnavailable, "the runtime stopped before the store replied")
}

/// What runs scripts.
struct Scripts {
    wire: Arc<Wire>,
    /// Prepared scripts, by the address of their source.
    prepared: RwLock<HashMap<usize, Arc<Prepared>>>,
    batches: Batches,
    hot: HotKeys,
    /// Set when the server has rejected a script on several keys: it is a part of something larger, or has shards.
    keys_apart: AtomicBool,
    /// For how long a step may wait for those before it.
    wait_max: Duration,
    closed: AtomicBool,
}

impl Scripts {
    /// Whether a script may touch one key only.
    fn keys_apart(&self) -> bool {
        !self.wire.has_all_keys() || self.keys_apart.load(Ordering::Relaxed)
    }

    fn prepared(&self, script: &Script) -> Arc<Prepared> {
        let place = script.source.as_ptr() as usize;
        let known = self.prepared.read().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        known.unwrap_or_else(|| {
            let text = [RECORD, FRAME]
                .concat()
                .replace("SLACK_MS", &RECLAIM_SLACK_MS.to_string())
                .replace("ARGS", &script.args.len().to_string())
                .replacen("LIBRARY\n", script.library, 1)
                .replacen("STEP\n", &script.source.concat(), 1);
            let prepared = Arc::new(Prepared::new(text));
            let mut scripts = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(scripts.entry(place).or_insert(prepared))
        })
    }

    /// Runs steps of one script one after the other, those of a key in a row.
    async fn send(&self, steps: &[(&Key, &Script)], now: Option<Millis>) -> Result<Replies, Failure> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Failure::NotSent("the store is closed".to_owned()));
        }
        let Some((_, first)) = steps.first() else { return Ok(Replies::default()) };
        let prepared = self.prepared(first);
        let keys: Vec<&Key> = by_key(steps).map(|steps| steps[0].0).collect();
        let reply = self.wire.eval(&keys, &prepared, |command| {
            add_time(command, now);
            let mut before = None;
            by_key(steps).for_each(|steps| add_steps(command, steps, &mut before));
        });
        Replies::of(reply.await?)
    }

    /// Runs steps of one script as a script for each key, in one round trip to the server of the first key.
    async fn send_each(
        &self,
        steps: &[(&Key, &Script)],
        now: Option<Millis>,
    ) -> Result<Vec<Result<Replies, Failure>>, Failure> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Failure::NotSent("the store is closed".to_owned()));
        }
        let Some((_, first)) = steps.first() else { return Ok(Vec::new()) };
        let groups: Vec<_> = by_key(steps).collect();
        let keys: Vec<&Key> = groups.iter().map(|steps| steps[0].0).collect();
        let prepared = self.prepared(first);
        let replies = self.wire.eval_each(&keys, &prepared, |n, command| {
            add_time(command, now);
            add_steps(command, groups[n], &mut None);
        });
        Ok(replies.await?.into_iter().map(|reply| Replies::of(reply?)).collect())
    }

    /// Without those whose callers have gone away or have waited too long.
    fn in_time(&self, batch: Vec<Waiting>) -> Vec<Waiting> {
        let is_in_time = |waiting: Waiting| {
            if waiting.since.elapsed() > self.wait_max {
                let message = "the step waited too long for those before it: the server is slow or stuck";
                // The caller may have gone away.
                let _ = waiting.send.send(Err(Error::new(Code::StoreUnavailable, message)));
                return None;
            }
            (!waiting.send.is_closed()).then_some(waiting)
        };
        batch.into_iter().filter_map(is_in_time).collect()
    }

    /// Sends steps that have waited.
    async fn batch(&self, lane: &Lane, batch: Vec<Waiting>) {
        let mut batch = self.in_time(batch);
        if self.closed.load(Ordering::SeqCst) {
            return reply_to(batch, &Err(Failure::NotSent("the store is closed".to_owned()).into()));
        }
        // At this moment all of them were waiting.
        let Some(now) = batch.iter().map(|waiting| waiting.now).max() else { return };
        // The time of the server is not known here.
        if let (About::Key(key), Some(_)) = (lane.about(), now)
            && self.hot.contains(key)
        {
            batch = self.by_swap(key, batch).await;
        }
        if let (About::Each { .. }, Some(first)) = (lane.about(), batch.first())
            && batch.iter().any(|waiting| waiting.key != first.key)
        {
            return self.batch_each(batch, now).await;
        }
        let sent = self.send(&steps_of(&batch), now).await;
        if !matches!(&sent, Err(failure) if failure.is("CROSSSLOT") && batch.len() > 1) {
            if now.is_some() && sent.is_ok() {
                self.find_hot(&batch);
            }
            return reply_to(batch, &sent.map_err(Error::from));
        }
        // It ran nothing.
        self.keys_apart.store(true, Ordering::Relaxed);
        self.batch_each(batch, now).await;
    }

    /// Sends steps that have waited, as a script for each key.
    async fn batch_each(&self, mut batch: Vec<Waiting>, now: Option<Millis>) {
        let sent = self.send_each(&steps_of(&batch), now).await;
        let (mut sent, mut unreachable) = match sent {
            Ok(sent) => (sent.into_iter(), None),
            // The server may have been replaced. That is found out with the first of them.
            Err(Failure::NotSent(_)) => (Vec::new().into_iter(), None),
            Err(failure) => (Vec::new().into_iter(), Some(Error::from(failure))),
        };
        while let Some(first) = batch.first() {
            let others = batch.iter().position(|waiting| waiting.key != first.key).unwrap_or(batch.len());
            let of_others = batch.split_off(others);
            let steps = std::mem::replace(&mut batch, of_others);
            let sent = match (sent.next(), &unreachable) {
                (Some(sent), _) if !sent.as_ref().is_err_and(Failure::is_elsewhere) => {
                    sent.map_err(Error::from)
                }
                (None, Some(error)) => Err(copy(error)),
                // It was not run: it is sent by itself, to where it belongs.
                _ => match self.send(&steps_of(&steps), now).await {
                    Err(Failure::NotSent(message)) => {
                        let error = Error::from(Failure::NotSent(message));
                        unreachable = Some(copy(&error));
                        Err(error)
                    }
                    sent => sent.map_err(Error::from),
                },
            };
            if now.is_some() && sent.is_ok() {
                self.find_hot(&steps);
            }
            reply_to(steps, &sent);
        }
    }

    /// Keys with many steps in one script are hot.
    fn find_hot(&self, batch: &[Waiting]) {
        let by_key = batch.chunk_by(|a, b| a.key == b.key);
        by_key.filter(|steps| steps.len() >= HOT_STEPS).for_each(|steps| self.hot.insert(&steps[0].key));
    }

    /// Runs the steps of a hot key in this process. Returns those that a script must run.
    async fn by_swap(&self, key: &Key, batch: Vec<Waiting>) -> Vec<Waiting> {
        if batch.len() < HOT_STEPS / 2 {
            self.hot.remove(key);
            return batch;
        }
        let steps = batch.iter().map(|waiting| waiting.step.detach()).collect();
        match self.hot.attempt(key, steps).await {
            Ok(Attempt::Done(steps)) => {
                for (waiting, step) in batch.into_iter().zip(steps) {
                    // The caller may have gone away.
                    let _ = waiting.send.send(step);
                }
                Vec::new()
            }
            Ok(Attempt::Lost) => batch,
            Err(error) => {
                for waiting in batch {
                    let _ = waiting.send.send(Err(copy(&error)));
                }
                Vec::new()
            }
        }
    }
}

fn steps_of(batch: &[Waiting]) -> Vec<(&Key, &Script)> {
    batch.iter().map(|waiting| (&waiting.key, &waiting.script)).collect()
}

fn by_key<'a, 'b>(steps: &'b [(&'a Key, &'a Script)]) -> impl Iterator<Item = &'b [(&'a Key, &'a Script)]> {
    steps.chunk_by(|(key, _), (other, _)| key == other)
}

/// Adds the arguments of steps on one key, after those of the step before.
fn add_steps<'a>(command: &mut Cmd, steps: &[(&Key, &'a Script)], before: &mut Option<&'a Script>) {
    command.arg(steps.len());
    for &(_, script) in steps {
        if before.is_some_and(|before| before.at == script.at && before.args == script.args) {
            command.arg("=");
            continue;
        }
        *before = Some(script);
        add_time(command, script.at);
        for arg in &script.args {
            command.arg(arg.to_string());
        }
    }
}

pub(super) fn add_time(command: &mut Cmd, time: Option<Millis>) {
    match time {
        Some(Millis(ms)) => command.arg(ms),
        None => command.arg("-"),
    };
}

/// Passes the replies on to the callers.
fn reply_to(batch: Vec<Waiting>, sent: &Result<Replies>) {
    let mut replies = sent.as_ref().ok().map(Replies::all);
    for Waiting { mut step, send, .. } in batch {
        let result = match (sent, replies.as_mut().and_then(Iterator::next)) {
            (_, Some(reply)) => reply.and_then(|reply| step.put_script_reply(&reply)),
            (Err(error), None) => Err(copy(error)),
            (Ok(_), None) => Err(no_reply()),
        };
        // The caller may have gone away.
        let _ = send.send(result.map(|()| step));
    }
}

/// A script that a caller has sent. When it is over, what has waited meanwhile is sent.
struct Sent<'a> {
    scripts: &'a Arc<Scripts>,
    lane: Lane,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let Some(first) = self.scripts.batches.next(&self.lane) else { return };
        let driver = Driver { scripts: Arc::clone(self.scripts), lane: self.lane.clone(), ended: false };
        // Without a runtime the driver is dropped, and those who wait get an error.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(driver.run(first));
        }
    }
}

/// Sends the batches of one lane until none waits.
struct Driver {
    scripts: Arc<Scripts>,
    lane: Lane,
    ended: bool,
}

impl Driver {
    async fn run(mut self, first: Vec<Waiting>) {
        let mut batch = Some(first);
        while let Some(waiting) = batch {
            self.scripts.batch(&self.lane, waiting).await;
            // Those who got their replies may come again, and share the next script.
            tokio::task::yield_now().await;
            batch = self.scripts.batches.next(&self.lane);
        }
        self.ended = true;
    }
}

impl Drop for Driver {
    /// Also when its runtime stops: no caller waits for ever.
    fn drop(&mut self) {
        if !self.ended {
            self.scripts.batches.abandon(&self.lane);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for RedisStore {
    fn scheme(&self) -> &'static str {
        self.scripts.wire.scheme
    }

    fn capabilities(&self) -> Capabilities {
        self.cas.capabilities()
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        match self.scripted(step) {
            Some((script, now)) => StoreFuture::pending(self.run(key, step, script, now)),
            None => self.cas.apply_erased(key, step),
        }
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        self.cas.reset(key)
    }

    fn together(&self) -> Option<&dyn Together> {
        (self.options.atomic == Atomic::Script).then_some(self)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.scripts.closed.store(true, Ordering::SeqCst);
        self.cas.close()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Together for RedisStore {
    fn run_together<'a>(&'a self, keys: &'a [Key], job: Job) -> StoreFuture<'a, Box<dyn Any + Send>> {
        let now = self.now();
        match job.into_script() {
            _ if self.scripts.closed.load(Ordering::SeqCst) => {
                StoreFuture::Ready(Err(Error::new(Code::StoreUnavailable, "the store is closed")))
            }
            Some(script) if is_exact(now) => {
                StoreFuture::pending(self.jobs.run(&self.scripts.wire, keys, script, now))
            }
            _ => StoreFuture::Ready(Err(jobs::unsupported())),
        }
    }
}
