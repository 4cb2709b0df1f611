//! How named policies are written: `[limit.NAME]` tables in the settings file. Pure.
//!
//! ```toml
//! [limit.login]
//! kind = "gcra"
//! limit = 5
//! periodMs = "60s"
//! fail = "closed"
//! store = "engine"
//! ```

use std::fmt::Display;

use keystead_core::{Code, Error, Result};
use keystead_limit::{HeaderStyles, Policy};
use toml::de::{DeTable, DeValue};

use super::ENGINE;
use crate::bounds::{POLICIES_MAX, POLICY_NAME_BYTES_MAX};
use crate::failure::failure;
use crate::stores::StoreName;

/// The name of the table of all policies.
pub(crate) const TABLE: &str = "limit";

/// An example of a policy, for error messages.
pub(crate) const EXAMPLE: &str =
    "write [limit.login] and below it limit = 5, periodMs = \"60s\", fail = \"closed\"";

/// The definition of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The file and line where it begins.
    pub location: String,
    /// Its name in requests.
    pub name: String,
    /// The limit.
    pub policy: Policy,
    /// The store of its state: `engine`, `memory` or a URL.
    pub store: StoreName,
    /// The headers of its responses.
    pub headers: HeaderStyles,
    /// As written, without the store.
    pub shown: serde_json::Value,
}

impl Definition {
    /// Whether it is the same policy, wherever it is in the file.
    #[must_use]
    pub fn is_same(&self, other: &Definition) -> bool {
        // Without `..`, so that a new field must be considered.
        let Definition { location: _, name, policy, store, headers, shown } = self;
        (name, policy, store, headers, shown)
            == (&other.name, &other.policy, &other.store, &other.headers, &other.shown)
    }
}

/// The policies of a settings file.
///
/// # Errors
/// `config_invalid` with one line for the user, which begins with the line in `file`.
pub fn parse(text: &str, file: &str) -> Result<Vec<Definition>> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        failure(format_args!("{file}:{line}: not valid TOML: {}", error.message()), EXAMPLE)
    })?;
    let Some((key, value)) = table.get_ref().iter().find(|(key, _)| key.get_ref() == TABLE) else {
        return Ok(Vec::new());
    };
    let at = |offset: usize| format!("{file}:{}", line_at(text, offset));
    let DeValue::Table(tables) = value.get_ref() else {
        return Err(failure(format_args!("{}: limit must be tables", at(key.span().start)), EXAMPLE));
    };
    if tables.len() > POLICIES_MAX {
        let (location, count) = (at(key.span().start), tables.len());
        return Err(failure(
            format_args!("{location}: there are {count} policies"),
            format_args!("at most {POLICIES_MAX} are allowed"),
        ));
    }
    // The values again, without positions, in the form that policies are made from.
    let whole: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| failure(format_args!("{file}: {}", error.message()), EXAMPLE))?;
    let values = whole.get(TABLE).and_then(toml::Value::as_table);
    let mut definitions = Vec::with_capacity(tables.len());
    for (name, _) in tables {
        let location = at(name.span().start);
        let name = name.get_ref().to_string();
        let definition = definition(&name, values.and_then(|values| values.get(&name)));
        let definition =
            definition.map_err(|error| error.context(format_args!("{location}: limit.{name}")))?;
        definitions.push(Definition { location, ..definition });
    }
    Ok(definitions)
}

fn definition(name: &str, value: Option<&toml::Value>) -> Result<Definition> {
    check_name(name)?;
    let Some(mut table) = value.and_then(toml::Value::as_table).cloned() else {
        return Err(failure("it must be a table", EXAMPLE));
    };
    if table.contains_key("name") {
        return Err(failure("name is given twice", "the name is in the brackets"));
    }
    let store = match table.remove("store") {
        None => ENGINE.to_owned(),
        Some(toml::Value::String(store)) => store,
        Some(_) => {
            return Err(failure("store must be text", "write engine, memory, or a URL such as redis://HOST"));
        }
    };
    let headers = headers(table.remove("headers"))?;
    let shown = serde_json::to_value(&table)
        .map_err(|error| Error::new(Code::Internal, "a policy has no JSON form").with_source(error))?;
    // The author must decide what a failing store means.
    if !table.contains_key("fail") {
        return Err(failure(
            "fail is missing",
            "write fail = \"closed\" (no store, no admission) or \"open\" (no store, no limit)",
        ));
    }
    let policy = Policy::from_toml_table(&table)?.named(name)?;
    let location = String::new();
    Ok(Definition { location, name: name.to_owned(), policy, store: StoreName::new(store), headers, shown })
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // `.` and `..` have another meaning in a path.
    let is_name = name.len() <= POLICY_NAME_BYTES_MAX
        && name.bytes().all(is_plain)
        && !name.trim_matches('.').is_empty();
    match is_name {
        true => Ok(()),
        false => Err(failure(
            "this is not a valid name",
            format_args!("use 1 to {POLICY_NAME_BYTES_MAX} letters, digits, '-', '_' and '.'"),
        )),
    }
}

fn headers(value: Option<toml::Value>) -> Result<HeaderStyles> {
    let invalid = |what: &dyn Display| {
        failure(format_args!("headers {what}"), "write a list of \"plain\", \"structured\" and \"legacy\"")
    };
    let mut styles = HeaderStyles::NONE;
    let words = match value {
        None => return Ok(styles),
        Some(toml::Value::Array(words)) => words,
        Some(_) => return Err(invalid(&"must be a list")),
    };
    for word in &words {
        match word.as_str() {
            Some("plain") => styles.plain = true,
            Some("structured") => styles.structured = true,
            Some("legacy") => styles.legacy = true,
            other => return Err(invalid(&format_args!("has '{}'", other.unwrap_or(word.type_str())))),
        }
    }
    Ok(styles)
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        parse(text, "k.toml").err().unwrap().to_string()
    }

    #[test]
    fn a_file_has_policies_and_settings() {
        let text = "http = \"off\"\n[limit.login]\nlimit = 5\nperiodMs = \"60s\"\nfail = \"closed\"\n\
                    [limit.\"a.b-c_1\"]\nkind = \"quota\"\nlimit = 9\nresetCadence = \"calendar-day\"\nfail = \"open\"\n\
                    store = \"memory\"\nheaders = [\"plain\", \"legacy\"]\n";
        let mut all = parse(text, "k.toml").unwrap();
        all.sort_by(|a, b| b.name.cmp(&a.name));
        assert_eq!(
            (all[0].name.as_str(), all[0].store.shown(), all[0].policy.kind()),
            ("login", "engine", "gcra")
        );
        assert_eq!(all[0].policy.name(), Some("login"));
        assert_eq!((all[1].name.as_str(), all[1].store.shown()), ("a.b-c_1", "memory"));
        assert_eq!(all[1].headers, HeaderStyles { plain: true, structured: false, legacy: true });
        assert_eq!(all[1].shown["resetCadence"], "calendar-day");
        assert_eq!(parse("http = \"off\"", "k.toml").unwrap(), []);
    }

    #[test]
    fn errors_have_the_line_and_say_what_to_write() {
        for (text, words) in [
            ("limit = 5", "k.toml:1: limit must be tables"),
            ("\n[limit]\na = 5", "k.toml:3: limit.a: it must be a table"),
            (
                "[limit.a]\nlimit = 5\nperiodMs = 1",
                "k.toml:1: limit.a: fail is missing: write fail = \"closed\"",
            ),
            (
                "\n[limit.a]\nlimit = 0\nperiodMs = 1\nfail = \"open\"",
                "k.toml:2: limit.a: gcra: limit must be",
            ),
            ("[limit.a]\nlimit = 1\nperiod = 1\nfail = \"open\"", "k.toml:1: limit.a: gcra: "),
            ("[limit.a]\nkind = \"x\"\nfail = \"open\"", "kind must be one of gcra"),
            ("[limit.a]\nlimit = 1\nperiodMs = 1\nfail = \"maybe\"", "fail must be open or closed"),
            ("[limit.a]\nstore = 1", "store must be text"),
            ("[limit.a]\nheaders = \"all\"", "headers must be a list"),
            ("[limit.a]\nheaders = [\"new\"]", "headers has 'new'"),
            ("[limit.a]\nname = \"b\"", "name is given twice"),
            ("[limit.\"a/b\"]\nlimit = 1", "this is not a valid name"),
            ("[limit.\"..\"]\nlimit = 1", "this is not a valid name"),
            ("[limit.\"\"]\nlimit = 1", "this is not a valid name"),
            ("[limit.a", "k.toml:1: not valid TOML"),
        ] {
            let error = error_of(text);
            assert!(error.contains(words), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
