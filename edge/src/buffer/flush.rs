//! One batch of a sink: which keys are in it, what D1 says to it, and what becomes of rows that D1 rejects. Touches the object's storage and D1.
//!
//! What is sent is numbered before it is sent, and the number is part of the position in D1: so an attempt whose reply was lost, or which
//! comes late, is recognised. Invariant: nothing is taken from what waits before D1 has it.

use std::rc::Rc;

use keystead_commands::documents::is_internal;
use keystead_core::{Code, Error, Millis, Result, Revision, ShardId};
use keystead_model::Bytes;
use keystead_model::effect::Effect;
use keystead_rows::batch::{Batch, Position, Rejection, Row};
use keystead_rows::layout::BATCH_COLUMN;
use keystead_rows::sqlite::{self, COLUMNS, ColumnRow, D1 as DIALECT, UNIQUE};
use keystead_rows::statement::{Statement, prepare, writes};
use keystead_rows::table::{self, Table};
use keystead_rows::value::Found;
use keystead_rows::{param::Param, positions};
use serde_json::Value;

use super::d1::{D1, Failed};
use super::pending::{Pending, State};
use super::settings::Definition;
use super::{Buffer, pause};
use crate::bounds::{FLUSH_BYTES, FLUSH_STATEMENTS, RESYNC_KEYS};
use crate::database::{Completion, Database as Open, now};
use crate::object::Database;

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing waits.
    All,
    /// There may be more.
    Some,
    /// Another request writes one.
    Busy,
}

/// One batch at a time: the next may begin when this is dropped.
struct Turn<'a>(&'a Buffer);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_flushing.set(false);
    }
}

/// What was read for an attempt.
struct Attempt {
    state: State,
    upto: u64,
    rows: Vec<Row>,
    keys: Vec<Bytes>,
}

impl Database {
    /// Writes a batch of what waits. An error is noted in the state of the sink, and the next attempt is due after a pause.
    pub(crate) async fn flush(&self, buffer: &Buffer) -> Result<Flushed> {
        if buffer.is_flushing.replace(true) {
            return Ok(Flushed::Busy);
        }
        let _turn = Turn(buffer);
        let flushed = self.batch(buffer).await;
        if let Err(error) = &flushed {
            *buffer.table.borrow_mut() = None;
            self.pending(buffer, |pending| {
                let mut state = pending.state()?;
                state.failures += 1;
                state.retry_at = now().plus_ms(pause(state.failures));
                state.problem = Some(error.message().to_owned());
                pending.write_state(&state)
            })?;
        }
        flushed
    }

    /// Runs something on what waits, as one transaction.
    pub(crate) fn pending<T>(
        &self,
        buffer: &Buffer,
        run: impl FnOnce(&mut Pending<'_>) -> Result<T>,
    ) -> Result<T> {
        let sink = &buffer.definition.name;
        self.with_open(|open| open.rows(|sql| run(&mut Pending { sql, sink })))?
    }

    /// The id of this database in the positions of D1.
    fn id(&self) -> String {
        self.state.id().to_string()
    }

    async fn batch(&self, buffer: &Buffer) -> Result<Flushed> {
        let d1 = D1::of(&self.env, &buffer.definition.binding)?;
        let known = buffer.table.borrow().clone();
        let table = match known {
            Some(table) => table,
            None => {
                let table = Rc::new(look(&d1, buffer).await?);
                *buffer.table.borrow_mut() = Some(Rc::clone(&table));
                table
            }
        };
        let state = self.pending(buffer, |pending| pending.state())?;
        if state.upto.is_some() || state.batch == 0 {
            self.settle_as_d1_is(&d1, buffer).await?;
        }
        if let Some(from) = state.resync {
            return self.resync(&d1, buffer, &table, &from).await;
        }
        let attempt = match self.with_open(|open| read(open, &buffer.definition, &table))?? {
            Read::Attempt(attempt) => attempt,
            Read::Again => return Ok(Flushed::Some),
            Read::Nothing => return Ok(Flushed::All),
        };
        let batch = Batch {
            expected: attempt.state.target.clone(),
            next: Position {
                database: self.id(),
                batch: attempt.state.batch + 1,
                revisions: vec![Revision(attempt.state.attempt)],
                resync: None,
            },
            rows: attempt.rows,
        };
        let sorted = prepare(&buffer.definition.layout, &table, batch.rows.iter().enumerate());
        if !sorted.rejected.is_empty() {
            return self.reject(buffer, &attempt.keys, &sorted.rejected);
        }
        let mut statements = vec![positions::advance_or_fail(&DIALECT, &buffer.definition.name, &batch)];
        statements.extend(writes(&table, &DIALECT, batch.next.batch, &sorted));
        let written = d1.batch(&statements).await;
        if buffer.loses_reply.take() {
            return Err(Error::unknown(Code::StoreUnavailable, "a test has taken the reply of D1"));
        }
        match written {
            Ok(()) => {
                self.settle(buffer, attempt.upto, batch.next.batch, attempt.state.attempt)?;
                Ok(Flushed::Some)
            }
            Err(Failed::Fenced) => {
                self.settle_as_d1_is(&d1, buffer).await?;
                Ok(Flushed::Some)
            }
            Err(Failed::Row(reason)) if batch.rows.len() == 1 => {
                self.reject(buffer, &attempt.keys, &[Rejection::new(0, &reason)])
            }
            Err(Failed::Row(_)) => {
                self.pending(buffer, |pending| {
                    let mut state = pending.state()?;
                    (state.upto, state.at_most) = (None, Some((batch.rows.len() as u64 / 2).max(1)));
                    pending.write_state(&state)
                })?;
                Ok(Flushed::Some)
            }
            Err(Failed::Call(error)) => Err(error),
        }
    }

    /// Rows that cannot be in D1: their keys are in quarantine, and the others are tried again without them.
    fn reject(&self, buffer: &Buffer, keys: &[Bytes], rejected: &[Rejection]) -> Result<Flushed> {
        self.pending(buffer, |pending| {
            for Rejection { row, reason } in rejected {
                if let Some(key) = keys.get(*row) {
                    pending.quarantine(key, reason, now())?;
                }
            }
            let state = State { upto: None, at_most: None, ..pending.state()? };
            pending.write_state(&state)
        })?;
        Ok(Flushed::Some)
    }

    /// D1 has this batch.
    fn settle(&self, buffer: &Buffer, upto: u64, batch: u64, attempt: u64) -> Result<()> {
        let id = self.id();
        self.pending(buffer, |pending| {
            let state = pending.state()?;
            if (state.upto, state.attempt) != (Some(upto), attempt) {
                return Ok(());
            }
            let rows = state.rows + pending.count_to(upto)?;
            pending.settle(upto, now())?;
            let state = State {
                batch,
                target: Some((id, batch)),
                upto: None,
                at_most: state.at_most.map(|most| most.saturating_mul(2)).filter(|most| *most < 1 << 20),
                failures: 0,
                retry_at: Millis(0),
                flushed_at: Some(now()),
                rows,
                problem: None,
                ..state
            };
            pending.write_state(&state)
        })
    }

    /// Reads the position of D1: whether it has the attempt that is under way, or an earlier one whose reply was lost.
    async fn settle_as_d1_is(&self, d1: &D1, buffer: &Buffer) -> Result<()> {
        let position = position(d1, &buffer.definition.name).await?;
        let state = self.pending(buffer, |pending| pending.state())?;
        let at = position.as_ref().map(|position| (position.database.clone(), position.batch));
        if at == state.target {
            return self.pending(buffer, |pending| pending.write_state(&State { upto: None, ..state }));
        }
        match position {
            Some(position) if position.database == self.id() && position.batch == state.batch + 1 => {
                let attempt = position.revisions.first().map_or(0, |attempt| attempt.0);
                match state.upto {
                    Some(upto) if attempt == state.attempt => {
                        self.settle(buffer, upto, position.batch, attempt)
                    }
                    // An earlier attempt came late. What it has written is written again.
                    _ => self.pending(buffer, |pending| {
                        let target = Some((position.database.clone(), position.batch));
                        pending.write_state(&State { batch: position.batch, target, upto: None, ..state })
                    }),
                }
            }
            _ => {
                let name = &buffer.definition.name;
                let words = format!(
                    "D1 is not where this sink has left it: another database writes to it, or it was restored. If it should follow this database, POST /sinks/{name}/resync"
                );
                Err(Error::new(Code::Conflict, words))
            }
        }
    }

    /// Takes D1 as it is: all keys are written again, and rows without a key are deleted.
    pub(crate) async fn begin_anew(&self, buffer: &Buffer) -> Result<()> {
        let d1 = D1::of(&self.env, &buffer.definition.binding)?;
        look(&d1, buffer).await?;
        let position = position(&d1, &buffer.definition.name).await?;
        self.pending(buffer, |pending| {
            let state = pending.state()?;
            let batch = position.as_ref().map_or(0, |position| position.batch).max(state.batch);
            let target = position.map(|position| (position.database, position.batch));
            let (resync, problem) = (Some(String::new()), None);
            let retry_at = Millis(0);
            pending.write_state(&State { batch, target, resync, problem, retry_at, upto: None, ..state })?;
            pending.note_all(now())
        })
    }

    /// Notes some rows of D1, whose keys may be gone.
    async fn resync(&self, d1: &D1, buffer: &Buffer, table: &Table, from: &str) -> Result<Flushed> {
        let (key, quoted) = (&table.key.quoted, &table.quoted);
        let after = if from.is_empty() { "" } else { "AND CAST({key} AS TEXT) > ?1" };
        let after = after.replace("{key}", key);
        let sql = format!(
            "SELECT CAST({key} AS TEXT) AS k FROM {quoted} WHERE {BATCH_COLUMN} > 0 {after} ORDER BY k LIMIT {RESYNC_KEYS}"
        );
        let params = if from.is_empty() { Vec::new() } else { vec![Param::Text(from.to_owned())] };
        let rows = d1.rows(&Statement { sql, params, otherwise: None }).await?;
        let names: Vec<&str> = rows.iter().filter_map(|row| row.first()?.as_str()).collect();
        let layout = &buffer.definition.layout;
        self.pending(buffer, |pending| {
            for name in &names {
                pending.note(layout.key_of((*name).to_owned()).as_bytes(), now())?;
            }
            let next = names.last().filter(|_| names.len() == RESYNC_KEYS).map(|name| (*name).to_owned());
            let state = State { resync: next, ..pending.state()? };
            pending.write_state(&state)
        })?;
        Ok(Flushed::Some)
    }
}

/// What there is to do.
enum Read {
    Attempt(Attempt),
    /// Nothing of what was read is a row.
    Again,
    Nothing,
}

/// Reads the keys that have waited longest, and numbers the attempt.
fn read(open: &mut Open, definition: &Definition, table: &Table) -> Result<Read> {
    let sink = &definition.name;
    let most = definition.flush_rows.min(rows_max(table));
    let (state, taken) = open.rows(|sql| {
        let mut pending = Pending { sql, sink };
        let state = pending.state()?;
        let most = state.at_most.map_or(most, |at_most| most.min(at_most as usize));
        Ok((state, pending.take(most)?))
    })?;
    if taken.is_empty() {
        if state.problem.is_some() {
            open.rows(|sql| {
                Pending { sql, sink }.write_state(&State { problem: None, failures: 0, ..state })
            })?;
        }
        return Ok(Read::Nothing);
    }
    let (mut rows, mut keys, mut upto, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
    let (mut internal, mut rejected) = (Vec::new(), Vec::new());
    for (id, key) in taken {
        if bytes >= FLUSH_BYTES {
            break;
        }
        upto = id;
        if is_internal(&key) {
            internal.push(key);
            continue;
        }
        let found = open.transact(|open| {
            let found = Found::read(open.keys, key.clone(), open.now);
            (found, Completion::Commit)
        })??;
        bytes += found.effects.iter().flatten().map(Effect::size_hint).sum::<usize>();
        match found.row(ShardId::default(), None) {
            Ok(row) => {
                rows.push(row);
                keys.push(key);
            }
            Err(reason) => rejected.push((key, reason)),
        }
    }
    open.rows(|sql| {
        let mut pending = Pending { sql, sink };
        pending.begin(upto)?;
        for key in &internal {
            pending.forget(key)?;
        }
        for (key, reason) in &rejected {
            pending.quarantine(key, reason, now())?;
        }
        if rows.is_empty() {
            return Ok(Read::Again);
        }
        let state = State { attempt: state.attempt + 1, upto: Some(upto), ..state };
        pending.write_state(&state)?;
        Ok(Read::Attempt(Attempt { state, upto, rows, keys }))
    })
}

/// Rows of one batch, so that about [`FLUSH_STATEMENTS`] statements write them.
fn rows_max(table: &Table) -> usize {
    let each = (DIALECT.params_max / (table.values.len() + 2)).max(1);
    each * FLUSH_STATEMENTS
}

/// What D1 has: creates the table of positions, and checks the table of the sink.
async fn look(d1: &D1, buffer: &Buffer) -> Result<Table> {
    let create = Statement { sql: positions::create(&DIALECT), params: Vec::new(), otherwise: None };
    d1.batch(&[create]).await?;
    let layout = &buffer.definition.layout;
    let name = layout.table.rsplit('.').next().unwrap_or_default();
    let about = |sql: &str| Statement {
        sql: sql.to_owned(),
        params: vec![Param::Text(name.to_owned())],
        otherwise: None,
    };
    let columns = d1.rows(&about(COLUMNS)).await?;
    let unique = d1.rows(&about(UNIQUE)).await?;
    let text =
        |row: &Vec<Value>, at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let yes =
        |row: &Vec<Value>, at: usize| row.get(at).and_then(Value::as_f64).is_some_and(|flag| flag > 0.0);
    let columns = columns.iter().map(|row| ColumnRow {
        name: text(row, 0),
        type_name: text(row, 1),
        is_required: yes(row, 2),
        is_generated: yes(row, 3),
        is_key: yes(row, 4),
    });
    let unique = unique.iter().map(|row| text(row, 0)).collect();
    table::check(layout, sqlite::found(columns.collect(), unique), &DIALECT)
}

/// The position of D1.
async fn position(d1: &D1, sink: &str) -> Result<Option<Position>> {
    let rows = d1.rows(&positions::read(&DIALECT, sink)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let text = |at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let batch = row.get(1).and_then(Value::as_f64).unwrap_or(-1.0) as i64;
    Position::of_parts(text(0), batch, &text(2), None).map(Some)
}
