//! keystead.toml: flat `name = value` pairs, each a row of the table, policies and sinks. Touches one file, for reading.
//!
//! Errors have the position `FILE:LINE`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use keystead_core::Result;
use toml::de::{DeTable, DeValue};

use super::table::{Form, SETTINGS, Setting};
use crate::bounds::SETTINGS_BYTES_MAX;
use crate::failure::{failure, io_words};
use crate::{policies, sinks, suggest};

/// The file that is read by default.
pub const DEFAULT_PATH: &str = "keystead.toml";

/// One pair of the file.
pub(crate) struct Entry {
    pub(crate) setting: &'static Setting,
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// The text of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(SETTINGS_BYTES_MAX + 1).read_to_string(&mut text));
    let fix = "name one that can be read with --config FILE";
    match read {
        Err(e) => Err(failure(format_args!("cannot read settings file '{shown}': {}", io_words(&e)), fix)),
        Ok(read) if read as u64 > SETTINGS_BYTES_MAX => Err(failure(
            format_args!("settings file '{shown}' has more than {SETTINGS_BYTES_MAX} bytes"),
            fix,
        )),
        Ok(_) => Ok(text),
    }
}

/// Whether two texts differ in a setting or a sink. An invalid text sets nothing.
pub(crate) fn differ(one: Option<&str>, other: Option<&str>) -> bool {
    let pairs = |text: Option<&str>| {
        let entries = text.and_then(|text| parse(text, DEFAULT_PATH).ok()).unwrap_or_default();
        let mut pairs: Vec<_> = entries.into_iter().map(|entry| (entry.setting.name, entry.text)).collect();
        pairs.sort_unstable();
        pairs
    };
    let sinks = |text: Option<&str>| {
        let sinks = text.and_then(|text| sinks::file::parse(text, DEFAULT_PATH).ok()).unwrap_or_default();
        sinks
            .into_iter()
            .map(|sink| sinks::file::Definition { location: String::new(), ..sink })
            .collect::<Vec<_>>()
    };
    pairs(one) != pairs(other) || sinks(one) != sinks(other)
}

/// The pairs of a text; `file` names it in errors.
pub(crate) fn parse(text: &str, file: &str) -> Result<Vec<Entry>> {
    let line_at =
        |offset: usize| 1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count();
    let table = DeTable::parse(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_at(span.start));
        let named =
            [(policies::file::TABLE, policies::file::EXAMPLE), (sinks::file::TABLE, sinks::file::EXAMPLE)];
        let hint = match named.into_iter().find(|(table, _)| is_in(table, text, line)) {
            Some((_, example)) => example,
            None => "write lines like http = \"127.0.0.1:8080\" or shards = 4",
        };
        failure(format_args!("{file}:{line}: not valid TOML: {}", e.message()), hint)
    })?;
    let mut entries = Vec::new();
    let named = [policies::file::TABLE, sinks::file::TABLE];
    for (key, value) in
        table.get_ref().iter().filter(|(key, _)| !named.iter().any(|name| *key.get_ref() == **name))
    {
        let line = line_at(key.span().start);
        let setting = known(key.get_ref()).map_err(|e| e.context(format_args!("{file}:{line}")))?;
        let text =
            value_text(setting, value.get_ref()).map_err(|e| e.context(format_args!("{file}:{line}")))?;
        entries.push(Entry { setting, text, line });
    }
    Ok(entries)
}

/// Whether a line of an invalid TOML text is in a table whose name begins with this.
fn is_in(table: &str, text: &str, line: usize) -> bool {
    let heads = text.lines().take(line).map(str::trim).filter(|line| line.starts_with('['));
    let head = heads.last().map(|head| head.trim_start_matches(['[', ' ']));
    let rest = head.and_then(|head| head.strip_prefix(table));
    rest.is_some_and(|rest| rest.starts_with(['.', ' ', ']']) || rest.is_empty())
}

fn known(key: &str) -> Result<&'static Setting> {
    let in_file = || SETTINGS.iter().filter(|s| s.form != Form::NotInFile);
    if let Some(setting) = in_file().find(|s| s.name == key) {
        return Ok(setting);
    }
    let names: Vec<_> = in_file().map(|s| s.name).collect();
    let fix = match suggest::nearest(key, names.iter().copied()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("the keys are {}", names.join(", ")),
    };
    Err(failure(format_args!("unknown key '{key}'"), fix))
}

fn value_text(setting: &Setting, value: &DeValue<'_>) -> Result<String> {
    let name = setting.name;
    match (setting.form, value) {
        (Form::Text, DeValue::String(text)) => Ok(text.to_string()),
        (Form::NumberOr(_), DeValue::Integer(n)) if n.radix() == 10 => Ok(n.as_str().to_owned()),
        (Form::NumberOr(word), DeValue::String(text)) if text == word => Ok(text.to_string()),
        (Form::NumberOr(word), _) => Err(failure(
            format_args!("{name} is of type {} and must be a whole number or \"{word}\"", value.type_str()),
            format_args!("write {name} = {}", setting.default.unwrap_or("1")),
        )),
        (Form::Text | Form::NotInFile, _) => Err(failure(
            format_args!("{name} is of type {} and must be a string", value.type_str()),
            format_args!("write {name} = \"{}\"", setting.default.unwrap_or("...")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        parse(text, "k.toml").err().unwrap().to_string()
    }

    #[test]
    fn pairs_have_their_lines() {
        assert_eq!(parse("shards = \"auto\"", "k.toml").unwrap()[0].text, "auto");
        let entries = parse("# comment\nhttp = \"off\"\n\nshards = 4\n", "k.toml").unwrap();
        let mut pairs: Vec<_> = entries.iter().map(|e| (e.setting.name, e.text.as_str(), e.line)).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [("http", "off", 2), ("shards", "4", 4)]);
    }

    #[test]
    fn an_unknown_key_gets_a_suggestion_and_its_line() {
        assert_eq!(
            error_of("\ndurabilty = \"fsync\""),
            "k.toml:2: unknown key 'durabilty': did you mean 'durability'?"
        );
        assert!(
            error_of("colour = 1")
                .starts_with("k.toml:1: unknown key 'colour': the keys are http, resp, resp-tls-cert,")
        );
        assert!(error_of("[server]\nhttp = \"off\"").starts_with("k.toml:1: unknown key 'server'"));
        assert!(error_of("config = \"x\"").contains("unknown key 'config'"));
    }

    #[test]
    fn a_wrong_type_says_what_to_write() {
        assert_eq!(
            error_of("shards = \"4\""),
            "k.toml:1: shards is of type string and must be a whole number or \"auto\": write shards = 1"
        );
        assert_eq!(
            error_of("http = 8080"),
            "k.toml:1: http is of type integer and must be a string: write http = \"127.0.0.1:8080\""
        );
    }

    #[test]
    fn an_error_in_a_policy_shows_an_example_of_one() {
        for text in [
            "[limit.a]\nlimit = = 1",
            "http = \"off\"\n[limit.a]\nlimit = 5\n\nfail = closed",
            "[limit.a",
            " [limit]\na = {",
        ] {
            assert!(error_of(text).ends_with("fail = \"closed\""), "{}", error_of(text));
        }
        for text in ["http = = 1\n[limit.a]", "[limits]\na = = 1", "limit = = 1"] {
            assert!(error_of(text).ends_with("or shards = 4"), "{}", error_of(text));
        }
    }

    #[test]
    fn invalid_toml_is_one_line_with_its_position() {
        for (text, place) in [
            ("http = \"off\"\nshards = = 4", "k.toml:2: "),
            ("http", "k.toml:1: "),
            ("log = \"x\"\nlog = \"y\"", "k.toml:2: "),
        ] {
            let error = error_of(text);
            assert!(error.starts_with(place), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
