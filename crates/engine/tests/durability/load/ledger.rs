//! What was acknowledged, and the state that each group must have for it.
//!
//! Each group has one writer that waits for each reply, so after a crash a group has exactly the operations that were
//! acknowledged, or one more: the one that was in flight.

use std::collections::HashMap;

use keystead_core::key::slot;
use keystead_core::{Millis, ShardId};
use keystead_model::keyspace::Keyspace;

use super::ops::{Op, key};
use super::state::state_of;

/// What a group's state proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has so many operations, and nothing that was acknowledged is missing.
    Kept(u64),
    /// It has so many operations, fewer than were acknowledged.
    Lost(u64),
    /// It is not a state that the group ever had: something is half done, changed or out of order.
    Impossible,
}

/// The state of every group after each of its operations.
pub(crate) struct Truth {
    seed: u64,
    groups: Vec<History>,
}

struct History {
    keyspace: Keyspace,
    /// The operation numbers after which the group had this state; an operation need not change anything.
    numbers: HashMap<u64, Vec<u64>>,
    len: u64,
}

impl Truth {
    pub(crate) fn new(seed: u64, groups: u32) -> Self {
        let history = |group| {
            let mut history = History { keyspace: Keyspace::in_memory(), numbers: HashMap::new(), len: 0 };
            history.note(group, 0);
            history
        };
        Truth { seed, groups: (0..groups).map(history).collect() }
    }

    /// What a state with this digest proves: it must have `must` operations, and may have up to `may`.
    pub(crate) fn judge(&mut self, group: u32, digest: u64, must: u64, may: u64) -> Verdict {
        let (seed, history) = (self.seed, &mut self.groups[group as usize]);
        while history.len < may {
            let n = history.len + 1;
            history.advance(Op::new(seed, group, n));
            history.note(group, n);
        }
        let numbers = history.numbers.get(&digest).map_or(&[][..], Vec::as_slice);
        match numbers.iter().rev().find(|n| **n <= may) {
            Some(n) if *n >= must => Verdict::Kept(*n),
            Some(n) => Verdict::Lost(*n),
            None => Verdict::Impossible,
        }
    }

    /// The state of the group after `n` operations, for a message.
    pub(crate) fn text(&self, group: u32, n: u64) -> String {
        let mut history = History { keyspace: Keyspace::in_memory(), numbers: HashMap::new(), len: 0 };
        (1..=n).for_each(|n| history.advance(Op::new(self.seed, group, n)));
        state_of(&mut history.keyspace, group, Millis(1)).map_or_else(|e| e.to_string(), |state| state.text)
    }
}

impl History {
    fn advance(&mut self, op: Op) {
        self.keyspace.savepoint();
        match op.run(&mut self.keyspace, Millis(1)) {
            Ok(()) => drop(self.keyspace.release().unwrap()),
            Err(_) => self.keyspace.rollback(),
        }
        self.keyspace.take_effects(&mut Vec::new());
        self.len = op.n;
    }

    fn note(&mut self, group: u32, n: u64) {
        let digest = state_of(&mut self.keyspace, group, Millis(1)).unwrap().digest();
        self.numbers.entry(digest).or_default().push(n);
    }
}

/// Which operations and revisions were acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    shards: usize,
    acked: Vec<u64>,
    /// The revision in the last acknowledgement of a group, 0 when it had none.
    acked_at: Vec<u64>,
    /// The revision of a group when it was last read, and after how many operations that was.
    shown: Vec<(u64, u64)>,
    revisions: Vec<u64>,
    pub(crate) acks: u64,
}

impl Ledger {
    pub(crate) fn new(groups: u32, shards: usize) -> Self {
        let none = vec![0; groups as usize];
        let shown = vec![(0, 0); groups as usize];
        Ledger { shards, acked: none.clone(), acked_at: none, shown, revisions: vec![0; shards], acks: 0 }
    }

    pub(crate) fn acked(&self) -> &[u64] {
        &self.acked
    }

    /// The highest revision of each shard that was acknowledged or read.
    pub(crate) fn revisions(&self) -> &[u64] {
        &self.revisions
    }

    /// Records that operation `n` of a group was acknowledged, with its revision.
    pub(crate) fn acknowledge(&mut self, group: u32, n: u64, revision: u64) {
        let shard = self.shard_of(group);
        let at = group as usize;
        assert!(n >= self.acked[at], "group {group}: operation {n} comes after {}", self.acked[at]);
        self.acked[at] = n;
        self.acked_at[at] = revision;
        self.revisions[shard.0] = self.revisions[shard.0].max(revision);
        self.acks += 1;
    }

    /// Compares what was read, and records it: what a reader was shown counts like an acknowledged write.
    pub(crate) fn compare(&mut self, truth: &mut Truth, group: u32, digest: u64, revision: u64) -> Verdict {
        let (shard, at) = (self.shard_of(group), group as usize);
        let verdict = truth.judge(group, digest, self.acked[at], self.acked[at] + 1);
        if let Verdict::Kept(n) = verdict {
            let acked_at = if n == self.acked[at] { self.acked_at[at] } else { 0 };
            // An operation that deleted everything it touched leaves no key with its revision.
            assert!(
                acked_at == 0 || revision <= acked_at,
                "group {group} was acknowledged at revision {acked_at} and is now at {revision}"
            );
            let (before, shown) = self.shown[at];
            assert!(
                n != before || revision == shown,
                "group {group} was at revision {shown} after {before} operations and is at {revision} after {n}"
            );
            self.shown[at] = (n, revision);
            self.acked[at] = n;
            self.acked_at[at] = acked_at;
            self.revisions[shard.0] = self.revisions[shard.0].max(revision);
        }
        verdict
    }

    /// A shard's revision never decreases.
    pub(crate) fn compare_revision(&mut self, shard: ShardId, revision: u64) -> Result<(), String> {
        let known = &mut self.revisions[shard.0];
        if revision < *known {
            return Err(format!("shard {shard} was at revision {known} and is at {revision} now"));
        }
        *known = revision;
        Ok(())
    }

    fn shard_of(&self, group: u32) -> ShardId {
        ShardId((usize::from(slot(&key(group, ""))) * self.shards) >> 14)
    }
}
