//! A policy as `--policy` names it: JSON, a file, or one of the settings file. Touches these files, for reading.

use std::path::Path;

use clap::ArgMatches;
use keystead_core::{Error, Result};
use keystead_limit::Policy;
use serde_json::Value;

use super::without_bom;
use crate::failure::{failure, io_words};
use crate::policies::file::TABLE;
use crate::settings::file::DEFAULT_PATH;

/// Fields of a policy that only the server uses. Decisions do not depend on them.
const SERVER_FIELDS: [&str; 2] = ["store", "headers"];

const FORMS: &str = "write JSON, @FILE, or the NAME of a policy in the settings file; see docs/limit-api.md";

/// The policy that a flag names, if it is there.
pub(super) fn of_flag(matches: &ArgMatches, flag: &str) -> Result<Option<Policy>> {
    let Some(text) = matches.get_one::<String>(flag) else { return Ok(None) };
    let policy = match text.strip_prefix('@') {
        Some(path) => of_file(Path::new(path)),
        None if text.trim_start().starts_with(['{', '[', '"']) => of_json(text),
        None => of_settings(matches, text),
    };
    policy.map(Some).map_err(|error| error.context(format_args!("--{flag}")))
}

fn invalid(error: &Error) -> Error {
    failure(error.message(), "see docs/limits.md")
}

fn of_json(text: &str) -> Result<Policy> {
    let fields = Policy::json_fields(text).map_err(|error| failure(error, FORMS))?;
    Policy::from_json_value(&Value::Object(fields)).map_err(|error| invalid(&error))
}

fn of_file(path: &Path) -> Result<Policy> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| {
        failure(format_args!("cannot read '{shown}': {}", io_words(&error)), "name a file that can be read")
    })?;
    let text = std::str::from_utf8(without_bom(&text))
        .map_err(|_| failure(format_args!("'{shown}' is not UTF-8"), "write it in UTF-8"))?;
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let policy = if is_toml { of_toml(text) } else { of_json_file(text) };
    policy.map_err(|error| error.context(shown))
}

fn of_json_file(text: &str) -> Result<Policy> {
    let mut fields = Policy::json_fields(text).map_err(|error| failure(error, FORMS))?;
    fields.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()));
    Policy::from_json_value(&Value::Object(fields)).map_err(|error| invalid(&error))
}

fn of_toml(text: &str) -> Result<Policy> {
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        failure(format_args!("{} at line {line} column {column}", error.message()), FORMS)
    })?;
    if table.get(TABLE).is_some_and(toml::Value::is_table) {
        return Err(failure("this is a settings file", "write --policy NAME --config FILE"));
    }
    table.retain(|name, _| !SERVER_FIELDS.contains(&name));
    Policy::from_toml_table(&table).map_err(|error| invalid(&error))
}

/// Line and column of an offset, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (1 + before.matches('\n').count(), 1 + before[line_start..].chars().count())
}

fn of_settings(matches: &ArgMatches, name: &str) -> Result<Policy> {
    let settings = super::super::load(matches)?.settings;
    let Some(file) = &settings.config else {
        let fix = format_args!("there is no {DEFAULT_PATH} here: name one with --config FILE, or {FORMS}");
        return Err(failure(format_args!("there is no policy '{name}'"), fix));
    };
    if let Some(found) = settings.policies.iter().find(|definition| definition.name == name) {
        return Ok(found.policy.clone());
    }
    let mut names: Vec<&str> = settings.policies.iter().map(|definition| definition.name.as_str()).collect();
    names.sort_unstable();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let what = format_args!("there is no policy '{name}' in '{}', which has {there}", file.display());
    Err(failure(what, FORMS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_json_is_reported_with_its_position() {
        for (text, words) in [
            ("{\"limit\":1,}", "trailing comma at line 1 column 12"),
            ("{\n\"limit\" 1}", "expected `:` at line 2 column 9"),
            ("{\"limit\":1", "EOF while parsing an object at line 1 column 10"),
            ("[1]", "a policy must be an object, not an array"),
            ("{\"limit\":1,\"periodMs\":5,\"limit\":9}", "'limit' is there twice"),
            ("{\"limit\":1} x", "trailing characters at line 1 column 13"),
            ("{\"limit\":1,\"periodMs\":5,\"store\":\"memory\"}", "store"),
        ] {
            let error = of_json(text).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
        assert!(of_json("{\"limit\":1,\"periodMs\":5}").is_ok());
    }

    #[test]
    fn a_file_may_have_fields_of_the_server() {
        assert!(of_json_file("{\"limit\":1,\"periodMs\":5,\"store\":\"memory\",\"headers\":[]}").is_ok());
        assert!(of_toml("limit = 1\nperiodMs = \"5s\"\nstore = \"memory\"\nfail = \"open\"").is_ok());
        for (text, words) in [
            ("limit = 1\nperiodMs = = 5", "at line 2 column 12"),
            ("[limit.login]\nlimit = 1", "this is a settings file: write --policy NAME --config FILE"),
            ("limit = 1\nperiod = 5", "gcra: "),
        ] {
            let error = of_toml(text).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
    }
}
