//! Loads keys and values from rows: the keys at start, single values on access.
//!
//! It reads the database it is given. Invariant: what was written is loaded unchanged; invalid rows are `corrupt`,
//! and no key is younger than the revision up to which the archive is complete.

mod stream;

use std::ops::Range;

use keystead_core::{Code, Error, Millis, Result, Revision, Version};

use super::absorb::type_name;
use super::executor::{Param, Row, Sql};
use super::schema::read_meta_int;
use crate::Bytes;
use crate::keyspace::{Keyspace, Meta};
use crate::value::{Hash, Kind, List, Set, StateCell, Value, ZSet};

use stream::fetch_stream;

const ENDS: &str = "SELECT (SELECT min(id) FROM keys), (SELECT max(id) FROM keys)";
const DIRECTORY: &str =
    "SELECT id, name, type, version, revision, expires_at FROM keys WHERE id >= ?1 AND id < ?2 ORDER BY id";
const YOUNGER: &str = "SELECT id, type, value FROM keys WHERE revision > ?1 AND value IS NOT NULL";
const FIELDS_DUE: &str =
    "SELECT key_id, min(expires_at) FROM hash_fields WHERE expires_at IS NOT NULL GROUP BY key_id";
const WHOLE: &str = "SELECT value FROM keys WHERE id = ?1 AND type = ?2 AND value IS NOT NULL";
const HASH: &str = "SELECT field, value, expires_at FROM hash_fields WHERE key_id = ?1";
const LIST: &str = "SELECT position, value FROM list_items WHERE key_id = ?1 ORDER BY position";
const SET: &str = "SELECT member FROM set_members WHERE key_id = ?1";
const ZSET: &str = "SELECT member, score FROM zset_members WHERE key_id = ?1";

/// The queries that read the elements of a key by its row id, of whatever type it is.
pub const ELEMENTS: [&str; 9] = [
    HASH,
    LIST,
    SET,
    ZSET,
    stream::STREAM,
    stream::ENTRIES,
    stream::GROUPS,
    stream::CONSUMERS,
    stream::PENDING,
];

/// Keys between two reports.
const KEYS_PER_REPORT: u64 = 4096;

/// How new the rows of an archive are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archived {
    /// Every row has everything up to this revision.
    pub revision: Revision,
    /// No row is younger than this revision. When it is higher, the journal must be replayed at least up to here.
    pub newest: Revision,
}

/// Loads the keys into an empty keyspace. Values are evicted, except for those that may change in the archive.
///
/// # Errors
/// The error of the database; `corrupt` when a row is not valid.
pub fn load(sql: &mut dyn Sql, keyspace: &mut Keyspace) -> Result<Archived> {
    load_reporting(sql, keyspace, &mut |_, _| {})
}

/// The same, and reports now and then how many keys it has loaded, of how many at most.
///
/// # Errors
/// As [`load`].
pub fn load_reporting(
    sql: &mut dyn Sql,
    keyspace: &mut Keyspace,
    report: &mut dyn FnMut(u64, u64),
) -> Result<Archived> {
    let (archived, end) = (read_archived(sql)?, ids_end(sql)?);
    let mut loaded = 0;
    read_keys(sql, 0..end, archived, &mut |row| {
        if loaded % KEYS_PER_REPORT == 0 {
            report(loaded, end);
        }
        loaded += 1;
        restore_key(keyspace, archived, row)
    })?;
    report(loaded, loaded);
    complete_load(sql, keyspace, archived)?;
    Ok(archived)
}

/// A key of the archive, without its value.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub key: Bytes,
    /// What else is known of it.
    pub meta: Meta,
}

/// One more than the largest id. Ids are reused, so this is near the number of keys, which is known only after reading all of them.
///
/// # Errors
/// The error of the database; `corrupt` when the id is not valid.
pub fn ids_end(sql: &mut dyn Sql) -> Result<u64> {
    let mut end = 0;
    sql.query(ENDS, &[], &mut |cells| {
        let row = Row(cells);
        if !row.is_null(1)? {
            // An id below 0 is as wrong as one that is too large.
            row.id(0)?;
            end = u64::from(row.id(1)?) + 1;
        }
        Ok(())
    })?;
    Ok(end)
}

/// Reads the keys with these ids, in the order of their ids. The first step of a load, which several connections may share.
///
/// # Errors
/// The error of the database, `corrupt` when a row is not valid, and the first error of `row`.
pub fn read_keys(
    sql: &mut dyn Sql,
    ids: Range<u64>,
    archived: Archived,
    row: &mut dyn FnMut(KeyRow) -> Result<()>,
) -> Result<()> {
    sql.query(DIRECTORY, &[Param::uint(ids.start), Param::uint(ids.end)], &mut |cells| {
        let cells = Row(cells);
        let id = cells.id(0)?;
        let kind = kind_of(cells.bytes(2)?).ok_or_else(|| unknown_type(id))?;
        let (version, revision) = stamp(id, cells.int(3)?, cells.int(4)?, archived.newest)?;
        let meta = Meta { kind, version, revision, expires_at: cells.moment(5)? };
        row(KeyRow { id, key: Bytes::from(cells.bytes(1)?), meta })
    })
}

/// Puts a key that was read into the keyspace.
///
/// # Errors
/// `corrupt` when its id is in use.
pub fn restore_key(keyspace: &mut Keyspace, archived: Archived, row: KeyRow) -> Result<()> {
    let KeyRow { id, key, meta } = row;
    let is_exact = archived.newest == archived.revision;
    if !is_exact && !keyspace.forget_older(&key, meta.revision) {
        return Ok(());
    }
    keyspace.restore(id, key, &meta)
}

/// The last step of a load, after all keys have been restored.
///
/// # Errors
/// The error of the database; `corrupt` when a row is not valid.
pub fn complete_load(sql: &mut dyn Sql, keyspace: &mut Keyspace, archived: Archived) -> Result<()> {
    if archived.newest > archived.revision {
        load_younger(sql, keyspace, archived.revision)?;
    }
    sql.query(FIELDS_DUE, &[], &mut |cells| {
        let row = Row(cells);
        keyspace.restore_fields_due(row.id(0)?, row.moment(1)?);
        Ok(())
    })?;
    keyspace.restore_revision(archived.revision);
    Ok(())
}

/// Loads the values of keys that are younger than the revision up to which the archive is complete.
fn load_younger(sql: &mut dyn Sql, keyspace: &mut Keyspace, revision: Revision) -> Result<()> {
    sql.query(YOUNGER, &[Param::uint(revision.0)], &mut |cells| {
        let row = Row(cells);
        let id = row.id(0)?;
        let kind = kind_of(row.bytes(1)?).ok_or_else(|| unknown_type(id))?;
        // A key whose name is at another id by now is not there.
        if keyspace.is_evicted(id, kind)
            && let Some(value) = whole_value(id, kind, Bytes::from(row.bytes(2)?))?
        {
            keyspace.restore_value(id, value);
        }
        Ok(())
    })
}

/// A key's version and revision, if they are valid.
///
/// No key is younger than the newest revision that the archive states. If it were accepted, the shard would continue
/// from a revision that the journal does not have: reads of the key would wait for ever for that revision to be durable, and
/// the next write would leave a gap in the journal.
pub(super) fn stamp(id: u32, version: i64, revision: i64, archived: Revision) -> Result<(Version, Revision)> {
    match (u64::try_from(version), u64::try_from(revision)) {
        (Ok(version @ 1..), Ok(revision)) if revision <= archived.0 => {
            Ok((Version(version), Revision(revision)))
        }
        _ => Err(Error::new(
            Code::Corrupt,
            format!(
                "the key with id {id} has version {version} of revision {revision}, which cannot be in an archive \
                 of revision {archived}: restore it from a backup"
            ),
        )),
    }
}

/// Reads how new the rows are.
///
/// # Errors
/// The error of the database; `corrupt` when it has no valid revision.
pub fn read_archived(sql: &mut dyn Sql) -> Result<Archived> {
    let revision = valid_revision(read_meta_int(sql, "revision")?.unwrap_or(0))?;
    // Older archives have none, and are exact.
    let newest = valid_revision(read_meta_int(sql, "newest")?.unwrap_or(0))?;
    Ok(Archived { revision, newest: newest.max(revision) })
}

fn valid_revision(revision: i64) -> Result<Revision> {
    u64::try_from(revision).map(Revision).map_err(|_| {
        Error::new(
            Code::Corrupt,
            format!("the archive has revision {revision}, which is not valid: restore it from a backup"),
        )
    })
}

/// Reads the value of the key with this row id.
///
/// # Errors
/// The error of the database; `corrupt` when there is no value of that kind.
pub fn fetch(sql: &mut dyn Sql, id: u32, kind: Kind) -> Result<Value> {
    let value = match kind {
        Kind::Str | Kind::Json | Kind::State => match whole(sql, id, kind)? {
            Some(bytes) => whole_value(id, kind, bytes)?,
            None => None,
        },
        Kind::Hash => Some(Value::Hash(hash(sql, id)?)),
        Kind::List => Some(Value::List(list(sql, id)?)),
        Kind::Set => Some(Value::Set(set(sql, id)?)),
        Kind::ZSet => Some(Value::ZSet(zset(sql, id)?)),
        Kind::Stream => fetch_stream(sql, id)?.map(|stream| Value::Stream(Box::new(stream))),
    };
    value.filter(|value| !is_empty(value)).ok_or_else(|| broken(id, kind))
}

/// A collection without elements has no rows, and no key holds one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Hash(hash) => hash.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Set(set) => set.is_empty(),
        Value::ZSet(zset) => zset.is_empty(),
        _ => false,
    }
}

/// The value of this kind that these bytes are; `None` for a collection.
pub(super) fn whole_value(id: u32, kind: Kind, bytes: Bytes) -> Result<Option<Value>> {
    Ok(match kind {
        Kind::Str => Some(Value::Str(bytes.into())),
        Kind::Json => Some(Value::Json(bytes)),
        Kind::State => {
            let text = std::str::from_utf8(&bytes).map_err(|e| broken(id, kind).with_source(e))?;
            Some(Value::State(StateCell::Text(text.into())))
        }
        Kind::Hash | Kind::List | Kind::Set | Kind::ZSet | Kind::Stream => None,
    })
}

fn whole(sql: &mut dyn Sql, id: u32, kind: Kind) -> Result<Option<Bytes>> {
    let mut value = None;
    sql.query(WHOLE, &[Param::id(id), Param::Text(type_name(kind))], &mut |cells| {
        value = Some(Bytes::from(Row(cells).bytes(0)?));
        Ok(())
    })?;
    Ok(value)
}

fn hash(sql: &mut dyn Sql, id: u32) -> Result<Hash> {
    let mut hash = Hash::new();
    sql.query(HASH, &[Param::id(id)], &mut |cells| {
        let row = Row(cells);
        let field = Bytes::from(row.bytes(0)?);
        hash.insert(&field, &Bytes::from(row.bytes(1)?));
        let expires_at = row.moment(2)?;
        if expires_at != Millis::NEVER {
            hash.set_expires_at(&field, expires_at);
        }
        Ok(())
    })?;
    Ok(hash)
}

fn list(sql: &mut dyn Sql, id: u32) -> Result<List> {
    let mut list = List::new();
    sql.query(LIST, &[Param::id(id)], &mut |cells| {
        let row = Row(cells);
        list.put_at(row.int(0)?, &Bytes::from(row.bytes(1)?));
        Ok(())
    })?;
    Ok(list)
}

fn set(sql: &mut dyn Sql, id: u32) -> Result<Set> {
    let mut set = Set::new();
    sql.query(SET, &[Param::id(id)], &mut |cells| {
        set.insert(&Bytes::from(Row(cells).bytes(0)?));
        Ok(())
    })?;
    Ok(set)
}

fn zset(sql: &mut dyn Sql, id: u32) -> Result<ZSet> {
    let mut zset = ZSet::new();
    sql.query(ZSET, &[Param::id(id)], &mut |cells| {
        let row = Row(cells);
        zset.insert(&Bytes::from(row.bytes(0)?), row.real(1)?);
        Ok(())
    })?;
    Ok(zset)
}

pub(super) fn kind_of(name: &[u8]) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| type_name(*kind).as_bytes() == name)
}

pub(super) fn unknown_type(id: u32) -> Error {
    Error::new(Code::Corrupt, format!("the key with id {id} is of an unknown type"))
}

fn broken(id: u32, kind: Kind) -> Error {
    Error::new(Code::Corrupt, format!("the archive has no {} for the key with id {id}", type_name(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Expire;
    use crate::sql::{Pending, migrate};
    use crate::testing::Sqlite;

    const NOW: Millis = Millis(1000);

    fn archived(change: impl FnOnce(&mut Keyspace)) -> Sqlite {
        let mut ks = Keyspace::in_memory();
        change(&mut ks);
        let mut pending = Pending::new(Revision::ZERO, Revision::ZERO);
        ks.effects().iter().for_each(|effect| pending.absorb(effect));
        let mut db = Sqlite::in_memory();
        migrate(&mut db).unwrap();
        pending.write(&mut db).unwrap();
        db
    }

    #[test]
    fn an_empty_archive_is_at_revision_zero() {
        let mut empty = Sqlite::in_memory();
        migrate(&mut empty).unwrap();
        assert_eq!(load(&mut empty, &mut Keyspace::in_memory()).unwrap().revision, Revision::ZERO);
        assert_eq!(read_archived(&mut empty).unwrap().newest, Revision::ZERO);
    }

    #[test]
    fn loading_reports_how_far_it_is() {
        let keys = KEYS_PER_REPORT + 1;
        let mut db = archived(|ks| {
            for n in 0..keys {
                ks.set_str(&n.to_le_bytes(), Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
            }
        });
        let mut reports = Vec::new();
        load_reporting(&mut db, &mut Keyspace::in_memory(), &mut |done, total| reports.push((done, total)))
            .unwrap();
        assert_eq!(reports, [(0, keys), (KEYS_PER_REPORT, keys), (keys, keys)]);
    }

    #[test]
    fn a_score_keeps_its_bits() {
        let scores = [-0.0, 0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE / 2.0, 0.1];
        let mut db = archived(|ks| {
            let mut zset = ks.zset_mut(b"z", NOW).unwrap();
            for (n, score) in scores.iter().enumerate() {
                zset.insert(&Bytes::from(n.to_string().as_bytes()), *score);
            }
        });
        let Value::ZSet(zset) = fetch(&mut db, 0, Kind::ZSet).unwrap() else { panic!("not a sorted set") };
        for (n, score) in scores.iter().enumerate() {
            assert_eq!(
                zset.score(n.to_string().as_bytes()).map(f64::to_bits),
                Some(score.to_bits()),
                "{score}"
            );
        }
    }

    #[test]
    fn a_missing_value_is_corrupt_and_named() {
        let mut db = archived(|ks| {
            ks.set_str(b"s", Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
        });
        assert_eq!(fetch(&mut db, 0, Kind::Str).unwrap(), Value::Str(Bytes::from(b"v").into()));
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Str) {
            let error = fetch(&mut db, 0, kind).unwrap_err();
            assert_eq!(error.code(), Code::Corrupt);
            assert!(error.message().contains("id 0"), "{error}");
        }
        db.0.execute_batch("UPDATE keys SET type = 'sandwich'").unwrap();
        assert_eq!(load(&mut db, &mut Keyspace::in_memory()).unwrap_err().code(), Code::Corrupt);
    }

    #[test]
    fn an_invalid_version_or_revision_is_corrupt_and_named() {
        for (damage, says) in [
            ("UPDATE keys SET revision = 3 WHERE id = 1", "id 1 has version 1 of revision 3"),
            ("UPDATE keys SET revision = -1 WHERE id = 1", "id 1 has version 1 of revision -1"),
            ("UPDATE keys SET version = 0 WHERE id = 1", "id 1 has version 0 of revision 2"),
            ("UPDATE keys SET version = -1 WHERE id = 1", "id 1 has version -1 of revision 2"),
            ("UPDATE meta SET value = 1", "an archive of revision 1"),
            ("UPDATE meta SET value = -1 WHERE name = 'revision'", "the archive has revision -1"),
            ("DELETE FROM meta", "an archive of revision 0"),
        ] {
            let mut db = archived(|ks| {
                for key in [b"a", b"b"] {
                    ks.set_str(key, Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
                }
            });
            assert_eq!(load(&mut db, &mut Keyspace::in_memory()).unwrap().revision, Revision(2));
            db.0.execute_batch(damage).unwrap();
            let error = load(&mut db, &mut Keyspace::in_memory()).unwrap_err();
            assert_eq!(error.code(), Code::Corrupt, "{damage}: {error}");
            assert!(error.message().contains(says), "{damage}: {error}");
        }
    }

    #[test]
    fn the_views_can_be_queried_by_name() {
        let db = archived(|ks| {
            ks.hash_mut(b"user:1", NOW).unwrap().set(&Bytes::from(b"name"), &Bytes::from(b"Ada"));
        });
        let query = "SELECT CAST(value AS TEXT) FROM named_hash_fields
            WHERE key = CAST('user:1' AS BLOB) AND field = CAST('name' AS BLOB)";
        assert_eq!(db.0.query_row(query, [], |row| row.get::<_, String>(0)).unwrap(), "Ada");
    }
}
