//! The pending changes of a key, and its rows.
//!
//! It writes to the database it is given. Invariant: elements are written in the order of their keys, so that each page is
//! written once.

use std::collections::BTreeMap;

use keystead_core::{Code, Error, Millis, Result, Revision, Version};

use super::stream::StreamRows;
use crate::Bytes;
use crate::effect::{Effect, Fact};
use crate::keyspace::Meta;
use crate::keyspace::check::KeyDump;
use crate::sql::executor::{Param, Sql};
use crate::value::{Kind, Value};

// A row may be newer than the change that is written (see `newest` in the parent module): then it stays.
const CHANGE_KEY: &str = "UPDATE keys SET version = ?2, revision = ?3 WHERE id = ?1 AND revision < ?3";
const CHANGE_KEY_EXPIRY: &str =
    "UPDATE keys SET version = ?2, revision = ?3, expires_at = ?4 WHERE id = ?1 AND revision < ?3";
const NEW_KEY: &str = "INSERT OR IGNORE INTO keys (id, name, type, version, revision, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const PUT_WHOLE: &str = "INSERT OR REPLACE INTO keys (id, name, type, version, revision, expires_at, value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const PUT_WHOLE_SAME_EXPIRY: &str = "INSERT INTO keys (id, name, type, version, revision, expires_at, value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET name = excluded.name, type = excluded.type,
        version = excluded.version, revision = excluded.revision, value = excluded.value";
const PUT_HASH_FIELD: &str =
    "INSERT INTO hash_fields (key_id, field, value, expires_at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (key_id, field) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at";
const END_HASH_FIELD: &str = "DELETE FROM hash_fields WHERE key_id = ?1 AND field = ?2";
const PUT_LIST_ITEM: &str = "INSERT INTO list_items (key_id, position, value) VALUES (?1, ?2, ?3)
    ON CONFLICT (key_id, position) DO UPDATE SET value = excluded.value";
const END_LIST_ITEM: &str = "DELETE FROM list_items WHERE key_id = ?1 AND position = ?2";
const PUT_SET_MEMBER: &str =
    "INSERT INTO set_members (key_id, member) VALUES (?1, ?2) ON CONFLICT (key_id, member) DO NOTHING";
const END_SET_MEMBER: &str = "DELETE FROM set_members WHERE key_id = ?1 AND member = ?2";
const PUT_ZSET_MEMBER: &str = "INSERT INTO zset_members (key_id, member, score) VALUES (?1, ?2, ?3)
    ON CONFLICT (key_id, member) DO UPDATE SET score = excluded.score";
const END_ZSET_MEMBER: &str = "DELETE FROM zset_members WHERE key_id = ?1 AND member = ?2";

/// A key that is new or changed.
pub(super) struct Row {
    name: Bytes,
    /// Its first effect was of version 1, so it has no row, unless a part of that change is written.
    likely_new: bool,
    pub(super) version: Version,
    pub(super) revision: Revision,
    /// Unknown while only the expiry has changed.
    pub(super) kind: Option<Kind>,
    /// `None` when it does not change.
    pub(super) expires_at: Option<Millis>,
    pub(super) data: Data,
}

/// Pending changes of a key's data. `None` as the value of an element: it is deleted.
pub(super) enum Data {
    Nothing,
    Whole(Bytes),
    Hash(BTreeMap<Bytes, Option<(Bytes, Millis)>>),
    List(BTreeMap<i64, Option<Bytes>>),
    Set(BTreeMap<Bytes, Option<()>>),
    ZSet(BTreeMap<Bytes, Option<f64>>),
    Stream(Box<StreamRows>),
}

impl Row {
    pub(super) fn new(first: &Effect) -> Self {
        Row {
            name: first.key.clone(),
            likely_new: first.version == Version::FIRST,
            version: Version::ZERO,
            revision: Revision::ZERO,
            kind: None,
            expires_at: None,
            data: Data::Nothing,
        }
    }

    /// Whether the value is whole.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.data, Data::Whole(_))
    }

    /// Writes the row of the key and those of its elements. With `fresh`, it has no rows. Rows may be as new as `newest`.
    pub(super) fn write(&self, sql: &mut dyn Sql, id: u32, fresh: bool, newest: Revision) -> Result<()> {
        if let Data::Whole(value) = &self.data {
            return self.put_whole(sql, id, fresh, value);
        }
        // The first guess is nearly always right and saves a statement; a wrong one costs one statement and does no harm.
        let written = if fresh || self.likely_new {
            self.insert_key(sql, id)? || (!fresh && self.update_key(sql, id)?)
        } else {
            self.update_key(sql, id)? || self.insert_key(sql, id)?
        };
        match written {
            true => self.write_elements(sql, id),
            // The key has been deleted since, and its row with it.
            false if self.revision <= newest => Ok(()),
            false => Err(no_key(id, &self.name)),
        }
    }

    fn put_whole(&self, sql: &mut dyn Sql, id: u32, fresh: bool, value: &Bytes) -> Result<()> {
        let Some(kind) = self.kind else { return Err(no_key(id, &self.name)) };
        let keeps = self.expires_at.is_none() && !fresh;
        let meta = Meta {
            kind,
            version: self.version,
            revision: self.revision,
            expires_at: self.expires_at.unwrap_or(Millis::NEVER),
        };
        let statement = if keeps { PUT_WHOLE_SAME_EXPIRY } else { PUT_WHOLE };
        run_put(sql, statement, id, &self.name, &meta, value)
    }

    fn insert_key(&self, sql: &mut dyn Sql, id: u32) -> Result<bool> {
        let Some(kind) = self.kind else { return Ok(false) };
        let params = [
            Param::id(id),
            Param::Blob(&self.name),
            Param::Text(type_name(kind)),
            Param::uint(self.version.0),
            Param::uint(self.revision.0),
            Param::moment(self.expires_at.unwrap_or(Millis::NEVER)),
        ];
        Ok(sql.run(NEW_KEY, &params)? == 1)
    }

    fn update_key(&self, sql: &mut dyn Sql, id: u32) -> Result<bool> {
        let (id, version, revision) =
            (Param::id(id), Param::uint(self.version.0), Param::uint(self.revision.0));
        let changed = match self.expires_at {
            None => sql.run(CHANGE_KEY, &[id, version, revision])?,
            Some(at) => sql.run(CHANGE_KEY_EXPIRY, &[id, version, revision, Param::moment(at)])?,
        };
        Ok(changed == 1)
    }

    fn write_elements(&self, sql: &mut dyn Sql, id: u32) -> Result<()> {
        let id = Param::id(id);
        match &self.data {
            Data::Nothing | Data::Whole(_) => {}
            Data::Hash(fields) => {
                for (field, new) in fields {
                    let field = Param::Blob(field);
                    match new {
                        Some((value, at)) => {
                            sql.run(PUT_HASH_FIELD, &[id, field, Param::Blob(value), Param::moment(*at)])?
                        }
                        None => sql.run(END_HASH_FIELD, &[id, field])?,
                    };
                }
            }
            Data::List(items) => {
                for (position, new) in items {
                    let position = Param::Int(*position);
                    match new {
                        Some(value) => sql.run(PUT_LIST_ITEM, &[id, position, Param::Blob(value)])?,
                        None => sql.run(END_LIST_ITEM, &[id, position])?,
                    };
                }
            }
            Data::Set(members) => {
                for (member, new) in members {
                    let statement = if new.is_some() { PUT_SET_MEMBER } else { END_SET_MEMBER };
                    sql.run(statement, &[id, Param::Blob(member)])?;
                }
            }
            Data::ZSet(members) => {
                for (member, new) in members {
                    match new {
                        Some(score) => {
                            sql.run(PUT_ZSET_MEMBER, &[id, Param::Blob(member), Param::Real(*score)])?
                        }
                        None => sql.run(END_ZSET_MEMBER, &[id, Param::Blob(member)])?,
                    };
                }
            }
            Data::Stream(rows) => rows.write(sql, id)?,
        }
        Ok(())
    }
}

/// Puts the row of a key with a whole value, as the keyspace has it.
pub(super) fn put_dumped(sql: &mut dyn Sql, key: &KeyDump) -> Result<()> {
    let meta = Meta {
        kind: key.value.kind(),
        version: key.version,
        revision: key.revision,
        expires_at: key.expires_at,
    };
    match &key.value {
        Value::Str(value) => run_put(sql, PUT_WHOLE, key.id, &key.key, &meta, value),
        Value::Json(value) => run_put(sql, PUT_WHOLE, key.id, &key.key, &meta, value),
        Value::State(cell) => run_put(sql, PUT_WHOLE, key.id, &key.key, &meta, cell.text()?.as_bytes()),
        // A value is evicted only when its last change is in the archive.
        _ => Err(Error::new(
            Code::Internal,
            format!(
                "the value of key '{}' is evicted, and a change of it is not archived",
                key.key.escape_ascii()
            ),
        )),
    }
}

fn run_put(
    sql: &mut dyn Sql,
    statement: &'static str,
    id: u32,
    name: &[u8],
    meta: &Meta,
    value: &[u8],
) -> Result<()> {
    let params = [
        Param::id(id),
        Param::Blob(name),
        Param::Text(type_name(meta.kind)),
        Param::uint(meta.version.0),
        Param::uint(meta.revision.0),
        Param::moment(meta.expires_at),
        Param::Blob(value),
    ];
    sql.run(statement, &params).map(|_| ())
}

impl Data {
    pub(super) fn empty(kind: Kind) -> Self {
        match kind {
            Kind::Hash => Data::Hash(BTreeMap::new()),
            Kind::List => Data::List(BTreeMap::new()),
            Kind::Set => Data::Set(BTreeMap::new()),
            Kind::ZSet => Data::ZSet(BTreeMap::new()),
            Kind::Stream => Data::Stream(Box::default()),
            Kind::Str | Kind::Json | Kind::State => Data::Nothing,
        }
    }

    /// Adds a fact about content and returns the kind of value it is about. With `fresh`, the key has no rows.
    pub(super) fn absorb(&mut self, fact: &Fact, fresh: bool) -> Kind {
        match fact {
            Fact::Str(bytes) => self.whole(bytes, Kind::Str),
            Fact::Json(bytes) => self.whole(bytes, Kind::Json),
            Fact::State(bytes) => self.whole(bytes, Kind::State),
            Fact::Stream(fact) => {
                if !matches!(self, Data::Stream(_)) {
                    *self = Data::empty(Kind::Stream);
                }
                if let Data::Stream(rows) = self {
                    rows.absorb(fact, fresh);
                }
                Kind::Stream
            }
            fact => self.element(fact, fresh),
        }
    }

    fn whole(&mut self, bytes: &Bytes, kind: Kind) -> Kind {
        *self = Data::Whole(bytes.clone());
        kind
    }

    fn element(&mut self, fact: &Fact, fresh: bool) -> Kind {
        let kind = match fact {
            Fact::HashField { .. } | Fact::HashFieldDeleted(_) => Kind::Hash,
            Fact::ListAt { .. } | Fact::ListDeleted(_) => Kind::List,
            Fact::SetMember(_) | Fact::SetMemberDeleted(_) => Kind::Set,
            _ => Kind::ZSet,
        };
        if matches!(self, Data::Nothing | Data::Whole(_)) {
            *self = Data::empty(kind);
        }
        match (self, fact) {
            (Data::Hash(fields), Fact::HashField { field, value, expires_at }) => {
                fields.insert(field.clone(), Some((value.clone(), *expires_at)));
            }
            (Data::Hash(fields), Fact::HashFieldDeleted(field)) => end(fields, field, fresh),
            (Data::List(items), Fact::ListAt { pos, value }) => {
                items.insert(*pos, Some(value.clone()));
            }
            (Data::List(items), Fact::ListDeleted(pos)) => end(items, pos, fresh),
            (Data::Set(members), Fact::SetMember(member)) => {
                members.insert(member.clone(), Some(()));
            }
            (Data::Set(members), Fact::SetMemberDeleted(member)) => end(members, member, fresh),
            (Data::ZSet(members), Fact::ZMember { member, score }) => {
                members.insert(member.clone(), Some(*score));
            }
            (Data::ZSet(members), Fact::ZMemberDeleted(member)) => end(members, member, fresh),
            _ => debug_assert!(false, "a key changed its kind without a fact that says so"),
        }
        kind
    }
}

/// Deletes an element: from the pending ones, and from the rows unless there are none.
pub(super) fn end<K: Ord + Clone, V>(elements: &mut BTreeMap<K, Option<V>>, element: &K, fresh: bool) {
    if fresh {
        elements.remove(element);
    } else {
        elements.insert(element.clone(), None);
    }
}

/// The value of the `type` column.
pub(in crate::sql) const fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Str => "string",
        Kind::Hash => "hash",
        Kind::List => "list",
        Kind::Set => "set",
        Kind::ZSet => "zset",
        Kind::Stream => "stream",
        Kind::Json => "json",
        Kind::State => "state",
    }
}

fn no_key(id: u32, name: &Bytes) -> Error {
    Error::new(
        Code::Corrupt,
        format!("the archive has no key '{}' with id {id} to change", name.escape_ascii()),
    )
}
