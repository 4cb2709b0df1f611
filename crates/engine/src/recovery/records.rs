//! Reads the journal on a thread of its own: checksums and decoding there, while keys are loaded and effects are applied here.
//!
//! Touches the journal's files, read only. Invariant: effects come in the order of their revisions, and what has been read and is not
//! applied yet is bounded.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use keystead_core::{Code, Error, Result, Revision};
use keystead_model::effect::{Decoder, Effect};

use crate::bounds::{REPLAY_GROUP_BYTES, REPLAY_GROUPS_AHEAD};
use crate::journal::replay::{Found, replay};
use crate::journal::segment::Owner;
use crate::load::Counters;

/// The thread that reads, and what it has read.
pub(super) struct Records<'scope> {
    groups: Receiver<Vec<Effect>>,
    thread: ScopedJoinHandle<'scope, Result<Found>>,
}

impl<'scope> Records<'scope> {
    /// Starts to read what is younger than `archived`. The thread ends with the journal, or when this is dropped.
    pub(super) fn start(
        scope: &'scope Scope<'scope, '_>,
        dir: &'scope Path,
        owner: Owner,
        archived: Revision,
        counters: &'scope Counters,
    ) -> Result<Self> {
        let (sender, groups) = sync_channel(REPLAY_GROUPS_AHEAD);
        let read = move || {
            let mut group = Group { sender, effects: Vec::new(), bytes: 0 };
            let found = replay(dir, owner, archived, counters, &mut |effects| group.add(effects))?;
            group.send()?;
            Ok(found)
        };
        let thread = std::thread::Builder::new().name("ks-replay".into()).spawn_scoped(scope, read);
        let failed = |e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e);
        Ok(Records { groups, thread: thread.map_err(failed)? })
    }

    /// Passes every effect to `apply`, and returns what was found. When the journal is damaged, everything before the damage is
    /// applied first.
    pub(super) fn apply(self, apply: &mut dyn FnMut(&Effect) -> Result<()>) -> Result<Found> {
        for group in &self.groups {
            group.iter().try_for_each(&mut *apply)?;
        }
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::new(Code::Internal, "the thread that reads the journal panicked")))
    }
}

/// Effects that are handed over together: a record may be of one, or of a million.
struct Group {
    sender: SyncSender<Vec<Effect>>,
    effects: Vec<Effect>,
    bytes: usize,
}

impl Group {
    fn add(&mut self, record: &[u8]) -> Result<()> {
        for effect in Decoder::new(record) {
            let effect = effect?;
            self.bytes += effect.size_hint();
            self.effects.push(effect);
            if self.bytes >= REPLAY_GROUP_BYTES {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        self.bytes = 0;
        // Its receiver has met an error, which is the one that is reported.
        let ended = |_| Error::new(Code::Internal, "nobody applies the journal");
        self.sender.send(std::mem::take(&mut self.effects)).map_err(ended)
    }
}
