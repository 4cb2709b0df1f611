//! A limit in JSON or TOML: `{"kind": "gcra", "limit": 100, "periodMs": 60000}`.
//!
//! JSON and TOML have the same names; a duration may also be text (`"60s"`). A missing or unknown field, a wrong type or an invalid
//! number is `config_invalid` with the reason.

pub(crate) mod check;
mod fields;
mod names;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use keystead_core::{Code, Error, Result};

use crate::bounds::{NAME_BYTES_MAX, POLICY_BYTES_MAX};
use crate::fail_mode::FailMode;
use crate::strategy::{AnyStrategy, KINDS, Kind};

pub(crate) use fields::{Fields, Raw};

/// Fields that every kind may have.
const COMMON: [&str; 3] = ["kind", "name", "fail"];

/// A limit: its strategy, and optionally its name and whether it fails open or closed.
///
/// ```
/// use keystead_limit::Policy;
///
/// let policy = Policy::from_json(r#"{"kind": "gcra", "limit": 100, "periodMs": "60s", "burst": 20}"#)?;
/// assert_eq!((policy.kind(), policy.limit()), ("gcra", 20));
/// let error = Policy::from_json(r#"{"limit": 0, "periodMs": 60000}"#).unwrap_err();
/// assert_eq!(error.code().as_str(), "config_invalid");
/// assert_eq!(error.to_string(), "gcra: limit must be a whole number from 1 to 9007199254740991, not 0");
/// # Ok::<(), keystead_core::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Policy {
    kind: &'static str,
    name: Option<Arc<str>>,
    fail: Option<FailMode>,
    strategy: AnyStrategy,
}

impl Policy {
    pub(crate) fn new(strategy: AnyStrategy) -> Self {
        Policy { kind: strategy.word(), name: None, fail: None, strategy }
    }

    /// Reads a policy from JSON text.
    ///
    /// # Errors
    /// `config_invalid` with the reason.
    pub fn from_json(text: &str) -> Result<Self> {
        Policy::from_json_value(&serde_json::Value::Object(Policy::json_fields(text)?))
    }

    /// The fields of a policy in JSON text, for a caller that has further fields in the same object.
    ///
    /// # Errors
    /// `config_invalid` when it is no JSON object, and when a field occurs twice, because it is ambiguous.
    pub fn json_fields(text: &str) -> Result<serde_json::Map<String, serde_json::Value>> {
        check_len(text)?;
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|e| Error::new(Code::ConfigInvalid, "a policy must be JSON").with_source(e))?;
        if let Some(name) = names::twice(text) {
            return check::invalid(format!("'{name}' is there twice"));
        }
        match value {
            serde_json::Value::Object(fields) => Ok(fields),
            other => check::invalid(format!("a policy must be an object, not {}", json_kind(&other))),
        }
    }

    /// Reads a policy from a JSON value.
    ///
    /// # Errors
    /// `config_invalid` with the reason.
    pub fn from_json_value(value: &serde_json::Value) -> Result<Self> {
        let Some(object) = value.as_object() else {
            return check::invalid(format!("a policy must be an object, not {}", json_kind(value)));
        };
        Policy::from_fields(object.iter().map(|(name, value)| (name.clone(), json_raw(value))).collect())
    }

    /// Reads a policy from TOML text.
    ///
    /// # Errors
    /// `config_invalid` with the reason.
    #[cfg(feature = "toml")]
    pub fn from_toml(text: &str) -> Result<Self> {
        check_len(text)?;
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            Error::new(Code::ConfigInvalid, "a policy must be TOML").with_source(e)
        })?;
        Policy::from_toml_table(&table)
    }

    /// Reads a policy from a TOML table, one of several in a file for example.
    ///
    /// # Errors
    /// `config_invalid` with the reason.
    #[cfg(feature = "toml")]
    pub fn from_toml_table(table: &toml::Table) -> Result<Self> {
        Policy::from_fields(table.iter().map(|(name, value)| (name.clone(), toml_raw(value))).collect())
    }

    fn from_fields(mut fields: BTreeMap<String, Raw>) -> Result<Self> {
        let mut fields = Fields::new(&mut fields);
        let wanted = fields.text_if("kind")?;
        let wanted = wanted.as_deref().unwrap_or(KINDS[0].name);
        let Some(kind) = KINDS.iter().find(|kind| kind.name == wanted) else {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            return check::invalid(format!("kind must be one of {}, not '{wanted}'", names.join(", ")));
        };
        Policy::build(kind, &mut fields).map_err(|e| e.context(kind.name))
    }

    fn build(kind: &Kind, fields: &mut Fields<'_>) -> Result<Self> {
        let known: Vec<_> = kind.required.iter().chain(kind.optional).chain(&COMMON).copied().collect();
        // Unknown fields first: one may be the misspelt name of a missing field.
        fields.reject_others(&known)?;
        let name = fields.text_if("name")?;
        let fail = fields.text_if("fail")?.map(|word| word.parse::<FailMode>()).transpose()?;
        let strategy = (kind.build)(fields)?;
        fields.reject_rest("this policy")?;
        // A rolling quota is called a quota, though its strategy is a sliding window.
        let mut policy = Policy { kind: kind.name, name: None, fail, strategy };
        if let Some(name) = name {
            policy = policy.named(&name)?;
        }
        Ok(policy)
    }

    /// The same policy with a name, which is used in headers and in combined decisions.
    ///
    /// # Errors
    /// `config_invalid` when it is empty or too long.
    pub fn named(mut self, name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let len = name.len();
            return check::invalid(format!("name must have from 1 to {NAME_BYTES_MAX} bytes, not {len}"));
        }
        self.name = Some(name.into());
        Ok(self)
    }

    /// The same policy that fails open or closed.
    #[must_use]
    pub fn failing(mut self, fail: FailMode) -> Self {
        self.fail = Some(fail);
        self
    }

    /// The name of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it fails open or closed, if the policy says so.
    #[must_use]
    pub fn fail(&self) -> Option<FailMode> {
        self.fail
    }

    /// The limit that decisions report.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.strategy.limit()
    }

    /// In how many milliseconds the whole limit is replenished.
    #[must_use]
    pub fn window_ms(&self) -> f64 {
        self.strategy.window_ms()
    }

    /// Its strategy.
    #[must_use]
    pub fn strategy(&self) -> &AnyStrategy {
        &self.strategy
    }
}

impl From<AnyStrategy> for Policy {
    fn from(strategy: AnyStrategy) -> Self {
        Policy::new(strategy)
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("unnamed");
        write!(f, "{name}: {:?}", self.strategy)
    }
}

fn check_len(text: &str) -> Result<()> {
    match text.len() <= POLICY_BYTES_MAX {
        true => Ok(()),
        false => check::invalid(format!("a policy has at most {POLICY_BYTES_MAX} bytes, not {}", text.len())),
    }
}

fn json_kind(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "true or false",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "text",
        serde_json::Value::Array(_) => "an array",
        serde_json::Value::Object(_) => "an object",
    }
}

fn json_raw(value: &serde_json::Value) -> Raw {
    match value {
        serde_json::Value::String(text) => Raw::Text(text.clone()),
        // A number outside the range of doubles becomes infinity, which every field rejects.
        serde_json::Value::Number(number) => {
            Raw::Number { value: number.as_f64().unwrap_or(f64::INFINITY), text: number.to_string() }
        }
        other => Raw::Other(json_kind(other)),
    }
}

#[cfg(feature = "toml")]
fn toml_raw(value: &toml::Value) -> Raw {
    match value {
        toml::Value::String(text) => Raw::Text(text.clone()),
        toml::Value::Integer(number) => Raw::Number { value: *number as f64, text: number.to_string() },
        toml::Value::Float(number) => Raw::Number { value: *number, text: number.to_string() },
        toml::Value::Boolean(_) => Raw::Other("true or false"),
        toml::Value::Datetime(_) => Raw::Other("a date"),
        toml::Value::Array(_) => Raw::Other("an array"),
        toml::Value::Table(_) => Raw::Other("a table"),
    }
}

#[cfg(test)]
mod tests;
