//! A keyspace that reads its keys when they are needed, and holds only those that were used lately.
//!
//! It accesses the database it is given. The shard of a server has all names in memory; a Durable Object must not, since it wakes for
//! one request, pays for each row that it reads, and has little memory. A lookup that finds no name in memory looks for its row; what goes
//! over all keys (scans, counting, reclaiming) goes to the rows, after [`write_rows`](Keyspace::write_rows) has written what changed.
//!
//! The ids in memory number what is held, and are reused; ids of rows are others, and effects have those. Invariants: a name in memory
//! is never looked up in the rows, so that what a job changed is what it reads; a name that a job removed is absent until its row is
//! deleted; between two jobs memory and rows are equal. A job that is rolled back after `write_rows` needs its owner to roll back
//! the database to the same savepoint.

use indexmap::IndexSet;
use keystead_core::table::Id;
use keystead_core::{Millis, Result, Revision};

use super::check::KeyDump;
use super::shared::Shared;
use super::{Entry, Keyspace, NoArchive, Undo};
use crate::Bytes;
use crate::sql::on_demand::{self as rows, Due};
use crate::sql::{KeyRow, Pending, Sql, fetch, read_archived};
use crate::value::{Kind, Value};

/// Rows that a walk over all keys reads at a time.
const WALK_ROWS: usize = 256;

/// Fields of one hash that are reclaimed at a time.
const FIELDS_SLICE: usize = 256;

/// Where the keys are that are not in memory.
pub(super) struct OnDemand {
    sql: Box<dyn Sql + Send>,
    /// The row of each id in memory.
    rows: Vec<u32>,
    /// From this row id on all are free.
    next_row: Option<u32>,
    changed: Changed,
    /// As it was at the savepoint.
    saved: Option<Changed>,
    /// Where others write the rows, too.
    pub(super) shared: Option<Box<Shared>>,
}

/// What rows do not have yet.
#[derive(Clone, Default)]
struct Changed {
    /// How many of the keyspace's effects are written.
    written: usize,
    /// Names of keys that were removed, but whose rows may be there.
    removed: IndexSet<Bytes>,
    /// All keys were removed, but rows may be there.
    flushed: bool,
    /// Number of keys, once it was counted.
    count: Option<u64>,
}

impl OnDemand {
    /// The row of an id in memory.
    pub(super) fn row(&self, id: Id) -> u32 {
        self.rows.get(id as usize).copied().unwrap_or_default()
    }

    /// Sets the row of an id in memory.
    pub(super) fn set_row(&mut self, id: Id, row: u32) {
        let at = id as usize;
        if at >= self.rows.len() {
            self.rows.resize(at + 1, 0);
        }
        self.rows[at] = row;
    }

    /// A key was added, which was looked up before.
    pub(super) fn added(&mut self, id: Id) {
        let row = self.next_row.unwrap_or_default();
        self.next_row = row.checked_add(1);
        self.changed.count = self.changed.count.map(|count| count + 1);
        self.set_row(id, row);
    }

    /// A key is removed.
    pub(super) fn ended(&mut self, name: &Bytes) {
        self.changed.count = self.changed.count.map(|count| count.saturating_sub(1));
        self.changed.removed.insert(name.clone());
    }

    /// From this row id on all are free.
    pub(super) fn next_row(&self) -> Option<u32> {
        self.next_row
    }

    pub(super) fn set_next_row(&mut self, row: Option<u32>) {
        self.next_row = row;
    }

    /// Counts again when it is asked for.
    pub(super) fn forget_count(&mut self) {
        self.changed.count = None;
    }

    /// All keys are removed. Returns the rows of all ids in memory.
    pub(super) fn flush(&mut self) -> Vec<u32> {
        self.note_flush();
        self.changed.flushed = true;
        self.changed.count = Some(0);
        std::mem::take(&mut self.rows)
    }

    /// Undoes the removal of all keys.
    pub(super) fn unflush(&mut self, rows: Vec<u32>) {
        self.rows = rows;
    }

    pub(super) fn savepoint(&mut self) {
        self.saved = Some(self.changed.clone());
    }

    pub(super) fn release(&mut self) {
        self.saved = None;
    }

    pub(super) fn rollback(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.changed = saved;
        }
    }

    /// Whether the effect at this index may still be replaced by a later one.
    pub(super) fn may_replace(&self, effect: usize) -> bool {
        effect >= self.changed.written
    }

    /// Whether all of so many effects are written.
    pub(super) fn has_written(&self, effects: usize) -> bool {
        self.changed.written == effects
    }

    /// All effects were taken.
    pub(super) fn taken(&mut self) {
        self.changed.written = 0;
    }

    pub(super) fn fetch(&mut self, id: Id, kind: Kind) -> Result<Value> {
        let row = self.row(id);
        fetch(&mut *self.sql, row, kind)
    }

    /// Whether rows have no key of this name that exists.
    fn is_removed(&self, name: &[u8]) -> bool {
        self.changed.flushed || self.changed.removed.contains(name)
    }

    /// Ensures that there is an id for a new key.
    fn reserve_row(&mut self) -> Result<()> {
        if self.next_row.is_none() {
            self.next_row = Some(rows::free_id(&mut *self.sql)?);
        }
        Ok(())
    }
}

impl Keyspace {
    /// A keyspace that reads its keys from a database as they are needed, which [`migrate_on_demand`](crate::sql::migrate_on_demand) has
    /// prepared.
    ///
    /// # Errors
    /// The error of the database; `corrupt` when its revision is not valid.
    pub fn on_demand(mut sql: Box<dyn Sql + Send>) -> Result<Keyspace> {
        let archived = read_archived(&mut *sql)?;
        let next_row = rows::ids_from(&mut *sql)?;
        let on_demand = OnDemand {
            sql,
            rows: Vec::new(),
            next_row,
            changed: Changed::default(),
            saved: None,
            shared: None,
        };
        let mut keyspace = Keyspace::new(Box::new(NoArchive));
        keyspace.restore_revision(archived.revision);
        keyspace.on_demand = Some(Box::new(on_demand));
        Ok(keyspace)
    }

    /// What a lookup in memory has found, or what is in the rows.
    #[cold]
    #[inline(never)]
    pub(super) fn find_on_demand(&mut self, name: &[u8], held: Option<Id>) -> Result<Option<Id>> {
        let found = match held {
            Some(id) => Some(id),
            None => self.look_up(name)?,
        };
        let stamp = found.and_then(|id| self.table.get(id).map(|entry| (id, entry.version, entry.revision)));
        if let Some(on_demand) = self.on_demand.as_mut().filter(|on_demand| on_demand.shared.is_some()) {
            on_demand.note(name, stamp);
        }
        Ok(found)
    }

    /// Looks for the row of a key that is not in memory, and holds the key from now on.
    fn look_up(&mut self, name: &[u8]) -> Result<Option<Id>> {
        let Some(on_demand) = &mut self.on_demand else { return Ok(None) };
        let found = match on_demand.is_removed(name) {
            true => None,
            false => rows::find(&mut *on_demand.sql, name, self.revision)?,
        };
        let Some(found) = found else {
            on_demand.reserve_row()?;
            return Ok(None);
        };
        Ok(Some(self.hold(found.row, found.fields_due, found.value)))
    }

    /// Holds a key that was read. Undoing that drops it, so that its id is as free as it was.
    fn hold(&mut self, row: KeyRow, fields_due: Millis, value: Option<Value>) -> Id {
        let KeyRow { id: row, key, meta } = row;
        let value = value.unwrap_or(Value::Evicted(meta.kind));
        self.count_added(&key, &value);
        let entry = Entry { version: meta.version, revision: meta.revision, value };
        let id = self.table.insert(key, entry);
        self.before(|| Undo::Added(id));
        self.table.set_expires_at(id, meta.expires_at);
        self.fields.set(id, fields_due);
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.set_row(id, row);
        }
        id
    }

    /// Writes what changed to the rows, in the owner's transaction. Without rows it does nothing.
    ///
    /// # Errors
    /// The error of the database, and of a state that has no text form. The owner must roll back then, the keyspace and the database.
    pub fn write_rows(&mut self) -> Result<()> {
        if self.on_demand.is_none() {
            return Ok(());
        }
        self.ready()?;
        let Some(on_demand) = &mut self.on_demand else { return Ok(()) };
        let Some(new) = self.effects.get(on_demand.changed.written..).filter(|new| !new.is_empty()) else {
            return Ok(());
        };
        let before = new.first().map_or(0, |first| first.revision.0.saturating_sub(1));
        let mut pending = Pending::new(Revision(before), Revision(before));
        new.iter().for_each(|effect| pending.absorb(effect));
        match on_demand.shared {
            None => pending.write(&mut *on_demand.sql)?,
            Some(_) => pending.write_shared(&mut *on_demand.sql)?,
        }
        let changed = &mut on_demand.changed;
        (changed.written, changed.flushed) = (self.effects.len(), false);
        changed.removed.clear();
        Ok(())
    }

    /// Drops keys from memory, the least recently used first (CLOCK), until at most `budget_bytes` are used. Between two jobs, when
    /// everything is written. It may stop earlier; call it again then.
    pub fn shrink(&mut self, budget_bytes: usize) {
        let is_written = self.on_demand.as_ref().is_some_and(|rows| rows.has_written(self.effects.len()));
        if !is_written || self.savepoint.is_some() {
            return;
        }
        while self.used_bytes() > budget_bytes {
            let Some(id) = self.table.evictable(|_, _| true) else { return };
            let Some((key, entry)) = self.table.remove(id) else { return };
            self.count_removed(&key, &entry.value);
            self.fields.take(id);
        }
    }

    /// Drops all keys from memory, and what was recorded and not written: after an error of the database, or when it was changed by
    /// somebody else.
    ///
    /// # Errors
    /// The error of the database; the keyspace must not be used then, except for this.
    pub fn reopen(self) -> Result<Keyspace> {
        match self.on_demand {
            Some(on_demand) => Keyspace::on_demand(on_demand.sql),
            None => Ok(self),
        }
    }

    /// Number of keys, including those that are expired but not yet reclaimed. Where keys are read on demand, counting reads an index the
    /// first time.
    ///
    /// # Errors
    /// The error of the database.
    pub fn count_keys(&mut self) -> Result<usize> {
        if self.on_demand.is_none() {
            return Ok(self.len());
        }
        self.see(self.revision);
        if let Some(count) = self.on_demand.as_ref().and_then(|on_demand| on_demand.changed.count) {
            return Ok(usize::try_from(count).unwrap_or(usize::MAX));
        }
        self.write_rows()?;
        let Some(on_demand) = &mut self.on_demand else { return Ok(0) };
        let count = rows::count(&mut *on_demand.sql)?;
        on_demand.changed.count = Some(count);
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// When the next key or field of a hash expires; [`Millis::NEVER`] when none does.
    ///
    /// # Errors
    /// The error of the database.
    pub fn next_due(&mut self) -> Result<Millis> {
        self.write_rows()?;
        match &mut self.on_demand {
            Some(on_demand) => rows::next_due(&mut *on_demand.sql),
            None => Ok(Millis::NEVER),
        }
    }

    /// As [`scan`](Keyspace::scan), over rows. The cursor is the id of the next row.
    pub(super) fn scan_rows(
        &mut self,
        cursor: u64,
        count: usize,
        now: Millis,
        visit: &mut dyn FnMut(&Bytes, Kind),
    ) -> Result<u64> {
        let (mut next, mut left) = (cursor, count.max(1));
        while left > 0 {
            let most = left.min(WALK_ROWS);
            // One more row says whether these are the last: a client that has all keys need not ask again.
            let mut found = self.rows_from(next, most + 1)?;
            let is_last = found.len() <= most;
            found.truncate(most);
            for (row, fields_due) in found {
                next = u64::from(row.id) + 1;
                if self.row_is_live(&row, fields_due, now)? {
                    visit(&row.key, row.meta.kind);
                    left -= 1;
                }
            }
            if is_last {
                return Ok(0);
            }
        }
        Ok(next)
    }

    /// As [`random_key`](Keyspace::random_key), over rows: the first key that exists from a random id on, or from the start.
    pub(super) fn random_row(&mut self, random: u64, now: Millis) -> Result<Option<Bytes>> {
        self.write_rows()?;
        let Some(on_demand) = &mut self.on_demand else { return Ok(None) };
        let end = match rows::ids_from(&mut *on_demand.sql)? {
            Some(0) => return Ok(None),
            end => end.map_or(1 << 32, u64::from),
        };
        let mut found = None;
        let mut next = random % end;
        // Expired keys may be in the way, so it goes on, once around.
        for _ in 0..2 {
            while found.is_none() {
                let some = self.rows_from(next, WALK_ROWS.min(8))?;
                let Some((last, _)) = some.last() else { break };
                next = u64::from(last.id) + 1;
                for (row, fields_due) in some {
                    if found.is_none() && self.row_is_live(&row, fields_due, now)? {
                        found = Some(row.key);
                    }
                }
            }
            next = 0;
        }
        Ok(found)
    }

    /// Rows from an id on, and when the first field of each expires.
    fn rows_from(&mut self, from: u64, count: usize) -> Result<Vec<(KeyRow, Millis)>> {
        self.write_rows()?;
        let mut found = Vec::new();
        if let Some(on_demand) = &mut self.on_demand {
            rows::walk(&mut *on_demand.sql, from, count, self.revision, &mut |row, fields_due| {
                found.push((row, fields_due));
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Whether a row is a key that exists, after its expired fields are reclaimed.
    fn row_is_live(&mut self, row: &KeyRow, fields_due: Millis, now: Millis) -> Result<bool> {
        if row.meta.expires_at <= now {
            return Ok(false);
        }
        Ok(fields_due > now || self.find_ready(&row.key, now)?.is_some())
    }

    /// As [`reclaim`](Keyspace::reclaim), over rows.
    pub(super) fn reclaim_rows(&mut self, now: Millis, budget: &mut usize) -> Result<()> {
        self.write_rows()?;
        for name in self.names_due(Due::Keys, now, *budget)? {
            *budget = budget.saturating_sub(1);
            self.find(&name, now)?;
        }
        while *budget > 0 {
            self.write_rows()?;
            let names = self.names_due(Due::Fields, now, (*budget).min(FIELDS_SLICE))?;
            let Some(name) = names.first() else { break };
            *budget = budget.saturating_sub(names.len());
            if let Some(id) = self.find_any(name)? {
                self.drop_some_fields(id, now, FIELDS_SLICE)?;
            }
        }
        self.write_rows()
    }

    fn names_due(&mut self, which: Due, now: Millis, count: usize) -> Result<Vec<Bytes>> {
        match &mut self.on_demand {
            Some(on_demand) => rows::due(&mut *on_demand.sql, which, now, count),
            None => Ok(Vec::new()),
        }
    }

    /// As [`dump`](Keyspace::dump): what the rows have, by the ids of rows.
    pub(super) fn dump_rows(&mut self) -> Result<Vec<KeyDump>> {
        let (mut keys, mut next) = (Vec::new(), 0);
        loop {
            let found = self.rows_from(next, WALK_ROWS)?;
            let Some((last, _)) = found.last() else { break };
            next = u64::from(last.id) + 1;
            for (KeyRow { id, key, meta }, _) in found {
                let Some(on_demand) = &mut self.on_demand else { break };
                let value = fetch(&mut *on_demand.sql, id, meta.kind)?;
                let (version, revision, expires_at) = (meta.version, meta.revision, meta.expires_at);
                keys.push(KeyDump { key, id, version, revision, expires_at, value });
            }
        }
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(keys)
    }

    /// The row of an id in memory; without rows the id itself.
    #[inline]
    pub(super) fn row_of(&self, id: Id) -> u32 {
        match &self.on_demand {
            None => id,
            Some(on_demand) => on_demand.row(id),
        }
    }

    /// Compares a key in memory with a dump of its row. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn check_held(&mut self, dump: &[KeyDump]) -> Result<(), String> {
        for (id, key, entry, expires_at) in self.table.iter_from(0) {
            let Some(row) = dump.iter().find(|row| row.key == *key) else {
                return Err(format!("{key:?} is held and has no row"));
            };
            let held = (self.row_of(id), entry.version, entry.revision, expires_at);
            if held != (row.id, row.version, row.revision, row.expires_at) {
                return Err(format!("{key:?} is held as {held:?}, and its row is {row:?}"));
            }
            if !matches!(entry.value, Value::Evicted(kind) if kind == row.value.kind())
                && entry.value != row.value
            {
                return Err(format!("{key:?} is held as {:?}, and its row is {:?}", entry.value, row.value));
            }
        }
        Ok(())
    }
}
