//! Tables of the settings file with a name of the user's: `[limit.NAME]`, `[sink.NAME]`. Pure.

use keystead_core::Result;
use toml::de::{DeTable, DeValue};

use crate::failure::failure;

/// What is the same for all tables of a kind.
pub(crate) struct TableKind {
    /// The first part of the name in brackets.
    pub(crate) table: &'static str,
    /// What one of them is called, in the plural.
    pub(crate) plural: &'static str,
    /// An example, for errors.
    pub(crate) example: &'static str,
    /// Most tables, and most bytes of a name.
    pub(crate) tables_max: usize,
    pub(crate) name_bytes_max: usize,
}

/// One table.
pub(crate) struct NamedTable {
    /// The file and line where it begins.
    pub(crate) location: String,
    pub(crate) name: String,
    pub(crate) table: toml::Table,
}

/// The tables of a kind in a text; `file` names it in errors.
pub(crate) fn parse(text: &str, file: &str, kind: &TableKind) -> Result<Vec<NamedTable>> {
    let TableKind { table: wanted, plural, example, tables_max, name_bytes_max } = kind;
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        failure(format_args!("{file}:{line}: not valid TOML: {}", error.message()), example)
    })?;
    let Some((key, value)) = table.get_ref().iter().find(|(key, _)| key.get_ref() == *wanted) else {
        return Ok(Vec::new());
    };
    let at = |offset: usize| format!("{file}:{}", line_at(text, offset));
    let DeValue::Table(tables) = value.get_ref() else {
        return Err(failure(format_args!("{}: {wanted} must be tables", at(key.span().start)), example));
    };
    if tables.len() > *tables_max {
        let (location, count) = (at(key.span().start), tables.len());
        return Err(failure(
            format_args!("{location}: there are {count} {plural}"),
            format_args!("at most {tables_max} are allowed"),
        ));
    }
    // The values again, without positions, in the form that definitions are made from.
    let whole: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| failure(format_args!("{file}: {}", error.message()), example))?;
    let values = whole.get(*wanted).and_then(toml::Value::as_table);
    tables
        .iter()
        .map(|(name, _)| {
            let location = at(name.span().start);
            let name = name.get_ref().to_string();
            let table = values.and_then(|values| values.get(&name)).and_then(toml::Value::as_table).cloned();
            let checked = check_name(&name, *name_bytes_max)
                .and_then(|()| table.ok_or_else(|| failure("it must be a table", example)));
            match checked {
                Ok(table) => Ok(NamedTable { location, name, table }),
                Err(error) => Err(error.context(format_args!("{location}: {wanted}.{name}"))),
            }
        })
        .collect()
}

fn check_name(name: &str, bytes_max: usize) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // `.` and `..` have another meaning in a path.
    let is_name = name.len() <= bytes_max && name.bytes().all(is_plain) && !name.trim_matches('.').is_empty();
    match is_name {
        true => Ok(()),
        false => Err(failure(
            "this is not a valid name",
            format_args!("use 1 to {bytes_max} letters, digits, '-', '_' and '.'"),
        )),
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
