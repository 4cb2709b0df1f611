//! What the table of a target must look like: found out before the first row is written. Pure.

use keystead_core::{Code, Error, Result};

use crate::bounds::NAME_BYTES_MAX;
use crate::event::VALUE_COLUMN;
use crate::layout::{BATCH_COLUMN, DELETED_COLUMN, Deletes, Layout, VERSION_COLUMN, Values};
use crate::param::Kind;
use crate::statement::Dialect;

/// A column that the target has.
#[derive(Clone, Debug)]
pub struct FoundColumn {
    /// The name.
    pub name: String,
    /// The type, as the target writes it in a cast.
    pub type_name: String,
    /// What it takes.
    pub kind: Kind,
    /// A row without it is rejected.
    pub is_required: bool,
    /// The target computes it.
    pub is_generated: bool,
}

/// A table that the target has.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its columns.
    pub columns: Vec<FoundColumn>,
    /// The columns that are unique by themselves.
    pub unique: Vec<String>,
}

/// A column that a sink writes.
#[derive(Clone, Debug)]
pub struct Column {
    /// As in statements.
    pub quoted: String,
    /// The name.
    pub name: String,
    /// The type, as the target writes it in a cast.
    pub type_name: String,
    /// What it takes.
    pub kind: Kind,
}

/// A table that fits its layout.
#[derive(Clone, Debug)]
pub struct Table {
    /// As in statements.
    pub quoted: String,
    /// The column of the key.
    pub key: Column,
    /// The columns of the value.
    pub values: Vec<Column>,
    /// What deleting a key means.
    pub deletes: Deletes,
}

/// The name of a table as in statements: `NAME` or `SCHEMA.NAME`.
#[must_use]
pub fn quoted_name(name: &str, dialect: &Dialect) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let is_name = |part: &&str| (1..=NAME_BYTES_MAX).contains(&part.len()) && !part.contains('\0');
    (parts.len() <= 2 && parts.iter().all(is_name))
        .then(|| parts.iter().map(|part| dialect.quoted(part)).collect::<Vec<_>>().join("."))
}

/// Checks that a table fits. None: there is no such table.
///
/// # Errors
/// `config_invalid` with what to do.
pub fn check(layout: &Layout, found: Option<Found>, dialect: &Dialect) -> Result<Table> {
    let table = &layout.table;
    let invalid = |what: String| Error::new(Code::ConfigInvalid, what);
    let Some(quoted) = quoted_name(table, dialect) else {
        return Err(invalid(format!("table '{table}': write NAME or SCHEMA.NAME")));
    };
    let Some(found) = found else {
        let create = create(layout, &quoted, dialect);
        return Err(invalid(format!("the target has no table {table}: create it with {create}")));
    };
    let column = |name: &str, type_name: &str| {
        let column = found.columns.iter().find(|column| column.name == name).ok_or_else(|| {
            let names: Vec<&str> = found.columns.iter().map(|column| column.name.as_str()).collect();
            let add = format!("ALTER TABLE {quoted} ADD COLUMN {} {type_name}", dialect.quoted(name));
            invalid(format!(
                "the table {table} has no column {name}, only {}: correct the name, or run {add}",
                names.join(", ")
            ))
        })?;
        if column.is_generated {
            return Err(invalid(format!(
                "the column {name} of {table} is computed by the target: map another one"
            )));
        }
        let FoundColumn { name, type_name, kind, .. } = column.clone();
        Ok(Column { quoted: dialect.quoted(&name), name, type_name, kind })
    };
    let key = column(&layout.key, dialect.types.text)?;
    if !found.unique.contains(&key.name) {
        let unique = format!("ALTER TABLE {quoted} ADD UNIQUE ({})", key.quoted);
        return Err(invalid(format!(
            "the column {} of {table} is not unique by itself: run {unique}",
            key.name
        )));
    }
    let whole = matches!(layout.values, Values::Whole(_));
    let wanted = if whole { dialect.types.json } else { dialect.types.text };
    let mut values = layout.columns().map(|name| column(name, wanted)).collect::<Result<Vec<_>>>()?;
    let json = match layout.values {
        Values::Whole(_) => values.first_mut(),
        Values::Fields(_) => None,
        Values::Events => values.get_mut(VALUE_COLUMN),
    };
    if let Some(value) = json {
        match value.kind {
            // The text of the JSON, so a string keeps its quotes.
            Kind::Json | Kind::Text => value.kind = Kind::Json,
            _ => {
                return Err(invalid(format!(
                    "the column {} of {table} is of type {} and takes no JSON: make it {}, or map fields in columns",
                    value.name, value.type_name, dialect.types.json
                )));
            }
        }
    }
    let whole_number = format!("{} NOT NULL DEFAULT 0", dialect.types.integer);
    for name in [VERSION_COLUMN, BATCH_COLUMN] {
        let found = column(name, &whole_number)?;
        if found.kind != Kind::Integer {
            return Err(invalid(format!(
                "the column {name} of {table} must be of type {}",
                dialect.types.integer
            )));
        }
    }
    if layout.deletes == Deletes::Tombstone {
        column(DELETED_COLUMN, &format!("{} NOT NULL DEFAULT {}", dialect.types.bool, dialect.no))?;
    }
    let is_written = |name: &str| {
        let own = [VERSION_COLUMN, BATCH_COLUMN, DELETED_COLUMN, layout.key.as_str()];
        own.contains(&name) || layout.columns().any(|column| column == name)
    };
    if let Some(column) = found.columns.iter().find(|column| column.is_required && !is_written(&column.name))
    {
        return Err(invalid(format!(
            "the column {} of {table} is NOT NULL without a default, and no field is mapped to it: map one, or give it a default",
            column.name
        )));
    }
    Ok(Table { quoted, key, values, deletes: layout.deletes })
}

/// The statement that creates the table of a layout.
fn create(layout: &Layout, quoted: &str, dialect: &Dialect) -> String {
    let types = &dialect.types;
    let mut columns = vec![format!("{} {} PRIMARY KEY", dialect.quoted(&layout.key), types.key)];
    let value = if matches!(layout.values, Values::Whole(_)) { types.json } else { types.text };
    columns.extend(layout.columns().map(|column| format!("{} {value}", dialect.quoted(column))));
    for name in [VERSION_COLUMN, BATCH_COLUMN] {
        columns.push(format!("{name} {} NOT NULL DEFAULT 0", types.integer));
    }
    if layout.deletes == Deletes::Tombstone {
        columns.push(format!("{DELETED_COLUMN} {} NOT NULL DEFAULT {}", types.bool, dialect.no));
    }
    format!("CREATE TABLE {quoted} ({})", columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::DIALECT;

    fn found() -> Found {
        let column = |name: &str, kind| FoundColumn {
            name: name.to_owned(),
            type_name: format!("{kind:?}"),
            kind,
            is_required: false,
            is_generated: false,
        };
        let columns = vec![
            column("key", Kind::Text),
            column("value", Kind::Json),
            column("age", Kind::Integer),
            column(VERSION_COLUMN, Kind::Integer),
            column(BATCH_COLUMN, Kind::Integer),
        ];
        Found { columns, unique: vec!["key".to_owned()] }
    }

    fn error_of(layout: &Layout, found: Option<Found>) -> String {
        let error = check(layout, found, &DIALECT).unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid);
        error.message().to_owned()
    }

    #[test]
    fn a_table_that_fits_is_accepted() {
        let table = check(&Layout::whole("s", "", "my.t"), Some(found()), &DIALECT).unwrap();
        assert_eq!((table.quoted.as_str(), table.key.quoted.as_str()), ("\"my\".\"t\"", "\"key\""));
        assert_eq!(table.values.len(), 1);
    }

    #[test]
    fn what_does_not_fit_says_what_to_do() {
        let layout = Layout::whole("s", "", "t");
        let with = |change: fn(&mut Layout)| {
            let mut layout = layout.clone();
            change(&mut layout);
            layout
        };
        let without = |name: &str| {
            let mut found = found();
            found.columns.retain(|column| column.name != name);
            Some(found)
        };
        let create = error_of(&layout, None);
        assert!(
            create
                .contains("CREATE TABLE \"t\" (\"key\" text PRIMARY KEY, \"value\" jsonb, keystead_version"),
            "{create}"
        );
        for (layout, found, words) in [
            (with(|l| l.table = "a.b.c".to_owned()), Some(found()), "write NAME or SCHEMA.NAME"),
            (
                with(|l| l.values = Values::Whole("vlaue".to_owned())),
                Some(found()),
                "no column vlaue, only key, value",
            ),
            (
                with(|l| l.values = Values::Whole("age".to_owned())),
                Some(found()),
                "takes no JSON: make it jsonb",
            ),
            (with(|l| l.key = "age".to_owned()), Some(found()), "ADD UNIQUE (\"age\")"),
            (with(|l| l.deletes = Deletes::Tombstone), Some(found()), "keystead_deleted boolean NOT NULL"),
            (layout.clone(), without(BATCH_COLUMN), "\"keystead_batch\" bigint NOT NULL DEFAULT 0"),
        ] {
            let error = error_of(&layout, found);
            assert!(error.replace("\"keystead_deleted\"", "keystead_deleted").contains(words), "{error}");
        }
        let mut required = found();
        required.columns[2].is_required = true;
        assert!(error_of(&layout, Some(required)).contains("age of t is NOT NULL without a default"));
        let mut computed = found();
        computed.columns[1].is_generated = true;
        assert!(error_of(&layout, Some(computed)).contains("computed by the target"));
    }
}
