//! Who wins: a flag over a variable over the file over the default. Touches the settings file, for reading.
//!
//! Every value keeps its source, so that `keystead config` and every refusal can name it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use keystead_core::{Error, Result};

use super::file::{self, DEFAULT_PATH, Entry};
use super::table::{CONFIG, SETTINGS, Setting};
use super::value::Refusal;
use super::{ConfigText, Settings};
use crate::failure::failure;
use crate::{policies, suggest};

const VARIABLE_PREFIX: &str = "KEYSTEAD_";

/// What the user said, before anything is checked.
#[derive(Default)]
pub struct Sources {
    /// Values of flags by the names of their settings.
    pub flags: Vec<(&'static str, OsString)>,
    /// The whole environment.
    pub variables: Vec<(OsString, OsString)>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag on the command line.
    Flag,
    /// The variable of this name.
    Variable(String),
    /// A line of the settings file.
    File(PathBuf, usize),
    /// Nobody set it.
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

/// A value that was given, or the lack of one.
#[derive(Clone)]
pub struct Value {
    /// Whose value it is.
    pub setting: &'static Setting,
    /// Where it came from.
    pub source: Source,
    text: Option<String>,
}

impl Value {
    fn new(setting: &'static Setting, source: Source, text: String) -> Value {
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

    /// The value as its author wrote it, for a refusal.
    fn written(&self) -> String {
        let text = |sign: &str| match &self.text {
            // Without quotes an empty value would not be seen.
            Some(text) if text.is_empty() => format!("{sign}''"),
            Some(text) if !self.setting.secret => format!("{sign}{text}"),
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

    fn refused(&self, refusal: &Refusal) -> Error {
        failure(format_args!("{} {}", self.written(), refusal.why), &refusal.fix)
    }
}

/// Everything that is in force.
pub struct Loaded {
    /// Checked and typed.
    pub settings: Settings,
    /// As written, with sources, in the order of the table.
    pub values: Vec<Value>,
}

impl Loaded {
    /// Reads, layers and checks.
    ///
    /// # Errors
    /// `config_invalid` with the one line for the user.
    pub fn from_sources(sources: Sources) -> Result<Loaded> {
        let flags = flags(sources.flags)?;
        let variables = variables(sources.variables)?;
        let config = config(pick(&flags, CONFIG.name).or(pick(&variables, CONFIG.name)));
        let path = PathBuf::from(config.text.clone().unwrap_or_default());
        let text = config.text.as_ref().map(|path| file::read(Path::new(path))).transpose()?;
        let (shown, words) = (path.display().to_string(), text.as_deref().unwrap_or_default());
        let (entries, policies) = (file::parse(words, &shown)?, policies::file::parse(words, &shown)?);
        let from_file = entries
            .into_iter()
            .map(|Entry { setting, text, line }| Value::new(setting, Source::File(path.clone(), line), text))
            .collect();
        let mut loaded = settle(&[vec![config], flags, variables, from_file])?;
        (loaded.settings.policies, loaded.settings.config_text) = (policies, text.map(ConfigText));
        Ok(loaded)
    }
}

/// Takes each setting from the first layer that has it, and checks it.
fn settle(layers: &[Vec<Value>]) -> Result<Loaded> {
    let mut settings = Settings::blank();
    let mut values = Vec::with_capacity(SETTINGS.len());
    for setting in SETTINGS {
        let given = layers.iter().find_map(|layer| pick(layer, setting.name));
        let value = given.cloned().unwrap_or_else(|| Value::default_of(setting));
        if let Some(text) = &value.text {
            (setting.set)(&mut settings, text).map_err(|refusal| value.refused(&refusal))?;
        }
        values.push(value);
    }
    Ok(Loaded { settings, values })
}

fn pick<'a>(layer: &'a [Value], name: &str) -> Option<&'a Value> {
    layer.iter().find(|value| value.setting.name == name)
}

/// The settings file: the one that was named, or the default one if it is there.
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

fn variables(environment: Vec<(OsString, OsString)>) -> Result<Vec<Value>> {
    let mut layer = Vec::new();
    for (name, text) in environment {
        let Some(name) = name.to_str().filter(|n| n.starts_with(VARIABLE_PREFIX)) else {
            continue;
        };
        if is_service_link(name, &text) {
            continue;
        }
        let setting = SETTINGS.iter().find(|s| s.variable() == name).ok_or_else(|| unknown_variable(name))?;
        layer.push(Value::new(setting, Source::Variable(name.to_owned()), utf8(text, name)?));
    }
    Ok(layer)
}

/// Docker and Kubernetes put such variables into every container beside a service that is called `keystead`.
/// They are not ours, and refusing them would keep the server from starting there.
fn is_service_link(name: &str, text: &OsString) -> bool {
    let rest = &name[VARIABLE_PREFIX.len()..];
    let is_url = || text.to_str().is_some_and(|t| t.contains("://"));
    rest.starts_with("SERVICE_") || rest.starts_with("PORT_") || (rest == "PORT" && is_url())
}

fn unknown_variable(name: &str) -> Error {
    // Compared without the prefix, which all of them share and which would make everything look similar.
    let word = &name[VARIABLE_PREFIX.len()..];
    let meant = suggest::nearest(word, SETTINGS.iter().map(|s| s.name));
    let fix = match SETTINGS.iter().find(|s| Some(s.name) == meant) {
        Some(setting) => format!("did you mean '{}'?", setting.variable()),
        None => {
            let names: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
            format!("the variables are {}", names.join(", "))
        }
    };
    failure(format_args!("unknown variable '{name}'"), fix)
}

fn utf8(text: OsString, whose: &str) -> Result<String> {
    text.into_string()
        .map_err(|_| failure(format_args!("the value of {whose} is not UTF-8"), "write it in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(flags: &[(&'static str, &str)], variables: &[(&str, &str)]) -> Sources {
        Sources {
            flags: flags.iter().map(|(name, text)| (*name, (*text).into())).collect(),
            variables: variables.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
        }
    }

    fn load(flags: &[(&'static str, &str)], variables: &[(&str, &str)]) -> Loaded {
        Loaded::from_sources(sources(flags, variables)).unwrap()
    }

    fn refusal(flags: &[(&'static str, &str)], variables: &[(&str, &str)]) -> String {
        Loaded::from_sources(sources(flags, variables)).err().unwrap().to_string()
    }

    fn value<'a>(loaded: &'a Loaded, name: &str) -> &'a Value {
        pick(&loaded.values, name).unwrap()
    }

    #[test]
    fn without_a_word_from_the_user_the_defaults_are_in_force() {
        let loaded = load(&[], &[("PATH", "/bin"), ("HOME", "/")]);
        assert_eq!(loaded.values.len(), SETTINGS.len());
        for value in &loaded.values {
            assert_eq!(value.source, Source::Default);
            assert_eq!(value.shown(), value.setting.default.unwrap_or("(not set)"));
        }
    }

    #[test]
    fn a_flag_wins_over_a_variable() {
        let loaded = load(&[("shards", "4")], &[("KEYSTEAD_SHARDS", "2"), ("KEYSTEAD_LOG_LEVEL", "info")]);
        assert_eq!(loaded.settings.shards, Some(4));
        assert_eq!(value(&loaded, "shards").source, Source::Flag);
        assert_eq!(value(&loaded, "log-level").source.to_string(), "KEYSTEAD_LOG_LEVEL");
    }

    #[test]
    fn a_refusal_quotes_the_value_as_it_was_written() {
        assert!(refusal(&[("shards", "3")], &[]).starts_with("--shards 3 is not a power of two: "));
        assert!(
            refusal(&[], &[("KEYSTEAD_SHARDS", "3")])
                .starts_with("KEYSTEAD_SHARDS=3 is not a power of two: ")
        );
    }

    #[test]
    fn a_secret_is_never_quoted() {
        let loaded = load(&[("token", "hunter2")], &[]);
        assert_eq!(value(&loaded, "token").shown(), "(set)");
        assert!(!format!("{:?}", loaded.settings).contains("hunter2"));
        assert!(refusal(&[("token", "hunter 2")], &[]).starts_with("--token contains a space"));
        assert!(
            refusal(&[], &[("KEYSTEAD_TOKEN", "hunter 2")]).starts_with("KEYSTEAD_TOKEN contains a space")
        );
    }

    #[test]
    fn an_unknown_variable_is_refused_with_a_suggestion() {
        assert_eq!(
            refusal(&[], &[("KEYSTEAD_DURABILTY", "fsync")]),
            "unknown variable 'KEYSTEAD_DURABILTY': did you mean 'KEYSTEAD_DURABILITY'?"
        );
        assert!(
            refusal(&[], &[("KEYSTEAD_PORT", "8080")])
                .starts_with("unknown variable 'KEYSTEAD_PORT': the variables are")
        );
    }

    #[test]
    fn the_variables_of_a_container_platform_are_not_ours() {
        load(
            &[],
            &[
                ("KEYSTEAD_SERVICE_HOST", "10.0.0.1"),
                ("KEYSTEAD_SERVICE_PORT", "8080"),
                ("KEYSTEAD_PORT", "tcp://10.0.0.1:8080"),
                ("KEYSTEAD_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ],
        );
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = refusal(&[("config", "/nowhere/k.toml")], &[]);
        assert_eq!(
            error,
            "cannot read settings file '/nowhere/k.toml': no such file or directory: name one that can be read with --config FILE"
        );
    }
}
