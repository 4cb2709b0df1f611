//! [`Engine`]: opens a database, accepts jobs for its shards, and closes it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::key;
use keystead_core::{Clock, Code, Error, Millis, Result, ShardId};
use keystead_model::effect::Effect;
use keystead_model::keyspace::Keyspace;
use keystead_model::sql::Pending;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

use crate::archive::archiver::{Archiver, Request, Work};
use crate::archive::shard_keys::ShardKeys;
use crate::bounds::{
    ARCHIVE_AFTER, ARCHIVE_EVERY, FEED_LAG_MAX, KEY_REQUESTS_MAX, LOCAL_TASKS_WAITING_MAX, TASKS_PER_PASS,
};
use crate::directory::{Directory, cannot};
use crate::health::{Health, ShardHealth, Vitals};
use crate::journal::Progress;
use crate::journal::group::GroupWriter;
use crate::journal::inline::InlineWriter;
use crate::journal::reader::Reader;
use crate::journal::segment::Owner;
use crate::journal::segments::Segments;
use crate::journal::writer::Writer;
use crate::load::Counters;
use crate::options::{Durability, Options};
use crate::recovery::{Recovered, recover};
use crate::shard::garbage::Collector;
use crate::shard::throttle::is_full;
use crate::shard::{Entry, Inbox, Job, Journal, LocalTask, Pace, Sequence, Shard, Shared, Task, serve};

/// An open database. Clones share it; it closes when the last one is dropped, or by [`close`](Engine::close).
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shards: Vec<Handle>,
    pub(crate) durability: Durability,
    /// The id, and the ids of the databases that it is a copy of.
    pub(crate) identity: Option<(String, Vec<String>)>,
    journal_bytes_max: u64,
    clock: Arc<dyn Clock>,
    last_ticket: AtomicU64,
}

/// A shard, seen from other threads.
pub(crate) struct Handle {
    queue: mpsc::Sender<Entry>,
    local_tasks: mpsc::Sender<LocalTask>,
    pub(crate) progress: Arc<Progress>,
    vitals: Arc<Vitals>,
    pub(crate) files: Option<Arc<Segments>>,
    pub(crate) owner: Owner,
    pub(crate) progressed: Arc<Notify>,
    /// Weak, so that listeners see the end of the shard.
    pub(crate) listeners: Option<broadcast::WeakSender<Arc<Vec<Effect>>>>,
    pub(crate) archive: Option<std::sync::mpsc::Sender<Request>>,
    closing: Arc<Notify>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Engine {
    /// Opens or creates a database, and returns when every shard is ready.
    ///
    /// # Errors
    /// `config_invalid` when the options are not valid, `store_unavailable` when the directory cannot be used, `corrupt` when a
    /// file is damaged or foreign, `unsupported` when it is of a newer version. Existing data is not changed then.
    pub fn open(options: &Options) -> Result<Self> {
        options.check()?;
        let directory = match options.durability {
            Durability::Memory => None,
            _ => Some(Arc::new(Directory::open(&options.dir, options.shards, options.shards_if_new)?)),
        };
        let count = match &directory {
            Some(directory) => directory.identity.shards,
            None => options.shards.unwrap_or(options.shards_if_new),
        };
        let counters = options.load_progress.begin(count);
        // Shards are recovered in parallel.
        let parts: Vec<Result<Parts>> = std::thread::scope(|scope| {
            let open = |shard: ShardId| Parts::open(shard, options, directory.as_deref(), &counters[shard.0]);
            let threads: Vec<_> = ShardId::all(count).map(|shard| scope.spawn(move || open(shard))).collect();
            let broken = || Err(Error::new(Code::Internal, "a shard panicked while it was opened"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| broken())).collect()
        });
        let parts = parts.into_iter().collect::<Result<Vec<Parts>>>()?;
        if let Some(directory) = &directory {
            directory.complete()?;
        }
        let memory_bytes = options.memory_bytes.map(|bytes| (bytes / count).max(1));
        let collector = Collector::start()?;
        let identity = directory
            .as_ref()
            .map(|directory| (directory.identity.id.clone(), directory.identity.copied_from.clone()));
        let shards = ShardId::all(count)
            .zip(parts)
            .map(|(shard, parts)| {
                parts.start(shard, options, memory_bytes, directory.clone(), collector.clone())
            })
            .collect::<Result<Vec<Handle>>>()?;
        let journal_bytes_max = options.journal_bytes_max;
        let durability = options.durability;
        let (clock, last_ticket) = (Arc::clone(&options.clock), AtomicU64::new(0));
        let inner = Inner { shards, durability, identity, journal_bytes_max, clock, last_ticket };
        Ok(Engine { inner: Arc::new(inner) })
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.shards.len()
    }

    /// The ids of all shards, in order.
    pub fn shard_ids(&self) -> impl ExactSizeIterator<Item = ShardId> + use<> {
        ShardId::all(self.shards())
    }

    /// What an acknowledged write survives.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.inner.durability
    }

    /// The shard of a key. Keys with the same `{tag}` are on the same shard.
    #[must_use]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        key::shard_of(key, self.inner.shards.len())
    }

    /// Puts a job into a shard's queue. It completes when everything that its result depends on is durable.
    ///
    /// # Errors
    /// `queue_full` when the queue is full, `store_unavailable` when the database is closed; the job was not started then.
    pub fn submit(&self, shard: ShardId, job: Box<dyn Job>) -> Result<()> {
        self.enqueue(shard, Entry::Job(job))
    }

    /// The same for several requests.
    ///
    /// # Errors
    /// As [`submit`](Engine::submit).
    pub fn submit_sequence(&self, shard: ShardId, sequence: Box<dyn Sequence>) -> Result<()> {
        self.enqueue(shard, Entry::Sequence(sequence))
    }

    fn enqueue(&self, shard: ShardId, entry: Entry) -> Result<()> {
        let handle = self.handle(shard)?;
        handle.queue.try_send(entry).map_err(|error| match error {
            TrySendError::Full(_) => Error::new(Code::QueueFull, "the shard's queue is full: try again"),
            TrySendError::Closed(_) => Error::new(Code::StoreUnavailable, "the database is closed"),
        })
    }

    /// Runs a task on a shard's loop, where it accesses the shard's keys without a queue. It ends with the shard.
    ///
    /// # Errors
    /// As [`submit`](Engine::submit).
    pub fn spawn(&self, shard: ShardId, task: LocalTask) -> Result<()> {
        let handle = self.handle(shard)?;
        handle.local_tasks.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::new(Code::QueueFull, "too many tasks wait for the shard: try again")
            }
            TrySendError::Closed(_) => Error::new(Code::StoreUnavailable, "the database is closed"),
        })
    }

    /// The same, but waits when too many tasks wait for the shard already.
    ///
    /// # Errors
    /// As [`submit`](Engine::submit), but never `queue_full`.
    pub async fn spawn_when_free(&self, shard: ShardId, task: LocalTask) -> Result<()> {
        let handle = self.handle(shard)?;
        let closed = |_| Error::new(Code::StoreUnavailable, "the database is closed");
        handle.local_tasks.send(task).await.map_err(closed)
    }

    pub(crate) fn handle(&self, shard: ShardId) -> Result<&Handle> {
        let none = || Error::new(Code::BadRequest, format!("there is no shard {shard}"));
        self.inner.shards.get(shard.0).ok_or_else(none)
    }

    /// A new ticket: its number orders jobs that wait for the same key.
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.inner.last_ticket.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs `run` on the shard of `key` and returns its result when it is durable. An error undoes what it changed.
    ///
    /// # Errors
    /// The error of `run`, that of [`submit`](Engine::submit), or `store_unavailable` when the shard fails meanwhile.
    pub async fn write<R, F>(&self, key: &[u8], run: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send + 'static,
    {
        self.run(self.shard_of(key), true, run).await
    }

    /// The same for a function that changes nothing.
    ///
    /// # Errors
    /// As [`write`](Engine::write).
    pub async fn read<R, F>(&self, key: &[u8], run: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send + 'static,
    {
        self.run(self.shard_of(key), false, run).await
    }

    /// As [`read`](Engine::read), on a shard given by its id.
    ///
    /// # Errors
    /// As [`write`](Engine::write).
    pub async fn read_at<R, F>(&self, shard: ShardId, run: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send + 'static,
    {
        self.run(shard, false, run).await
    }

    async fn run<R, F>(&self, shard: ShardId, writes: bool, run: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send + 'static,
    {
        let (job, result) = Task::new(writes, run);
        self.submit(shard, job)?;
        result.await.unwrap_or_else(|_| {
            Err(Error::unknown(Code::StoreUnavailable, "the shard ended without a result"))
        })
    }

    /// The state of the database.
    #[must_use]
    pub fn health(&self) -> Health {
        let (limit, now) = (self.inner.journal_bytes_max, self.inner.clock.now());
        let shards = self.inner.shards.iter().map(|shard| {
            let journal_bytes = shard.files.as_ref().map_or(0, |files| files.bytes());
            let held_bytes = shard.files.as_ref().map_or(0, |files| files.held_bytes());
            ShardHealth {
                poisoned: shard.vitals.poisoned(),
                archive_failing: shard.vitals.archive_failing(),
                journal_full: is_full(journal_bytes, limit, &shard.vitals),
                throttled: shard.vitals.is_throttled(),
                memory_full: shard.vitals.memory_full(),
                stalls: shard.vitals.stalls(),
                durable: shard.progress.durable(),
                archived: shard.progress.archived(),
                journal_bytes,
                held_bytes,
                busy_ms: shard.vitals.busy_ms(now),
                archive: shard.vitals.archive_work(),
                size: shard.vitals.size(),
            }
        });
        Health { shards: shards.collect() }
    }

    /// How long the current turn of a shard's loop has taken: near 0 unless a command takes long.
    #[must_use]
    pub fn busy_ms(&self, shard: ShardId) -> u64 {
        self.inner.shards.get(shard.0).map_or(0, |shard| shard.vitals.busy_ms(self.inner.clock.now()))
    }

    /// Whether a shard has reached its memory bound and no eviction helps: writes that could add memory are rejected. The figure is
    /// that of its last batch.
    #[must_use]
    pub fn is_memory_full(&self, shard: ShardId) -> bool {
        self.inner.shards.get(shard.0).is_some_and(|shard| shard.vitals.memory_full())
    }

    /// When the current turn of a shard's loop began; `None` before the first turn, and after the loop has ended. An idle loop
    /// takes ten turns a second.
    #[must_use]
    pub fn turn_began(&self, shard: ShardId) -> Option<Millis> {
        self.inner.shards.get(shard.0)?.vitals.turn_began()
    }

    /// Archives what is durable and returns all free space of the archives' files to the system, in the background. After
    /// deletions of more than a quarter this happens without being asked.
    pub fn compact(&self) {
        for shard in &self.inner.shards {
            // However often a client asks, one request waits.
            if let Some(archive) = &shard.archive
                && shard.vitals.request_compaction()
            {
                let _ = archive.send(Request::Compact);
            }
        }
    }

    /// Rejects new jobs, completes those in the queues, archives for about a second, and unlocks the directory. What is not archived
    /// by then stays in the journal, and the next start replays it.
    ///
    /// # Errors
    /// `store_unavailable` when a shard was poisoned, or its archive could not be written: the journal then has the
    /// remaining changes.
    pub async fn close(&self) -> Result<()> {
        for shard in &self.inner.shards {
            shard.closing.notify_one();
        }
        for shard in &self.inner.shards {
            let ended = shard.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(ended) = ended {
                let _ = ended.await;
            }
        }
        match self
            .inner
            .shards
            .iter()
            .find_map(|shard| shard.vitals.poisoned().or(shard.vitals.archive_failing()))
        {
            Some(why) => {
                Err(Error::new(Code::StoreUnavailable, format!("the database was closed, but: {why}")))
            }
            None => Ok(()),
        }
    }
}

/// A shard that is recovered and not started yet.
struct Parts {
    owner: Owner,
    durable: Option<(Recovered, Arc<Segments>, Writer)>,
}

impl Parts {
    fn open(
        shard: ShardId,
        options: &Options,
        directory: Option<&Directory>,
        counters: &Counters,
    ) -> Result<Self> {
        let Some(directory) = directory else {
            return Ok(Parts { owner: Owner { database: [0; 16], shard }, durable: None });
        };
        let files = directory.shard(shard);
        let owner = Owner { database: directory.identity.id_bytes(), shard };
        let held_bytes = options.held_journal_bytes / directory.identity.shards as u64;
        let recovered = recover(&files, owner, directory.identity.complete, counters)
            .map_err(|e| e.context(format_args!("shard {shard}")))?;
        let segments = Arc::new(Segments::new(
            &files.journal,
            options.segment_bytes,
            recovered.segments.clone(),
            held_bytes,
        )?);
        segments.count_held(recovered.archived.revision);
        let writer = Writer::begin(Arc::clone(&segments), owner, recovered.last.next())
            .map_err(|e| cannot("begin a journal in", &files.journal, &e))?;
        Ok(Parts { owner, durable: Some((recovered, segments, writer)) })
    }

    fn start(
        self,
        id: ShardId,
        options: &Options,
        memory_bytes: Option<usize>,
        directory: Option<Arc<Directory>>,
        collector: Collector,
    ) -> Result<Handle> {
        let vitals = Arc::new(Vitals::default());
        let [durable, archived, progressed, closing] = std::array::from_fn(|_| Arc::new(Notify::new()));
        let mut listeners = None;
        let (key_requests, keys) = mpsc::channel(KEY_REQUESTS_MAX);
        let (keyspace, journal, progress, files, archiver) = match self.durable {
            None => {
                let (sender, _) = broadcast::channel(FEED_LAG_MAX);
                listeners = Some(sender.downgrade());
                (Keyspace::in_memory(), Journal::Memory(sender), Arc::new(Progress::default()), None, None)
            }
            Some((recovered, segments, writer)) => {
                let Recovered { keyspace, database, archived: at, last, segments: on_disk } = recovered;
                let oldest = on_disk.keys().next().copied().unwrap_or(last.next());
                let progress = Arc::new(Progress::starting_at(last, at.revision, oldest));
                let reader =
                    Reader::after(at.revision, Arc::clone(&segments), Arc::clone(&progress), self.owner);
                let name = format!("ks-journal-{id}");
                let (up, notify) = (Arc::clone(&progress), Arc::clone(&durable));
                let journal = match options.durability {
                    Durability::Fsync => {
                        Journal::Fsync(GroupWriter::start(name, writer, up, Arc::clone(&vitals), notify)?)
                    }
                    _ => Journal::Commit(Box::new(InlineWriter::start(
                        name,
                        writer,
                        last,
                        Arc::clone(&vitals),
                    )?)),
                };
                let keys = ShardKeys {
                    requests: key_requests,
                    progress: Arc::clone(&progress),
                    vitals: Arc::clone(&vitals),
                    syncer: journal.syncer(),
                };
                let work = Work {
                    database,
                    reader,
                    owner: self.owner,
                    segments: Arc::clone(&segments),
                    progress: Arc::clone(&progress),
                    vitals: Arc::clone(&vitals),
                    archived: Arc::clone(&archived),
                    pending: Pending::new(at.revision, at.newest),
                    keys,
                    batch_bytes: options.archive_batch_bytes,
                    journal_bytes_max: options.journal_bytes_max,
                    batch_every: options.archive_every.unwrap_or(match options.memory_bytes {
                        Some(_) => ARCHIVE_AFTER,
                        None => ARCHIVE_EVERY,
                    }),
                    close_archive_max: options.close_archive_max,
                };
                let archiver = Archiver::start(format!("ks-archive-{id}"), work)?;
                (keyspace, journal, progress, Some(segments), Some(archiver))
            }
        };
        let archive = archiver.as_ref().map(Archiver::requests);
        let shared = Shared {
            clock: Arc::clone(&options.clock),
            progress: Arc::clone(&progress),
            vitals: Arc::clone(&vitals),
            files: files.clone(),
            journal_bytes_max: options.journal_bytes_max,
            collector,
            memory_bytes,
            progressed: Arc::clone(&progressed),
        };
        let shard = Shard::new(keyspace, journal, shared);
        let (queue, jobs) = mpsc::channel(options.queue_jobs);
        let (local_tasks, coming) = mpsc::channel(LOCAL_TASKS_WAITING_MAX);
        let inbox = Inbox { queue: jobs, local_tasks: coming, keys };
        let pace =
            Pace { closing: Arc::clone(&closing), durable, archived, archive: archive.clone(), memory_bytes };
        let (end, ended) = oneshot::channel();
        spawn(id, shard, inbox, pace, archiver, move || {
            drop(directory);
            let _ = end.send(());
        })?;
        Ok(Handle {
            queue,
            local_tasks,
            progress,
            vitals,
            files,
            owner: self.owner,
            progressed,
            listeners,
            archive,
            closing,
            ended: Mutex::new(Some(ended)),
        })
    }
}

/// Starts the shard's thread: an event loop that owns its keys, and the sockets of the connections assigned to it.
fn spawn(
    id: ShardId,
    shard: Shard,
    inbox: Inbox,
    pace: Pace,
    archiver: Option<Archiver>,
    end: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let failed = |e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e);
    // The runtime cannot move between threads, so the thread makes it and reports whether it could.
    let (report, started) = std::sync::mpsc::channel();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .event_interval(TASKS_PER_PASS)
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default());
        match runtime {
            Err(error) => return drop(report.send(Err(error))),
            Ok(runtime) => {
                let _ = report.send(Ok(()));
                runtime.block_on(serve(shard, id, inbox, pace));
            }
        }
        if let Some(archiver) = archiver {
            archiver.finish();
        }
        end();
    };
    std::thread::Builder::new().name(format!("ks-shard-{id}")).spawn(body).map_err(failed)?;
    started.recv().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())).map_err(failed)
}
