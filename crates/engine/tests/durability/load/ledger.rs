//! What was acknowledged, and what the groups must look like for it.
//!
//! Each group has one writer that waits for each answer, so after a crash a group has exactly the operations that were
//! acknowledged, or one more: the one that was on its way.

use std::collections::HashMap;

use keystead_core::Millis;
use keystead_core::key::slot;
use keystead_model::keyspace::Keyspace;

use super::look::look;
use super::ops::{Op, key};

/// What a group's state says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has so many operations, and nothing that was acknowledged is missing.
    Kept(u64),
    /// It has so many operations, fewer than were acknowledged.
    Lost(u64),
    /// It is no state that the group ever had: something is half done, changed or out of order.
    Impossible,
}

/// What every group must look like after each of its operations.
pub(crate) struct Truth {
    seed: u64,
    groups: Vec<History>,
}

struct History {
    keyspace: Keyspace,
    /// The last operation number at which the group looked like this; it need not have changed anything.
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

    /// What a state with this digest says: it must have `must` operations, and may have up to `may`.
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

    /// What the group must look like after `n` operations, for a message.
    pub(crate) fn text(&self, group: u32, n: u64) -> String {
        let mut history = History { keyspace: Keyspace::in_memory(), numbers: HashMap::new(), len: 0 };
        (1..=n).for_each(|n| history.advance(Op::new(self.seed, group, n)));
        look(&mut history.keyspace, group, Millis(1)).map_or_else(|e| e.to_string(), |look| look.text)
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
        let digest = look(&mut self.keyspace, group, Millis(1)).unwrap().digest();
        self.numbers.entry(digest).or_default().push(n);
    }
}

/// Which operations and revisions were acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    shards: usize,
    acked: Vec<u64>,
    /// The revision that the last acknowledgement of a group told, 0 when it told none.
    told: Vec<u64>,
    /// The revision that a group showed when it was last looked at, and after how many operations that was.
    shown: Vec<(u64, u64)>,
    revisions: Vec<u64>,
    pub(crate) acks: u64,
}

impl Ledger {
    pub(crate) fn new(groups: u32, shards: usize) -> Self {
        let none = vec![0; groups as usize];
        let shown = vec![(0, 0); groups as usize];
        Ledger { shards, acked: none.clone(), told: none, shown, revisions: vec![0; shards], acks: 0 }
    }

    pub(crate) fn acked(&self) -> &[u64] {
        &self.acked
    }

    /// The highest revision of each shard that somebody was told.
    pub(crate) fn revisions(&self) -> &[u64] {
        &self.revisions
    }

    /// Notes that operation `n` of a group was acknowledged, with the revision it told.
    pub(crate) fn acknowledge(&mut self, group: u32, n: u64, revision: u64) {
        let shard = self.shard_of(group);
        let at = group as usize;
        assert!(n >= self.acked[at], "group {group}: operation {n} comes after {}", self.acked[at]);
        self.acked[at] = n;
        self.told[at] = revision;
        self.revisions[shard] = self.revisions[shard].max(revision);
        self.acks += 1;
    }

    /// Compares what was found, and notes it: what a reader was told counts like an answer to a writer.
    pub(crate) fn compare(&mut self, truth: &mut Truth, group: u32, digest: u64, revision: u64) -> Verdict {
        let (shard, at) = (self.shard_of(group), group as usize);
        let verdict = truth.judge(group, digest, self.acked[at], self.acked[at] + 1);
        if let Verdict::Kept(n) = verdict {
            let told = if n == self.acked[at] { self.told[at] } else { 0 };
            // An operation that deleted everything it touched leaves no key to show its revision.
            assert!(
                told == 0 || revision <= told,
                "group {group} was told revision {told} and now shows {revision}"
            );
            let (before, shown) = self.shown[at];
            assert!(
                n != before || revision == shown,
                "group {group} showed revision {shown} after {before} operations and shows {revision} after {n}"
            );
            self.shown[at] = (n, revision);
            self.acked[at] = n;
            self.told[at] = told;
            self.revisions[shard] = self.revisions[shard].max(revision);
        }
        verdict
    }

    /// A shard's revision never goes back.
    pub(crate) fn compare_revision(&mut self, shard: usize, revision: u64) -> Result<(), String> {
        let known = &mut self.revisions[shard];
        if revision < *known {
            return Err(format!("shard {shard} was at revision {known} and is at {revision} now"));
        }
        *known = revision;
        Ok(())
    }

    fn shard_of(&self, group: u32) -> usize {
        (usize::from(slot(&key(group, ""))) * self.shards) >> 14
    }
}
