//! Loads a stream from its rows. It reads the database it is given.

use keystead_core::{Millis, Result};

use crate::Bytes;
use crate::sql::executor::{Param, Row, Sql, unexpected};
use crate::value::Stream;
use crate::value::stream::{Fields, Group, Meta, Pending, StreamId};

pub(super) const STREAM: &str = "SELECT last_ms, last_seq, max_deleted_ms, max_deleted_seq, entries_added
    FROM streams WHERE key_id = ?1";
pub(super) const ENTRIES: &str =
    "SELECT ms, seq, field, value FROM stream_entries WHERE key_id = ?1 ORDER BY ms, seq, n";
pub(super) const GROUPS: &str =
    "SELECT name, last_ms, last_seq, entries_read FROM stream_groups WHERE key_id = ?1";
pub(super) const CONSUMERS: &str =
    "SELECT group_name, name, seen_at, active_at FROM stream_consumers WHERE key_id = ?1";
pub(super) const PENDING: &str = "SELECT group_name, ms, seq, consumer, delivered_at, deliveries
    FROM stream_pending WHERE key_id = ?1";

/// Reads the stream of the key with this row id; `None` when it has no rows.
pub(super) fn fetch_stream(sql: &mut dyn Sql, id: u32) -> Result<Option<Stream>> {
    let id = [Param::id(id)];
    let mut stream = Stream::new();
    let mut known = false;
    sql.query(STREAM, &id, &mut |cells| {
        let row = Row(cells);
        let (last_id, max_deleted_id) = (stream_id(&row, 0)?, stream_id(&row, 2)?);
        stream.set_meta(Meta { last_id, max_deleted_id, entries_added: row.uint(4)? });
        known = true;
        Ok(())
    })?;
    entries(sql, &id, &mut stream)?;
    sql.query(GROUPS, &id, &mut |cells| {
        let row = Row(cells);
        let entries_read = if row.is_null(3)? { None } else { Some(row.uint(3)?) };
        stream.put_group(&Bytes::from(row.bytes(0)?), Group::new(stream_id(&row, 1)?, entries_read));
        Ok(())
    })?;
    sql.query(CONSUMERS, &id, &mut |cells| {
        let row = Row(cells);
        let (name, seen_at) = (Bytes::from(row.bytes(1)?), Millis(row.uint(2)?));
        let active_at = if row.is_null(3)? { None } else { Some(Millis(row.uint(3)?)) };
        let found = stream.update_group(row.bytes(0)?, |group| group.put_consumer(&name, seen_at, active_at));
        found.map(|_| ()).ok_or_else(no_group)
    })?;
    sql.query(PENDING, &id, &mut |cells| {
        let row = Row(cells);
        let pending = Pending {
            consumer: Bytes::from(row.bytes(3)?),
            delivered_at: Millis(row.uint(4)?),
            deliveries: row.uint(5)?,
        };
        let id = stream_id(&row, 1)?;
        let found = stream.update_group(row.bytes(0)?, |group| group.put_pending(id, pending));
        found.map(|_| ()).ok_or_else(no_group)
    })?;
    Ok(known.then_some(stream))
}

/// An entry is a run of rows with its id.
fn entries(sql: &mut dyn Sql, id: &[Param<'_>], stream: &mut Stream) -> Result<()> {
    let mut run: Option<(StreamId, Vec<(Bytes, Bytes)>)> = None;
    sql.query(ENTRIES, id, &mut |cells| {
        let row = Row(cells);
        let id = stream_id(&row, 0)?;
        let pair = (Bytes::from(row.bytes(2)?), Bytes::from(row.bytes(3)?));
        match &mut run {
            Some((same, pairs)) if *same == id => pairs.push(pair),
            _ => put(stream, run.replace((id, vec![pair]))),
        }
        Ok(())
    })?;
    put(stream, run);
    Ok(())
}

fn put(stream: &mut Stream, run: Option<(StreamId, Vec<(Bytes, Bytes)>)>) {
    if let Some((id, pairs)) = run {
        let fields = Fields::new(pairs.iter().map(|(field, value)| (field.as_slice(), value.as_slice())));
        stream.put(id, &fields);
    }
}

fn stream_id(row: &Row<'_>, column: usize) -> Result<StreamId> {
    Ok(StreamId::new(row.uint(column)?, row.uint(column + 1)?))
}

fn no_group() -> keystead_core::Error {
    unexpected("an archived consumer is of a group that does not exist")
}
