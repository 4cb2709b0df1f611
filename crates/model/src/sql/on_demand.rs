//! Keys that are read when they are needed: by name, in the order of their ids, and by their expiry.
//!
//! It accesses the database it is given. The archive of a shard needs none of these indexes, since the shard holds every name in memory:
//! they belong to a database whose keys do not fit there, or must not be read when it is opened (rows that are read are billed). Invariant:
//! each statement reads as many rows as it returns, except for [`count`], which reads one index.

use keystead_core::{Code, Error, Millis, Result, Revision, Version};

use super::executor::{Param, Row, Sql};
use super::load::{kind_of, read_archived, stamp, unknown_type, whole_value};
use super::schema::{SCHEMA, migrate, read_meta_int, write_meta};
use super::{Archived, KeyRow};
use crate::Bytes;
use crate::keyspace::Meta;
use crate::value::{Kind, Value};

/// The row of `meta` that says which schema has these indexes.
const MARK: &str = "on_demand";

const INDEXES: [&str; 3] = [
    "CREATE UNIQUE INDEX IF NOT EXISTS keys_by_name ON keys (name)",
    "CREATE INDEX IF NOT EXISTS keys_by_expiry ON keys (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS hash_fields_by_expiry ON hash_fields (expires_at) WHERE expires_at IS NOT NULL",
];
/// The query that finds a key by its name. The first column is the id of its row.
pub const FIND: &str = "SELECT id, name, type, version, revision, expires_at,
        CASE type WHEN 'hash' THEN (SELECT min(f.expires_at) FROM hash_fields f
            WHERE f.key_id = keys.id AND f.expires_at IS NOT NULL) END, value
    FROM keys WHERE name = ?1";
const WALK: &str = "SELECT id, name, type, version, revision, expires_at,
        CASE type WHEN 'hash' THEN (SELECT min(f.expires_at) FROM hash_fields f
            WHERE f.key_id = keys.id AND f.expires_at IS NOT NULL) END
    FROM keys WHERE id >= ?1 ORDER BY id LIMIT ?2";
const DUE_KEYS: &str =
    "SELECT name FROM keys WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2";
const DUE_FIELDS: &str = "SELECT k.name FROM hash_fields f JOIN keys k ON k.id = f.key_id
    WHERE f.expires_at IS NOT NULL AND f.expires_at <= ?1 ORDER BY f.expires_at LIMIT ?2";
const NEXT_DUE: &str = "SELECT (SELECT min(expires_at) FROM keys WHERE expires_at IS NOT NULL),
    (SELECT min(expires_at) FROM hash_fields WHERE expires_at IS NOT NULL)";
const LAST_ID: &str = "SELECT max(id) FROM keys";
const FREE_ID: &str =
    "SELECT min(id) + 1 FROM keys k WHERE NOT EXISTS (SELECT 1 FROM keys WHERE id = k.id + 1)";
const COUNT: &str = "SELECT count(*) FROM keys";

/// A key that was read, with its value if that is in the same row.
pub(crate) struct Found {
    pub(crate) row: KeyRow,
    /// When its first field expires, for a hash.
    pub(crate) fields_due: Millis,
    pub(crate) value: Option<Value>,
}

/// Migrates a database to the current schema with indexes for reading on demand, in the caller's transaction. One that has them already
/// costs a single row.
///
/// # Errors
/// As [`migrate`]; `unsupported` for the archive of a shard that is not complete without its journal.
pub fn migrate_on_demand(sql: &mut dyn Sql) -> Result<()> {
    // An empty database has no table to read from.
    if matches!(read_meta_int(sql, MARK), Ok(Some(SCHEMA))) {
        return Ok(());
    }
    migrate(sql)?;
    let Archived { revision, newest } = read_archived(sql)?;
    if newest > revision {
        let why = "the archive is not complete without its journal: stop the server that writes it first";
        return Err(Error::new(Code::Unsupported, why));
    }
    for index in INDEXES {
        sql.run(index, &[])?;
    }
    write_meta(sql, MARK, Param::Int(SCHEMA))
}

/// The key with this name.
pub(crate) fn find(sql: &mut dyn Sql, name: &[u8], newest: Revision) -> Result<Option<Found>> {
    let mut found = None;
    sql.query(FIND, &[Param::Blob(name)], &mut |cells| {
        let (row, fields_due) = key_row(&Row(cells), newest)?;
        let value = match Row(cells).is_null(7)? {
            true => None,
            false => whole_value(row.id, row.meta.kind, Bytes::from(Row(cells).bytes(7)?))?,
        };
        found = Some(Found { row, fields_due, value });
        Ok(())
    })?;
    Ok(found)
}

/// At most `count` keys from this id on, in the order of their ids, and when the first field of each expires.
pub(crate) fn walk(
    sql: &mut dyn Sql,
    from: u64,
    count: usize,
    newest: Revision,
    visit: &mut dyn FnMut(KeyRow, Millis) -> Result<()>,
) -> Result<()> {
    // A cursor of a client may be any number. No id is that large.
    let [from, most] =
        [from, count as u64].map(|number| Param::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    sql.query(WALK, &[from, most], &mut |cells| {
        let (row, fields_due) = key_row(&Row(cells), newest)?;
        visit(row, fields_due)
    })
}

fn key_row(cells: &Row<'_>, newest: Revision) -> Result<(KeyRow, Millis)> {
    let id = cells.id(0)?;
    let kind: Kind = kind_of(cells.bytes(2)?).ok_or_else(|| unknown_type(id))?;
    let (version, revision): (Version, Revision) = stamp(id, cells.int(3)?, cells.int(4)?, newest)?;
    let meta = Meta { kind, version, revision, expires_at: cells.moment(5)? };
    Ok((KeyRow { id, key: Bytes::from(cells.bytes(1)?), meta }, cells.moment(6)?))
}

/// Which of what expires.
#[derive(Clone, Copy)]
pub(crate) enum Due {
    /// Keys that expire.
    Keys,
    /// Hashes with fields that expire, each as often as it has such fields.
    Fields,
}

/// The names of at most `count` keys that are due, those that are due first in front.
pub(crate) fn due(sql: &mut dyn Sql, which: Due, now: Millis, count: usize) -> Result<Vec<Bytes>> {
    let query = match which {
        Due::Keys => DUE_KEYS,
        Due::Fields => DUE_FIELDS,
    };
    let mut names = Vec::new();
    let most = Param::Int(i64::try_from(count).unwrap_or(i64::MAX));
    sql.query(query, &[Param::uint(now.0), most], &mut |cells| {
        names.push(Bytes::from(Row(cells).bytes(0)?));
        Ok(())
    })?;
    Ok(names)
}

/// When the next key or field expires; [`Millis::NEVER`] when none does.
pub(crate) fn next_due(sql: &mut dyn Sql) -> Result<Millis> {
    let mut next = Millis::NEVER;
    sql.query(NEXT_DUE, &[], &mut |cells| {
        next = Row(cells).moment(0)?.min(Row(cells).moment(1)?);
        Ok(())
    })?;
    Ok(next)
}

/// An id from which on all are free; nothing when the last one is in use.
pub(crate) fn ids_from(sql: &mut dyn Sql) -> Result<Option<u32>> {
    Ok(match number(sql, LAST_ID)? {
        None => Some(0),
        Some(last) => last.checked_add(1),
    })
}

/// An id that is free. It reads all ids up to it.
pub(crate) fn free_id(sql: &mut dyn Sql) -> Result<u32> {
    number(sql, FREE_ID)?.ok_or_else(|| Error::new(Code::TooLarge, "the database has no id for another key"))
}

/// Number of keys.
pub(crate) fn count(sql: &mut dyn Sql) -> Result<u64> {
    let mut count = 0;
    sql.query(COUNT, &[], &mut |cells| {
        count = Row(cells).uint(0)?;
        Ok(())
    })?;
    Ok(count)
}

fn number(sql: &mut dyn Sql, query: &'static str) -> Result<Option<u32>> {
    let mut number = None;
    sql.query(query, &[], &mut |cells| {
        let row = Row(cells);
        number = if row.is_null(0)? { None } else { u32::try_from(row.int(0)?).ok() };
        Ok(())
    })?;
    Ok(number)
}
