//! [`Engine`]: opens a database, takes jobs for its shards, and closes it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::key;
use keystead_core::{Clock, Code, Error, Millis, Result};
use keystead_model::effect::Effect;
use keystead_model::keyspace::Keyspace;
use keystead_model::sql::Pending;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

use crate::archive::archiver::{Archiver, Request, Work};
use crate::bounds::{FEED_LAG_MAX, GUESTS_WAITING_MAX};
use crate::directory::{Directory, cannot};
use crate::health::{Health, ShardHealth, Vitals};
use crate::journal::Progress;
use crate::journal::group::GroupWriter;
use crate::journal::inline::InlineWriter;
use crate::journal::reader::Reader;
use crate::journal::segment::Owner;
use crate::journal::segments::Segments;
use crate::journal::writer::Writer;
use crate::options::{Durability, Options};
use crate::recovery::{Recovered, recover};
use crate::shard::{Guest, Inbox, Job, Journal, Pace, Shard, Shared, Task, serve};

/// A database that is open. Clones share it; it closes when the last one is dropped, or is asked to.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shards: Vec<Handle>,
    pub(crate) durability: Durability,
    journal_bytes_max: u64,
    clock: Arc<dyn Clock>,
    last_ticket: AtomicU64,
}

/// What the rest of the world has of a shard.
pub(crate) struct Handle {
    queue: mpsc::Sender<Box<dyn Job>>,
    guests: mpsc::Sender<Guest>,
    pub(crate) progress: Arc<Progress>,
    vitals: Arc<Vitals>,
    pub(crate) files: Option<Arc<Segments>>,
    pub(crate) owner: Owner,
    pub(crate) news: Arc<Notify>,
    /// Weak, so that listeners hear the end of the shard.
    pub(crate) listeners: Option<broadcast::WeakSender<Arc<Vec<Effect>>>>,
    pub(crate) archive: Option<std::sync::mpsc::Sender<Request>>,
    closing: Arc<Notify>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Engine {
    /// Opens or creates a database, and returns when every shard serves.
    ///
    /// # Errors
    /// `config_invalid` when the options cannot be, `store_unavailable` when the directory cannot be used, `corrupt` when a
    /// file is damaged or foreign, `unsupported` when it is newer. Nothing is changed then that was there before.
    pub fn open(options: &Options) -> Result<Self> {
        options.check()?;
        let directory = match options.durability {
            Durability::Memory => None,
            _ => Some(Arc::new(Directory::open(&options.dir, options.shards)?)),
        };
        let count =
            directory.as_ref().map_or(options.shards.unwrap_or(1), |directory| directory.identity.shards);
        // Shards come back side by side.
        let parts: Vec<Result<Parts>> = std::thread::scope(|scope| {
            let open = |index| Parts::open(index, options, directory.as_deref());
            let threads: Vec<_> = (0..count).map(|index| scope.spawn(move || open(index))).collect();
            let broken = || Err(Error::new(Code::Internal, "a shard panicked while it was opened"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| broken())).collect()
        });
        let parts = parts.into_iter().collect::<Result<Vec<Parts>>>()?;
        if let Some(directory) = &directory {
            directory.complete()?;
        }
        let memory_bytes = options.memory_bytes.map(|bytes| (bytes / count).max(1));
        let shards = parts
            .into_iter()
            .enumerate()
            .map(|(index, parts)| parts.start(index, options, memory_bytes, directory.clone()))
            .collect::<Result<Vec<Handle>>>()?;
        let journal_bytes_max = options.journal_bytes_max;
        let durability = options.durability;
        let (clock, last_ticket) = (Arc::clone(&options.clock), AtomicU64::new(0));
        Ok(Engine { inner: Arc::new(Inner { shards, durability, journal_bytes_max, clock, last_ticket }) })
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.shards.len()
    }

    /// What a reply means.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.inner.durability
    }

    /// The shard that a key lives on. Keys with the same `{tag}` live together.
    #[must_use]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        key::shard_of(key, self.inner.shards.len())
    }

    /// Puts a job into a shard's queue. Its answer comes when what it tells is durable.
    ///
    /// # Errors
    /// `queue_full` when the queue is, `store_unavailable` when the database is closed; the job was not begun then.
    pub fn submit(&self, shard: usize, job: Box<dyn Job>) -> Result<()> {
        let Some(handle) = self.inner.shards.get(shard) else {
            return Err(Error::new(Code::BadRequest, format!("there is no shard {shard}")));
        };
        handle.queue.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::new(Code::QueueFull, "the shard's queue is full: try again"),
            TrySendError::Closed(_) => Error::new(Code::StoreUnavailable, "the database is closed"),
        })
    }

    /// Lets a task live on a shard's loop, where it runs on the shard's keys without a hop. It ends with the shard.
    ///
    /// # Errors
    /// As [`submit`](Engine::submit).
    pub fn spawn(&self, shard: usize, guest: Guest) -> Result<()> {
        let Some(handle) = self.inner.shards.get(shard) else {
            return Err(Error::new(Code::BadRequest, format!("there is no shard {shard}")));
        };
        handle.guests.try_send(guest).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::new(Code::QueueFull, "too many wait for the shard: try again"),
            TrySendError::Closed(_) => Error::new(Code::StoreUnavailable, "the database is closed"),
        })
    }

    /// The same, and waits where too many wait for the shard already.
    ///
    /// # Errors
    /// As [`submit`](Engine::submit), but never `queue_full`.
    pub async fn spawn_when_free(&self, shard: usize, guest: Guest) -> Result<()> {
        let Some(handle) = self.inner.shards.get(shard) else {
            return Err(Error::new(Code::BadRequest, format!("there is no shard {shard}")));
        };
        let closed = |_| Error::new(Code::StoreUnavailable, "the database is closed");
        handle.guests.send(guest).await.map_err(closed)
    }

    /// A place in the line of those who wait for keys.
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.inner.last_ticket.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs `run` on the shard of `key` and gives its result when it is durable. An error undoes what it changed.
    ///
    /// # Errors
    /// What `run` says, what [`submit`](Engine::submit) says, or `store_unavailable` when the shard fails meanwhile.
    pub async fn write<R, F>(&self, key: &[u8], run: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send + 'static,
    {
        self.run(self.shard_of(key), true, run).await
    }

    /// The same for something that changes nothing.
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

    /// As [`read`](Engine::read), on a shard that is named by its number.
    ///
    /// # Errors
    /// As [`write`](Engine::write).
    pub async fn read_at<R, F>(&self, shard: usize, run: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send + 'static,
    {
        self.run(shard, false, run).await
    }

    async fn run<R, F>(&self, shard: usize, writes: bool, run: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send + 'static,
    {
        let (job, answer) = Task::new(writes, run);
        self.submit(shard, job)?;
        answer.await.unwrap_or_else(|_| {
            Err(Error::unknown(Code::StoreUnavailable, "the shard ended without an answer"))
        })
    }

    /// How the database is.
    #[must_use]
    pub fn health(&self) -> Health {
        let (limit, now) = (self.inner.journal_bytes_max, self.inner.clock.now());
        let shards = self.inner.shards.iter().map(|shard| {
            let journal_bytes = shard.files.as_ref().map_or(0, |files| files.bytes());
            ShardHealth {
                poisoned: shard.vitals.poisoned(),
                archive_failing: shard.vitals.archive_failing(),
                journal_full: journal_bytes > limit,
                durable: shard.progress.durable(),
                archived: shard.progress.archived(),
                journal_bytes,
                busy_ms: shard.vitals.busy_ms(now),
                size: shard.vitals.size(),
            }
        });
        Health { shards: shards.collect() }
    }

    /// How long a shard's loop has been at one turn: near 0 unless a command takes long.
    #[must_use]
    pub fn busy_ms(&self, shard: usize) -> u64 {
        self.inner.shards.get(shard).map_or(0, |shard| shard.vitals.busy_ms(self.inner.clock.now()))
    }

    /// When a shard's loop began its present turn; nothing before the first, and when the loop has ended. One that idles begins ten a
    /// second.
    #[must_use]
    pub fn turn_began(&self, shard: usize) -> Option<Millis> {
        self.inner.shards.get(shard)?.vitals.turn_began()
    }

    /// Refuses new jobs, answers those that wait, archives everything, and lets go of the directory.
    ///
    /// # Errors
    /// `store_unavailable` when a shard was poisoned, or its archive could not be written: the journal then has the rest.
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

/// A shard that is recovered and does not run yet.
struct Parts {
    owner: Owner,
    durable: Option<(Recovered, Arc<Segments>, Writer)>,
}

impl Parts {
    fn open(index: usize, options: &Options, directory: Option<&Directory>) -> Result<Self> {
        let Some(directory) = directory else {
            return Ok(Parts { owner: Owner { database: [0; 16], shard: index as u32 }, durable: None });
        };
        let files = directory.shard(index);
        let owner = Owner { database: directory.identity.id_bytes(), shard: index as u32 };
        let recovered = recover(&files, owner, directory.identity.complete)
            .map_err(|e| e.context(format_args!("shard {index}")))?;
        let segments =
            Arc::new(Segments::new(&files.journal, options.segment_bytes, recovered.segments.clone())?);
        let writer = Writer::begin(Arc::clone(&segments), owner, recovered.last + 1)
            .map_err(|e| cannot("begin a journal in", &files.journal, &e))?;
        Ok(Parts { owner, durable: Some((recovered, segments, writer)) })
    }

    fn start(
        self,
        index: usize,
        options: &Options,
        memory_bytes: Option<usize>,
        directory: Option<Arc<Directory>>,
    ) -> Result<Handle> {
        let vitals = Arc::new(Vitals::default());
        let [durable, archived, news, closing] = std::array::from_fn(|_| Arc::new(Notify::new()));
        let mut listeners = None;
        let (keyspace, journal, progress, files, archiver) = match self.durable {
            None => {
                let (sender, _) = broadcast::channel(FEED_LAG_MAX);
                listeners = Some(sender.downgrade());
                (Keyspace::in_memory(), Journal::Memory(sender), Arc::new(Progress::default()), None, None)
            }
            Some((recovered, segments, writer)) => {
                let Recovered { keyspace, database, archived: at, last, segments: on_disk } = recovered;
                let oldest = on_disk.keys().next().copied().unwrap_or(last + 1);
                let progress = Arc::new(Progress::starting_at(last, at, oldest));
                let reader = Reader::after(at, Arc::clone(&segments), Arc::clone(&progress), self.owner);
                let work = Work {
                    database,
                    reader,
                    segments: Arc::clone(&segments),
                    progress: Arc::clone(&progress),
                    vitals: Arc::clone(&vitals),
                    archived: Arc::clone(&archived),
                    pending: Pending::new(at),
                    journal_bytes_max: options.journal_bytes_max,
                };
                let name = format!("ks-journal-{index}");
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
                let archiver = Archiver::start(format!("ks-archive-{index}"), work)?;
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
            memory_bytes,
            news: Arc::clone(&news),
        };
        let shard = Shard::new(keyspace, journal, shared);
        let (queue, jobs) = mpsc::channel(options.queue_jobs);
        let (guests, coming) = mpsc::channel(GUESTS_WAITING_MAX);
        let inbox = Inbox { queue: jobs, guests: coming };
        let pace =
            Pace { closing: Arc::clone(&closing), durable, archived, archive: archive.clone(), memory_bytes };
        let (end, ended) = oneshot::channel();
        spawn(index, shard, inbox, pace, archiver, move || {
            drop(directory);
            let _ = end.send(());
        })?;
        Ok(Handle {
            queue,
            guests,
            progress,
            vitals,
            files,
            owner: self.owner,
            news,
            listeners,
            archive,
            closing,
            ended: Mutex::new(Some(ended)),
        })
    }
}

/// Starts the shard's thread: an event loop that owns its keys, and the sockets of those who live on it.
fn spawn(
    index: usize,
    shard: Shard,
    inbox: Inbox,
    pace: Pace,
    archiver: Option<Archiver>,
    end: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let failed = |e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let body = move || {
        tokio::task::LocalSet::new().block_on(&runtime, serve(shard, index, inbox, pace));
        if let Some(archiver) = archiver {
            archiver.finish();
        }
        end();
    };
    std::thread::Builder::new().name(format!("ks-shard-{index}")).spawn(body).map_err(failed)?;
    Ok(())
}
