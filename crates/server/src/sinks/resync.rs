//! Writing all keys of a sink again: page by page through the shards, then through the rows of the target that no page has written. Touches
//! the shards and the target.
//!
//! Changes go on being written between the pages. Invariant: when it ends, the target has a row for each key and no other, except for keys
//! in quarantine and rows that Keystead has never written.

use keystead_core::{Result, ShardId};
use keystead_model::Bytes;
use keystead_sinks::Row;

use super::follower::Follower;
use super::source;
use crate::bounds::SINK_SLICE_KEYS;

/// Where it is.
#[derive(Clone)]
enum Stage {
    /// In a scan of a shard.
    Keys(ShardId, u64),
    /// In the rows that were written before it, after this key.
    Rows(Option<String>),
}

#[derive(Clone)]
pub(super) struct Resync {
    first: u64,
    stage: Stage,
    /// Keys that were found and not read yet.
    left: Vec<(ShardId, Vec<Bytes>)>,
}

/// Keys and their rows, or why there is none.
type Rows = Vec<(Bytes, std::result::Result<Row, String>)>;

impl Resync {
    /// Begins with the batch of this number.
    pub(super) fn begin(first: u64) -> Resync {
        Resync { first, stage: Stage::Keys(ShardId(0), 0), left: Vec::new() }
    }

    /// Its first batch.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The next rows; nothing at the end.
    pub(super) async fn next_page(&mut self, follower: &Follower) -> Result<Option<Rows>> {
        loop {
            if let Some((shard, keys)) = self.left.pop() {
                if keys.is_empty() {
                    continue;
                }
                let read = source::read(follower.engine(), shard, keys).await?;
                self.left.push((shard, read.left));
                let rows = read.found.iter().map(|found| (found.key.clone(), found.row(shard, None)));
                return Ok(Some(rows.collect()));
            }
            match &self.stage {
                Stage::Keys(shard, cursor) => {
                    let (shard, cursor) = (*shard, *cursor);
                    let (next, keys) =
                        source::scan(follower.engine(), shard, cursor, follower.prefix()).await?;
                    self.left.push((shard, keys));
                    self.stage = match next {
                        0 if shard.0 + 1 < follower.engine().shards() => Stage::Keys(ShardId(shard.0 + 1), 0),
                        0 => Stage::Rows(None),
                        next => Stage::Keys(shard, next),
                    };
                }
                Stage::Rows(after) => {
                    let keys =
                        follower.sink().keys(after.as_deref(), Some(self.first), SINK_SLICE_KEYS).await?;
                    let Some(last) = keys.last().cloned() else { return Ok(None) };
                    self.stage = Stage::Rows(Some(last));
                    for key in keys.iter().filter(|key| key.starts_with(follower.prefix())) {
                        let key = Bytes::from(key.as_bytes());
                        if !follower.is_quarantined(&key) {
                            self.left.push((follower.engine().shard_of(&key), vec![key]));
                        }
                    }
                }
            }
        }
    }
}
