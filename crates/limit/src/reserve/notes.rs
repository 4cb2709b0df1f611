//! The stored state of reservations: a note for each, and one ledger for all of a key. Pure steps.

use keystead_core::{Change, Key, Millis, Result, Step, Ttl, key};
use serde::{Deserialize, Serialize};

use crate::strategy::Spent;

/// The key of a reservation's note.
pub(super) fn note_key(limit: &Key, id: u64) -> Result<Key> {
    beside(format!("reserved:{id}"), limit)
}

/// The key of the ledger of all reservations of a key.
pub(crate) fn ledger_key(limit: &Key) -> Result<Key> {
    beside("reservations", limit)
}

/// A key on the same shard as the limit's own key: it has the same tag, or that key as its tag.
fn beside(prefix: impl AsRef<[u8]>, limit: &Key) -> Result<Key> {
    let limit = limit.as_bytes();
    match key::hash_tag(limit).len() == limit.len() {
        true => Key::join(prefix, [b"{", limit, b"}"].concat()),
        false => Key::join(prefix, limit),
    }
}

/// A reservation as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) cost: u64,
    at: u64,
    until: u64,
    pub(super) epoch: u64,
    given_back: u64,
}

impl Note {
    pub(super) fn new(ledger: Ledger, spent: Spent) -> Note {
        let Ledger { epoch, given_back, .. } = ledger;
        Note { cost: spent.units, at: spent.at.0, until: spent.until.0, epoch, given_back }
    }

    pub(super) fn spent(self, ledger: Ledger) -> Spent {
        Spent {
            units: self.cost,
            at: Millis(self.at),
            until: Millis(self.until),
            given_back: ledger.given_back.saturating_sub(self.given_back),
        }
    }
}

/// What the reservations of a key have in common. It expires with the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// The first reservation since the key was reset.
    epoch: u64,
    /// Units that were refunded since then.
    given_back: u64,
    /// When it expires.
    until: u64,
}

/// Opens the ledger for one more reservation.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) ttl_ms: u64,
}

impl Step for Open {
    type State = Ledger;
    type Reply = Ledger;

    fn run(&self, state: Option<&Ledger>, now: Millis) -> Change<Ledger, Ledger> {
        let mut ledger = state.copied().unwrap_or(Ledger { epoch: self.id, given_back: 0, until: 0 });
        ledger.until = ledger.until.max(now.plus_ms(self.ttl_ms).0);
        Change::Put(ledger, Ttl::Ms(ledger.until - now.0), ledger)
    }
}

/// Records a refund. Returns the ledger as it was before, or `None` if it is another one.
#[derive(Clone, Copy)]
pub(super) struct Book {
    pub(super) epoch: u64,
    pub(super) given_back: u64,
}

impl Step for Book {
    type State = Ledger;
    type Reply = Option<Ledger>;

    fn run(&self, state: Option<&Ledger>, _now: Millis) -> Change<Ledger, Option<Ledger>> {
        let Some(ledger) = state.filter(|ledger| ledger.epoch == self.epoch) else {
            return Change::Keep(None);
        };
        let given_back = ledger.given_back.saturating_add(self.given_back);
        Change::Put(Ledger { given_back, ..*ledger }, Ttl::Same, Some(*ledger))
    }
}

#[derive(Clone, Copy)]
pub(super) struct Leave {
    pub(super) note: Note,
    pub(super) ttl_ms: u64,
}

impl Step for Leave {
    type State = Note;
    type Reply = ();

    fn run(&self, _state: Option<&Note>, _now: Millis) -> Change<Note, ()> {
        Change::Put(self.note, Ttl::Ms(self.ttl_ms), ())
    }
}

#[derive(Clone, Copy)]
pub(super) struct Take;

impl Step for Take {
    type State = Note;
    type Reply = Option<Note>;

    fn run(&self, state: Option<&Note>, _now: Millis) -> Change<Note, Option<Note>> {
        match state {
            Some(note) => Change::Delete(Some(*note)),
            None => Change::Keep(None),
        }
    }
}
