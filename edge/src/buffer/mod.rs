//! Write-behind at the edge: what changes in the object follows in tables of D1, in batches.
//!
//! | To find                                        | open       |
//! |------------------------------------------------|------------|
//! | how a sink is written                          | `settings` |
//! | what waits for D1, as rows of the object       | `pending`  |
//! | one batch                                      | `flush`    |
//! | statements on D1                               | `d1`       |
//! | `/sinks`                                       | `routes`   |
//!
//! Touches the object's storage and D1. Invariant: a write is acknowledged when its note is durable, and a batch is in D1 with its position or
//! not at all, so each change arrives, and a repeated or late batch changes nothing.

pub(crate) mod d1;
mod flush;
pub(crate) mod pending;
pub(crate) mod routes;
pub(crate) mod settings;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use keystead_core::{Millis, Result};
use keystead_model::effect::{Effect, Fact};
use keystead_model::sql::Sql;
use keystead_rows::table::Table;

use crate::bounds::PENDING_MAX;
use settings::Definition;

/// A sink, and what is known of it.
pub(crate) struct Buffer {
    pub(crate) definition: Definition,
    /// Its table in D1. It is looked at again after an error.
    table: RefCell<Option<Rc<Table>>>,
    /// One batch at a time.
    is_flushing: Cell<bool>,
    /// A test has asked that the reply of D1 to the next batch is lost.
    pub(crate) loses_reply: Cell<bool>,
}

impl Buffer {
    pub(crate) fn new(definition: Definition) -> Buffer {
        Buffer {
            definition,
            table: RefCell::default(),
            is_flushing: Cell::new(false),
            loses_reply: Cell::new(false),
        }
    }
}

/// What transactions must know of sinks.
#[derive(Default)]
pub(crate) struct Watch {
    sinks: Vec<Definition>,
    pub(crate) figures: Figures,
}

/// How many keys wait.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    is_on: bool,
    /// At least so many keys as wait for D1.
    pending: u64,
    /// The number of the last change that was noted.
    newest: u64,
}

impl Watch {
    pub(crate) fn of(sinks: Vec<Definition>, pending: u64, newest: u64) -> Watch {
        let figures = Figures { is_on: !sinks.is_empty(), pending, newest };
        Watch { sinks, figures }
    }

    pub(crate) fn sinks(&self) -> &[Definition] {
        &self.sinks
    }

    /// How long these changes may wait; nothing: no sink has any of them.
    pub(crate) fn longest_wait(&self, effects: &[Effect]) -> Option<u64> {
        let has = |one: &&Definition| {
            let prefix = one.layout.prefix.as_bytes();
            effects.iter().any(|effect| effect.fact == Fact::Flushed || effect.key.starts_with(prefix))
        };
        self.sinks.iter().filter(has).map(|one| one.flush_every_ms).min()
    }
}

impl Figures {
    /// Whether keys wait that did not wait then.
    pub(crate) fn has_noted_since(&self, before: &Figures) -> bool {
        self.newest > before.newest
    }

    /// Counts what a transaction has noted, before it is committed.
    ///
    /// # Errors
    /// `out_of_memory` over the bound.
    pub(crate) fn count(&mut self, sql: &mut dyn Sql) -> Result<()> {
        if !self.is_on {
            return Ok(());
        }
        let newest = pending::newest(sql)?;
        if newest <= self.newest {
            return Ok(());
        }
        self.pending += newest - self.newest;
        self.newest = newest;
        if self.pending > PENDING_MAX {
            self.pending = pending::count(sql)?;
        }
        if self.pending > PENDING_MAX { Err(pending::full()) } else { Ok(()) }
    }
}

/// The pause after so many failures in turn.
fn pause(failures: u64) -> u64 {
    let doubled = crate::bounds::RETRY_MS.checked_shl(failures.saturating_sub(1).min(32) as u32);
    doubled.unwrap_or(u64::MAX).min(crate::bounds::RETRY_MS_MAX)
}

/// When a sink writes again.
pub(crate) fn due(oldest: Option<Millis>, state: &pending::State, definition: &Definition) -> Option<Millis> {
    let at = match (&state.resync, oldest) {
        (Some(_), _) => Millis(0),
        (None, Some(since)) => since.plus_ms(definition.flush_every_ms),
        (None, None) if state.upto.is_some() => Millis(0),
        (None, None) => return None,
    };
    Some(at.max(state.retry_at))
}
