//! Reads the keys of an archive on threads of their own, and hands them over in the order of their ids.
//!
//! Touches the archive's file, read only. Each thread has a connection and reads every n-th range of ids, so that reading rows, and
//! putting keys into the table, which cannot be shared, overlap.

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use keystead_core::{Code, Error, Result};
use keystead_model::sql::{Archived, KeyRow, read_keys};

use crate::archive::{Access, Database};
use crate::bounds::{LOAD_IDS, LOAD_RANGES_AHEAD};

/// The keys with a range of ids.
type Keys = Result<Vec<KeyRow>>;

/// The threads that read, and the range that comes next.
pub(super) struct KeyScan {
    threads: Vec<Receiver<Keys>>,
    next: u64,
    end: u64,
}

impl KeyScan {
    /// Starts so many threads that read the ids below `end`. They end with the scan, or when it is dropped.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        archive: &'scope Path,
        archived: Archived,
        end: u64,
        threads: usize,
    ) -> Result<Self> {
        let ranges = end.div_ceil(LOAD_IDS);
        let threads = threads.min(usize::try_from(ranges).unwrap_or(usize::MAX));
        let start_one = |first: usize| {
            let (keys, receiver) = sync_channel::<Keys>(LOAD_RANGES_AHEAD);
            let read = move || {
                let mut database = match Database::open(archive, Access::Read) {
                    Ok(database) => database,
                    Err(error) => return drop(keys.send(Err(error))),
                };
                for range in (first as u64..ranges).step_by(threads) {
                    let read = read_range(&mut database, range, end, archived);
                    let is_last = read.is_err();
                    if keys.send(read).is_err() || is_last {
                        return;
                    }
                }
            };
            let started =
                std::thread::Builder::new().name(format!("ks-load-{first}")).spawn_scoped(scope, read);
            started
                .map_err(|e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e))?;
            Ok(receiver)
        };
        let threads = (0..threads).map(start_one).collect::<Result<Vec<_>>>()?;
        Ok(KeyScan { threads, next: 0, end: ranges })
    }

    /// The keys of the next range; `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<Vec<KeyRow>>> {
        if self.next == self.end {
            return Ok(None);
        }
        let thread = &self.threads[(self.next % self.threads.len() as u64) as usize];
        self.next += 1;
        let broken = |_| Err(Error::new(Code::Internal, "a thread that reads the archive has ended"));
        thread.recv().unwrap_or_else(broken).map(Some)
    }
}

fn read_range(database: &mut Database, range: u64, end: u64, archived: Archived) -> Keys {
    let start = range * LOAD_IDS;
    let mut keys = Vec::new();
    read_keys(database, start..end.min(start + LOAD_IDS), archived, &mut |row| {
        keys.push(row);
        Ok(())
    })?;
    Ok(keys)
}
