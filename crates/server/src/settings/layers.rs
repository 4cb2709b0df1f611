//! The precedence of sources: a flag over a variable over the file over the default. Touches the settings file and token files, for
//! reading.
//!
//! Every value keeps its source, so that `keystead config` and every error can name it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use keystead_core::{Error, Result};

use super::file::{self, DEFAULT_PATH, Entry};
use super::table::{CONFIG, SETTINGS, Setting};
use super::value::InvalidValue;
use super::{ConfigText, Settings, environment, token_file};
use crate::failure::failure;
use crate::{permissions, policies, sinks};

/// What the user has set, before anything is checked.
#[derive(Default)]
pub struct Sources {
    /// Values of flags by the names of their settings.
    pub flags: Vec<(&'static str, OsString)>,
    /// The whole environment.
    pub variables: Vec<(OsString, OsString)>,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag on the command line.
    Flag,
    /// The variable of this name.
    Variable(String),
    /// A line of the settings file.
    File(PathBuf, usize),
    /// It was not set.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Variable(name) => f.write_str(name),
            Source::File(path, _) => write!(f, "{}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// The value of a setting, which may be unset.
#[derive(Clone)]
pub struct Value {
    /// Its setting.
    pub setting: &'static Setting,
    /// Its source.
    pub source: Source,
    text: Option<String>,
}

impl Value {
    pub(super) fn new(setting: &'static Setting, source: Source, text: String) -> Value {
        Value { setting, source, text: Some(text) }
    }

    fn default_of(setting: &'static Setting) -> Value {
        Value { setting, source: Source::Default, text: setting.default.map(str::to_owned) }
    }

    /// The value for people to read. A secret is not shown.
    #[must_use]
    pub fn shown(&self) -> &str {
        match &self.text {
            None => "(not set)",
            Some(_) if self.setting.secret => "(set)",
            Some(text) => text,
        }
    }

    /// The value as it was written, for an error.
    fn written(&self) -> String {
        let text = |sign: &str| match &self.text {
            // Without quotes an empty value would be invisible.
            Some(text) if text.is_empty() => format!("{sign}''"),
            Some(text) if !self.setting.secret && !may_name_a_user(text) => format!("{sign}{text}"),
            _ => String::new(),
        };
        match &self.source {
            Source::Flag | Source::Default => format!("{}{}", self.setting.flag(), text(" ")),
            Source::Variable(name) => format!("{name}{}", text("=")),
            Source::File(path, line) => {
                format!("{}:{line}: {}{}", path.display(), self.setting.name, text(" = "))
            }
        }
    }

    fn error(&self, invalid: &InvalidValue) -> Error {
        failure(format_args!("{} {}", self.written(), invalid.why), &invalid.fix)
    }
}

/// Whether it is a URL with a user and perhaps a password, which belong in no error.
fn may_name_a_user(text: &str) -> bool {
    text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'))
}

/// The effective settings.
pub struct Loaded {
    /// Checked and typed.
    pub settings: Settings,
    /// As written, with sources, in the order of the table.
    pub values: Vec<Value>,
    /// Problems that do not prevent the start, a line each.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// Reads all sources, applies their precedence and checks the values.
    ///
    /// # Errors
    /// `config_invalid` with one line for the user.
    pub fn from_sources(sources: Sources) -> Result<Loaded> {
        let flags = flags(sources.flags)?;
        let (variables, mut warnings) = environment::variables(sources.variables)?;
        let config = config(pick(&flags, CONFIG.name).or(pick(&variables, CONFIG.name)));
        let path = PathBuf::from(config.text.clone().unwrap_or_default());
        let text = config.text.as_ref().map(|path| file::read(Path::new(path))).transpose()?;
        let (shown, words) = (path.display().to_string(), text.as_deref().unwrap_or_default());
        let (entries, policies) = (file::parse(words, &shown)?, policies::file::parse(words, &shown)?);
        let sinks = sinks::file::parse(words, &shown)?;
        if text.is_some() {
            let holds_secret = entries.iter().any(|entry| entry.setting.secret)
                || policies.iter().any(|definition| definition.store.may_be_secret())
                || sinks.iter().any(|definition| definition.target.may_be_secret());
            warnings.extend(permissions::settings_file(&path, holds_secret)?);
        }
        let from_file = entries
            .into_iter()
            .map(|Entry { setting, text, line }| Value::new(setting, Source::File(path.clone(), line), text))
            .collect();
        let mut loaded = settle(&[vec![config], flags, variables, from_file])?;
        (loaded.settings.policies, loaded.settings.config_text) = (policies, text.map(ConfigText));
        loaded.settings.sinks = sinks;
        loaded.warnings = warnings;
        loaded.read_tokens()?;
        Ok(loaded)
    }

    /// Reads the tokens from files.
    fn read_tokens(&mut self) -> Result<()> {
        let settings = &mut self.settings;
        for (name, of, path, token) in [
            ("token-file", "token", &settings.token_file, &mut settings.token),
            (
                "read-only-token-file",
                "read-only-token",
                &settings.read_only_token_file,
                &mut settings.read_only_token,
            ),
        ] {
            let (Some(path), Some(value)) = (path, pick(&self.values, name)) else { continue };
            if let (Some(_), Some(other)) = (&token, pick(&self.values, of)) {
                let why = format!("conflicts with {}", other.written());
                return Err(value.error(&InvalidValue::new(why, "keep one of them")));
            }
            let (read, warning) = token_file::read(path).map_err(|invalid| value.error(&invalid))?;
            *token = Some(read);
            self.warnings.extend(warning);
        }
        Ok(())
    }
}

/// Uses the value of the first layer that has a setting, and checks it.
fn settle(layers: &[Vec<Value>]) -> Result<Loaded> {
    let mut settings = Settings::blank();
    let mut values = Vec::with_capacity(SETTINGS.len());
    for setting in SETTINGS {
        let given = layers.iter().find_map(|layer| pick(layer, setting.name));
        let value = given.cloned().unwrap_or_else(|| Value::default_of(setting));
        if let Some(text) = &value.text {
            (setting.set)(&mut settings, text).map_err(|invalid| value.error(&invalid))?;
        }
        values.push(value);
    }
    Ok(Loaded { settings, values, warnings: Vec::new() })
}

fn pick<'a>(layer: &'a [Value], name: &str) -> Option<&'a Value> {
    layer.iter().find(|value| value.setting.name == name)
}

/// The settings file: the one that was given, or the default one if it exists.
fn config(named: Option<&Value>) -> Value {
    match named {
        Some(value) => value.clone(),
        None if Path::new(DEFAULT_PATH).exists() => {
            Value::new(&CONFIG, Source::Default, DEFAULT_PATH.to_owned())
        }
        None => Value::default_of(&CONFIG),
    }
}

fn flags(given: Vec<(&'static str, OsString)>) -> Result<Vec<Value>> {
    let mut layer = Vec::with_capacity(given.len());
    for (name, text) in given {
        if let Some(setting) = SETTINGS.iter().find(|s| s.name == name) {
            layer.push(Value::new(setting, Source::Flag, utf8(text, &setting.flag())?));
        }
    }
    Ok(layer)
}

pub(super) fn utf8(text: OsString, whose: &str) -> Result<String> {
    text.into_string()
        .map_err(|_| failure(format_args!("the value of {whose} is not UTF-8"), "write it in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Shards;

    fn sources(flags: &[(&'static str, &str)], variables: &[(&str, &str)]) -> Sources {
        Sources {
            flags: flags.iter().map(|(name, text)| (*name, (*text).into())).collect(),
            variables: variables.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
        }
    }

    fn load(flags: &[(&'static str, &str)], variables: &[(&str, &str)]) -> Loaded {
        Loaded::from_sources(sources(flags, variables)).unwrap()
    }

    fn error_of(flags: &[(&'static str, &str)], variables: &[(&str, &str)]) -> String {
        Loaded::from_sources(sources(flags, variables)).err().unwrap().to_string()
    }

    fn value<'a>(loaded: &'a Loaded, name: &str) -> &'a Value {
        pick(&loaded.values, name).unwrap()
    }

    #[test]
    fn without_sources_the_defaults_are_used() {
        let loaded = load(&[], &[("PATH", "/bin"), ("HOME", "/")]);
        assert_eq!(loaded.values.len(), SETTINGS.len());
        for value in &loaded.values {
            assert_eq!(value.source, Source::Default);
            assert_eq!(value.shown(), value.setting.default.unwrap_or("(not set)"));
        }
    }

    #[test]
    fn a_flag_overrides_a_variable() {
        let loaded = load(&[("shards", "4")], &[("KEYSTEAD_SHARDS", "2"), ("KEYSTEAD_LOG_LEVEL", "info")]);
        assert_eq!(loaded.settings.shards, Some(Shards::Number(4)));
        assert_eq!(value(&loaded, "shards").source, Source::Flag);
        assert_eq!(value(&loaded, "log-level").source.to_string(), "KEYSTEAD_LOG_LEVEL");
    }

    #[test]
    fn an_error_quotes_the_value_as_it_was_written() {
        assert!(error_of(&[("shards", "3")], &[]).starts_with("--shards 3 is not a power of two: "));
        assert!(
            error_of(&[], &[("KEYSTEAD_SHARDS", "3")])
                .starts_with("KEYSTEAD_SHARDS=3 is not a power of two: ")
        );
    }

    #[test]
    fn a_secret_is_never_quoted() {
        let loaded = load(&[("token", "hunter2")], &[]);
        assert_eq!(value(&loaded, "token").shown(), "(set)");
        assert!(!format!("{:?}", loaded.settings).contains("hunter2"));
        assert!(error_of(&[("token", "hunter 2")], &[]).starts_with("--token contains a space"));
        assert!(
            error_of(&[], &[("KEYSTEAD_TOKEN", "hunter 2")]).starts_with("KEYSTEAD_TOKEN contains a space")
        );
        for setting in ["storage", "nodes"] {
            assert!(!error_of(&[(setting, "ftp://u:hunter2@h")], &[]).contains("hunter2"), "{setting}");
        }
    }

    #[test]
    fn an_unknown_variable_does_not_prevent_the_start() {
        let loaded = load(&[], &[("KEYSTEAD_DURABILTY", "fsync"), ("KEYSTEAD_PORT", "8080")]);
        assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
        assert!(loaded.warnings[0].ends_with("did you mean KEYSTEAD_DURABILITY?"));
    }

    #[test]
    fn a_token_is_given_in_one_way() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "from-a-file\n").unwrap();
        let file = file.to_str().unwrap();
        let loaded = load(&[("token-file", file)], &[]);
        assert!(loaded.settings.token.unwrap().matches(b"from-a-file"));
        let loaded = load(&[("token", "full"), ("read-only-token-file", file)], &[]);
        assert!(loaded.settings.read_only_token.unwrap().matches(b"from-a-file"));
        assert_eq!(
            error_of(&[("token-file", file)], &[("KEYSTEAD_TOKEN", "hunter2")]),
            format!("--token-file {file} conflicts with KEYSTEAD_TOKEN: keep one of them")
        );
        assert!(
            error_of(&[], &[("KEYSTEAD_TOKEN_FILE", "none")])
                .starts_with("KEYSTEAD_TOKEN_FILE=none cannot be read (no such file or directory): ")
        );
    }

    #[test]
    fn a_given_file_must_exist() {
        let error = error_of(&[("config", "/nowhere/k.toml")], &[]);
        assert_eq!(
            error,
            "cannot read settings file '/nowhere/k.toml': no such file or directory: name one that can be read with --config FILE"
        );
    }
}
