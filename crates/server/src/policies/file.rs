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

use super::ENGINE;
use crate::bounds::{POLICIES_MAX, POLICY_NAME_BYTES_MAX};
use crate::failure::failure;
use crate::settings::named_tables::{self, NamedTable, TableKind};
use crate::stores::StoreName;
use keystead_core::{Code, Error, Result};
use keystead_limit::{HeaderStyles, Policy};

/// The name of the table of all policies.
pub(crate) const TABLE: &str = "limit";

/// An example of a policy, for error messages.
pub(crate) const EXAMPLE: &str =
    "write [limit.login] and below it limit = 5, periodMs = \"60s\", fail = \"closed\"";

const TABLES: TableKind = TableKind {
    table: TABLE,
    plural: "policies",
    example: EXAMPLE,
    tables_max: POLICIES_MAX,
    name_bytes_max: POLICY_NAME_BYTES_MAX,
};

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
    let tables = named_tables::parse(text, file, &TABLES)?.into_iter();
    let definitions = tables.map(|NamedTable { location, name, table }| match definition(&name, table) {
        Ok(definition) => Ok(Definition { location, ..definition }),
        Err(error) => Err(error.context(format_args!("{location}: limit.{name}"))),
    });
    definitions.collect()
}

fn definition(name: &str, mut table: toml::Table) -> Result<Definition> {
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
