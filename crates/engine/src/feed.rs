//! The change feed: every effect of a shard from a revision on, in order, as soon as it is durable.
//!
//! The journal is the feed. A reader goes through its files and waits at the end for more; it fails with `gone` when the next
//! changes have been recycled, because it started too late or reads too slowly. Without a journal (`memory`) only changes
//! after subscribing are available.

use std::sync::Arc;

use keystead_core::{Code, Error, Result, Revision, ShardId};
use keystead_model::effect::{Decoder, Effect};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::engine::{Engine, Handle};
use crate::journal::reader::Reader;

/// Some changes, in the order of their revisions; never empty.
pub type Changes = Vec<Effect>;

/// A subscription to the changes of one shard.
pub struct Feed {
    engine: Engine,
    shard: ShardId,
    after: Revision,
    has_values: bool,
    source: Source,
}

enum Source {
    Journal(Box<Reader>),
    Live(broadcast::Receiver<Arc<Vec<Effect>>>),
}

impl Engine {
    /// Subscribes to all changes of a shard after revision `after`.
    ///
    /// # Errors
    /// `gone` when some of them are no longer available, `bad_request` when there is no such shard or revision.
    pub fn subscribe(&self, shard: ShardId, after: Revision) -> Result<Feed> {
        let handle = self.handle(shard)?;
        if after > handle.progress.durable() {
            let last = handle.progress.durable();
            return Err(Error::new(
                Code::BadRequest,
                format!("revision {after} does not exist yet, the last is {last}"),
            ));
        }
        let source = match (&handle.files, &handle.listeners) {
            (Some(files), _) => {
                if after.next() < handle.progress.oldest() {
                    return Err(gone(after, handle));
                }
                let (files, progress) = (Arc::clone(files), Arc::clone(&handle.progress));
                Source::Journal(Box::new(Reader::after(after, files, progress, handle.owner)))
            }
            (None, Some(listeners)) => {
                let live = listeners.upgrade().ok_or_else(closed)?.subscribe();
                if after < handle.progress.durable() {
                    return Err(gone(after, handle));
                }
                Source::Live(live)
            }
            (None, None) => return Err(Error::new(Code::Unsupported, "this database has no change feed")),
        };
        Ok(Feed { engine: self.clone(), shard, after, has_values: true, source })
    }

    /// Says that nobody needs the changes of a shard up to this revision any longer. The journal keeps later ones within the bound of
    /// [`held_journal_bytes`](crate::Options::held_journal_bytes), also when they are archived.
    pub fn release_journal(&self, shard: ShardId, through: Revision) {
        if let Some(files) = self.inner.shards.get(shard.0).and_then(|handle| handle.files.as_ref()) {
            files.release_held(through);
        }
    }

    /// The last durable revision of a shard: subscribe after it to get only what comes next.
    #[must_use]
    pub fn revision(&self, shard: ShardId) -> Revision {
        self.inner.shards.get(shard.0).map_or(Revision::ZERO, |handle| handle.progress.durable())
    }
}

fn gone(after: Revision, handle: &Handle) -> Error {
    let oldest = handle.progress.oldest().max(Revision(1));
    Error::new(
        Code::Gone,
        format!(
            "changes after revision {after} are no longer kept: read the keys, then subscribe after their revision (the oldest kept is {oldest})"
        ),
    )
}

impl Feed {
    /// The same changes with empty strings, documents and states: for a reader that needs only names, or reads values elsewhere.
    #[must_use]
    pub fn without_values(self) -> Feed {
        Feed { has_values: false, ..self }
    }

    /// The next changes, if there are some already. It may read a file.
    ///
    /// # Errors
    /// As [`next`](Feed::next), and `unsupported` for a database without a journal.
    pub fn try_next(&mut self) -> Result<Option<Changes>> {
        let Source::Journal(reader) = &mut self.source else {
            return Err(Error::new(Code::Unsupported, "a database in memory has no journal to read"));
        };
        while let Some(effects) = reader.next()? {
            let changes = decode(effects, self.after, self.has_values)?;
            if let Some(last) = changes.last() {
                self.after = last.revision;
                return Ok(Some(changes));
            }
        }
        Ok(None)
    }

    /// The same, each with the bytes that it takes in the journal, also those of a value that is left out.
    ///
    /// # Errors
    /// As [`try_next`](Feed::try_next).
    pub fn try_next_sized(&mut self) -> Result<Option<Vec<(Effect, usize)>>> {
        let Source::Journal(reader) = &mut self.source else {
            return Err(Error::new(Code::Unsupported, "a database in memory has no journal to read"));
        };
        while let Some(effects) = reader.next()? {
            let (after, decoder) = (self.after, decoder(effects, self.has_values));
            let is_next =
                |one: &Result<(Effect, usize)>| one.as_ref().map_or(true, |(one, _)| one.revision > after);
            let changes = decoder.sized().filter(is_next).collect::<Result<Vec<_>>>()?;
            if let Some((last, _)) = changes.last() {
                self.after = last.revision;
                return Ok(Some(changes));
            }
        }
        Ok(None)
    }

    /// Waits for the next changes.
    ///
    /// # Errors
    /// `gone` when this reader is too slow and the next changes were recycled, `store_unavailable` when the database is closed.
    pub async fn next(&mut self) -> Result<Changes> {
        loop {
            let changes = match &mut self.source {
                Source::Live(live) => match live.recv().await {
                    Ok(effects) => {
                        effects.iter().filter(|effect| effect.revision > self.after).cloned().collect()
                    }
                    Err(RecvError::Lagged(missed)) => {
                        return Err(Error::new(
                            Code::Gone,
                            format!("this reader is too slow: it missed {missed} batches"),
                        ));
                    }
                    Err(RecvError::Closed) => return Err(closed()),
                },
                Source::Journal(reader) => {
                    let Ok(handle) = self.engine.handle(self.shard) else { return Err(closed()) };
                    let progressed = handle.progressed.notified();
                    // Checked before reading, so that the last changes are not missed.
                    let ended = handle.progress.has_ended();
                    match reader.next()? {
                        Some(effects) => decode(effects, self.after, self.has_values)?,
                        None if ended => return Err(closed()),
                        None => {
                            progressed.await;
                            continue;
                        }
                    }
                }
            };
            if let Some(last) = changes.last() {
                self.after = last.revision;
                return Ok(changes);
            }
        }
    }
}

fn decoder(effects: &[u8], has_values: bool) -> Decoder<'_> {
    if has_values { Decoder::new(effects) } else { Decoder::without_values(effects) }
}

fn decode(effects: &[u8], after: Revision, has_values: bool) -> Result<Changes> {
    decoder(effects, has_values)
        .filter(|effect| effect.as_ref().map_or(true, |effect| effect.revision > after))
        .collect()
}

fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the database is closed")
}
