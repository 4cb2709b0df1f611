//! The task that owns the keys: takes what waits as one batch, runs it on what is held, and has the storage compare and execute it.
//! Touches the storage service.
//!
//! ```text
//! queue -> batch -> fetch what is not held -> run -> {expect, statements} -> reply
//!                        ^                               | conflict, with the rows that there are
//!                        +-------------------------------+
//! ```
//!
//! Invariant: a reply leaves when the storage has confirmed that every key that its work has looked up is as it was held, in the same
//! transaction that executes what changed; a batch that only read what was fetched for it, in one transaction, needs no confirmation.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use keystead_commands::Random;
use keystead_commands::hub::Hub;
use keystead_core::{Clock, Code, Error, Outcome, Result, Revision, Stopwatch, SystemClock};
use keystead_http_api::statements::{Expectation, Item, Mismatch, Statement, Value};
use keystead_model::Bytes;
use keystead_model::keyspace::{Keyspace, LookedUp};
use tokio::sync::mpsc::Receiver;

use super::client::SharedStorage;
use super::rows::{OF_KEY, Rows, all_of_key, number, revision};
use super::work::{Completion, Job, Open, Scope};
use super::writer::{Committed, Writer};
use crate::bounds::{
    COMPUTE_ATTEMPTS_MAX, COMPUTE_BATCH_MAX, COMPUTE_CHANGE_BYTES_MAX, COMPUTE_CONFLICT_ROWS_MAX,
    COMPUTE_DEADLINE, COMPUTE_FETCHES_MAX, COMPUTE_IDS_RESERVED,
};

/// The state of a key's row, as it is compared.
const STAMP: &str = "SELECT id, version, revision FROM keys WHERE name = ?1";
/// How many rows have these ids.
const TAKEN: &str = "SELECT count(*) FROM keys WHERE id >= ?1 AND id < ?2";
/// Reserves row ids for new keys, and returns the end of them.
const RESERVE: &str = "INSERT INTO meta (name, value)
    SELECT 'reserved', (SELECT coalesce(max(id), -1) + 1 FROM keys) + ?1 WHERE true
    ON CONFLICT (name) DO UPDATE SET value = max(value, (SELECT coalesce(max(id), -1) + 1 FROM keys)) + ?1
    RETURNING value";

/// The keys of a compute service.
pub(super) struct Lane {
    storage: SharedStorage,
    writer: Writer,
    hub: Arc<Hub>,
    random: Random,
    held_bytes: usize,
    rows: Rows,
    /// Nothing before the first batch, and after an error that leaves open what the rows are.
    keys: Option<Keyspace>,
}

/// What an expectation is about.
enum About {
    Key(Bytes),
    NewRows,
    Writer,
    All,
}

/// How an attempt ended.
enum Attempt {
    Done,
    /// It must run again.
    Again,
}

/// What a batch has done so far.
#[derive(Default)]
struct Progress {
    /// Keys that were fetched.
    fetched: HashSet<Bytes>,
    fetches: usize,
    conflicts: usize,
    /// What work has looked up that was undone: its reply depends on it.
    undone: LookedUp,
}

impl Lane {
    pub(super) fn new(storage: SharedStorage, hub: Arc<Hub>, random: Random, held_bytes: usize) -> Lane {
        let writer = Writer::new(Arc::clone(&storage));
        Lane { storage, writer, hub, random, held_bytes, rows: Rows::default(), keys: None }
    }

    /// Runs batches until nobody can queue another.
    pub(super) async fn serve(mut self, mut waiting: Receiver<Job>) {
        let mut next = None;
        loop {
            let first = match next.take() {
                Some(job) => job,
                None => match waiting.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            let mut batch = vec![first];
            while batch[0].scope == Scope::Names && batch.len() < COMPUTE_BATCH_MAX {
                match waiting.try_recv() {
                    Ok(job) if job.scope == Scope::Names => batch.push(job),
                    Ok(job) => {
                        next = Some(job);
                        break;
                    }
                    Err(_) => break,
                }
            }
            self.answer(batch).await;
        }
    }

    async fn answer(&mut self, mut batch: Vec<Job>) {
        let done = self.batch(&mut batch).await;
        match done {
            // One of them may be the reason, and the others must not fail with it.
            Err(error) if batch.len() > 1 && is_of_one(&error) => {
                for job in batch {
                    let mut alone = vec![job];
                    alone[0].work.forget();
                    let done = self.batch(&mut alone).await;
                    alone.into_iter().for_each(|job| drop(job.done.send(copy(&done))));
                }
            }
            // A client may have gone.
            done => batch.into_iter().for_each(|job| drop(job.done.send(copy(&done)))),
        }
    }

    /// Opens the keys, if that was not done.
    async fn open(&mut self) -> Result<()> {
        if self.keys.is_some() {
            return Ok(());
        }
        self.rows = Rows::default();
        for _ in 0..COMPUTE_FETCHES_MAX {
            match Keyspace::on_demand(Box::new(self.rows.clone())) {
                Ok(mut keys) => {
                    keys.share();
                    keys.set_change_bytes_max(COMPUTE_CHANGE_BYTES_MAX);
                    self.rows.known().clear();
                    self.keys = Some(keys);
                    return Ok(());
                }
                Err(error) if self.rows.known().missing.is_empty() => return Err(error),
                Err(_) => self.fetch(&[], 0).await?,
            }
        }
        Err(Error::new(Code::Internal, "storage: the rows of the schema do not come"))
    }

    /// Fetches keys by their names and what is missing, and reserves row ids, in one transaction.
    async fn fetch(&mut self, names: &[Bytes], ids: u32) -> Result<()> {
        let missing = std::mem::take(&mut self.rows.known().missing);
        let mut statements = vec![revision()];
        statements.extend(
            missing.iter().map(|(sql, params)| Statement { sql: (*sql).into(), params: params.clone() }),
        );
        names.iter().for_each(|name| statements.extend(all_of_key(name)));
        if ids > 0 {
            statements.push(Statement { sql: RESERVE.into(), params: vec![Value::Int(i64::from(ids))] });
        }
        let mut results = self.storage.read(statements).await?.into_iter();
        let mut known = self.rows.known();
        if let Some(revision) = results.next() {
            known.learn(&revision);
        }
        for (sql, params) in missing {
            known.add(sql, &params, results.next().unwrap_or_default().rows);
        }
        for name in names {
            known.add_key(name, results.by_ref().take(OF_KEY).collect())?;
        }
        let found = known.revision;
        drop(known);
        if let Some(keys) = &mut self.keys {
            keys.restore_revision(Revision(found));
            if let Some(end) = results.next() {
                let end = number(end.rows.first().and_then(|row| row.first()));
                let end = end.and_then(|end| u32::try_from(end).ok());
                let end =
                    end.ok_or_else(|| Error::new(Code::TooLarge, "the storage has no id for another key"))?;
                keys.reserve_rows(end.saturating_sub(ids)..end);
            }
        }
        Ok(())
    }

    /// Runs a batch until its changes are durable, or it has failed.
    async fn batch(&mut self, jobs: &mut [Job]) -> Result<()> {
        let began = Stopwatch::start();
        self.open().await?;
        {
            let mut known = self.rows.known();
            known.clear();
            known.only_reads = jobs.iter().all(|job| job.scope == Scope::AllKeysReadOnly);
        }
        let mut progress = Progress::default();
        let done = self.attempts(jobs, &mut progress, began).await;
        self.rows.known().clear();
        match (&done, &mut self.keys) {
            (Ok(()), Some(keys)) => keys.shrink(self.held_bytes),
            // What is held may not be what the rows are.
            (Err(error), _) if error.outcome() == Outcome::Unknown => self.keys = None,
            _ => {}
        }
        done
    }

    async fn attempts(&mut self, jobs: &mut [Job], progress: &mut Progress, began: Stopwatch) -> Result<()> {
        self.prefetch(jobs, progress).await?;
        loop {
            if began.elapsed() > COMPUTE_DEADLINE || progress.conflicts > COMPUTE_ATTEMPTS_MAX {
                let words = "others have changed the same keys again and again: try again later";
                return Err(Error::new(Code::TryAgain, words));
            }
            match self.attempt(jobs, progress).await {
                Ok(Attempt::Done) => return Ok(()),
                Ok(Attempt::Again) => {}
                Err(error) => {
                    if let Some(keys) = &mut self.keys {
                        keys.rollback();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Fetches the keys that the jobs name and that are not held, and row ids if few are left.
    async fn prefetch(&mut self, jobs: &mut [Job], progress: &mut Progress) -> Result<()> {
        let Some(keys) = &self.keys else { return Ok(()) };
        let mut names = Vec::new();
        for name in jobs.iter().flat_map(|job| &job.names) {
            if !keys.is_held(name) && progress.fetched.insert(name.clone()) {
                names.push(name.clone());
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        let left = keys.reserved_rows().len();
        let wanted = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let ids = if left < names.len() { wanted.saturating_add(COMPUTE_IDS_RESERVED) } else { 0 };
        progress.fetches += 1;
        self.fetch(&names, ids).await
    }

    async fn attempt(&mut self, jobs: &mut [Job], progress: &mut Progress) -> Result<Attempt> {
        let Some(keys) = &mut self.keys else {
            return Err(Error::new(Code::Internal, "the keys are not open"));
        };
        let reserved = keys.reserved_rows();
        keys.begin_attempt();
        self.rows.known().begin();
        keys.savepoint();
        let mut random = self.random.clone();
        let mut open = Open { keys, hub: &self.hub, random: &mut random, now: SystemClock.now() };
        let ran = jobs.iter_mut().map(|job| job.work.run(&mut open)).find(|ran| *ran == Completion::Undo);
        let used = keys.reserved_rows();
        if !self.rows.known().missing.is_empty() {
            keys.rollback();
            keys.reserve_rows(reserved);
            jobs.iter_mut().for_each(|job| job.work.forget());
            progress.undone.clear();
            progress.fetches += 1;
            if progress.fetches > COMPUTE_FETCHES_MAX {
                let words = format!(
                    "a request reads rows in more than {COMPUTE_FETCHES_MAX} steps: name its keys, or read fewer"
                );
                return Err(Error::new(Code::TooLarge, words));
            }
            self.fetch(&[], 0).await?;
            return Ok(Attempt::Again);
        }
        if ran.is_some() {
            let looked_up = keys.looked_up().cloned().unwrap_or_default();
            keys.rollback();
            keys.reserve_rows(reserved);
            progress.undone.extend(looked_up);
            return Ok(Attempt::Again);
        }
        if used.start > used.end {
            let needed = used.start - reserved.start;
            keys.rollback();
            keys.reserve_rows(reserved);
            jobs.iter_mut().for_each(|job| job.work.forget());
            progress.undone.clear();
            self.fetch(&[], needed.saturating_add(COMPUTE_IDS_RESERVED)).await?;
            return Ok(Attempt::Again);
        }
        keys.write_rows()?;
        let new_rows = reserved.start..used.start;
        self.random = random;
        self.confirm(jobs, progress, new_rows, reserved).await
    }

    /// Has the storage compare what was looked up and execute what is to be written.
    async fn confirm(
        &mut self,
        jobs: &mut [Job],
        progress: &mut Progress,
        new_rows: Range<u32>,
        reserved: Range<u32>,
    ) -> Result<Attempt> {
        let Some(keys) = &mut self.keys else {
            return Err(Error::new(Code::Internal, "the keys are not open"));
        };
        let mut looked_up = std::mem::take(&mut progress.undone);
        for (name, stamp) in keys.looked_up().into_iter().flatten() {
            looked_up.entry(name.clone()).or_insert(*stamp);
        }
        let (writes, read_all, known_revision) = {
            let mut known = self.rows.known();
            (std::mem::take(&mut known.writes), known.read_all, known.revision)
        };
        let is_fetched = progress.fetches <= 1 && progress.conflicts == 0;
        if writes.is_empty()
            && (looked_up.is_empty()
                || is_fetched && looked_up.keys().all(|name| progress.fetched.contains(name)))
        {
            keys.release()?;
            return Ok(Attempt::Done);
        }
        let is_write = !writes.is_empty();
        let (mut about, mut expect) = expectations(looked_up, new_rows);
        if is_write && read_all {
            let Statement { sql, params } = revision();
            let rows = vec![vec![Value::Int(known_revision as i64)]];
            expect.push(Expectation { sql, params, rows, otherwise: Vec::new() });
            about.push(About::All);
        }
        let mut item = Item { expect, statements: writes };
        let committed = match is_write {
            true => {
                about.push(About::Writer);
                self.writer.write(&mut item).await?
            }
            false => self.writer.compare(&item).await?,
        };
        let Some(keys) = &mut self.keys else {
            return Err(Error::new(Code::Internal, "the keys are not open"));
        };
        match committed {
            Committed::Done(revision) => {
                keys.release()?;
                keys.take_effects(&mut Vec::new());
                keys.restore_revision(Revision(revision));
                Ok(Attempt::Done)
            }
            Committed::Conflict(mismatches) => {
                keys.rollback();
                keys.reserve_rows(reserved);
                jobs.iter_mut().for_each(|job| job.work.forget());
                progress.conflicts += 1;
                let mut stale = Vec::new();
                for (about, mismatch) in about.into_iter().zip(mismatches) {
                    if let Some(mismatch) = mismatch {
                        stale.extend(self.correct(about, mismatch)?);
                    }
                }
                if !stale.is_empty() {
                    self.fetch(&stale, 0).await?;
                }
                Ok(Attempt::Again)
            }
        }
    }

    /// Takes over the rows that there are. Returns the key whose rows were not sent.
    fn correct(&mut self, about: About, mismatch: Mismatch) -> Result<Option<Bytes>> {
        let Some(keys) = &mut self.keys else { return Ok(None) };
        let mut known = self.rows.known();
        match about {
            About::Key(name) => {
                keys.drop_held(&name);
                if mismatch.otherwise.is_empty() {
                    return Ok(Some(name));
                }
                known.add_key(&name, mismatch.otherwise)?;
                keys.restore_revision(Revision(known.revision));
            }
            // Others have used them: the next attempt reserves some.
            About::NewRows => keys.reserve_rows(0..0),
            About::All => {
                known.revision = known
                    .revision
                    .max(number(mismatch.rows.first().and_then(|row| row.first())).unwrap_or(0));
                keys.restore_revision(Revision(known.revision));
                known.forget_all();
            }
            About::Writer => {}
        }
        Ok(None)
    }
}

/// What must still hold of keys that were looked up, and of the row ids of new keys.
fn expectations(looked_up: LookedUp, new_rows: Range<u32>) -> (Vec<About>, Vec<Expectation>) {
    let (mut about, mut expect) = (Vec::new(), Vec::new());
    // For very many keys the request would be several times as large, and few of them conflict.
    let with_rows = looked_up.len() <= COMPUTE_CONFLICT_ROWS_MAX;
    for (name, stamp) in looked_up {
        let rows = stamp.map(|stamp| {
            let (version, revision) = (stamp.version.0 as i64, stamp.revision.0 as i64);
            [i64::from(stamp.row), version, revision].map(Value::Int).to_vec()
        });
        let params = vec![Value::Blob(name.to_vec())];
        let otherwise = if with_rows { all_of_key(&name) } else { Vec::new() };
        expect.push(Expectation { sql: STAMP.into(), params, rows: rows.into_iter().collect(), otherwise });
        about.push(About::Key(name));
    }
    if !new_rows.is_empty() {
        let params = [new_rows.start, new_rows.end].map(|id| Value::Int(i64::from(id))).to_vec();
        let rows = vec![vec![Value::Int(0)]];
        expect.push(Expectation { sql: TAKEN.into(), params, rows, otherwise: Vec::new() });
        about.push(About::NewRows);
    }
    (about, expect)
}

/// Whether an error may be due to one job of a batch.
fn is_of_one(error: &Error) -> bool {
    error.outcome() == Outcome::NotApplied && error.code() != Code::StoreUnavailable
}

fn copy(done: &Result<()>) -> Result<()> {
    match done {
        Ok(()) => Ok(()),
        Err(error) if error.outcome() == Outcome::Unknown => {
            Err(Error::unknown(error.code(), error.message().to_owned()))
        }
        Err(error) => Err(Error::new(error.code(), error.message().to_owned())),
    }
}
