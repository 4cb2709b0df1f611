//! The fields of a policy's text. Each is taken by the kind that it belongs to; what remains is rejected.

use std::collections::BTreeMap;

use keystead_core::{Result, parse_duration_ms};

use super::check::invalid;
use crate::bounds::WHOLE_MAX;

/// A field as it was written, in JSON or TOML.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    Number {
        value: f64,
        text: String,
    },
    Text(String),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

impl Raw {
    fn describe(&self) -> String {
        match self {
            Raw::Number { text, .. } => text.clone(),
            Raw::Text(text) => format!("'{text}'"),
            Raw::Other(what) => (*what).to_string(),
        }
    }
}

/// The fields that have not been taken yet.
pub(crate) struct Fields<'a> {
    fields: &'a mut BTreeMap<String, Raw>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(fields: &'a mut BTreeMap<String, Raw>) -> Self {
        Fields { fields }
    }

    fn take(&mut self, name: &str) -> Result<Raw> {
        match self.fields.remove(name) {
            Some(raw) => Ok(raw),
            None => invalid(format!("{name} is missing")),
        }
    }

    /// Any number.
    pub(crate) fn number(&mut self, name: &str) -> Result<f64> {
        match self.take(name)? {
            Raw::Number { value, .. } => Ok(value),
            other => invalid(format!("{name} must be a number, not {}", other.describe())),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn whole(&mut self, name: &str) -> Result<u64> {
        whole(name, &self.take(name)?)
    }

    pub(crate) fn whole_if(&mut self, name: &str) -> Result<Option<u64>> {
        self.fields.remove(name).map(|raw| whole(name, &raw)).transpose()
    }

    /// A whole number, which may be negative.
    pub(crate) fn integer_if(&mut self, name: &str) -> Result<Option<i64>> {
        let Some(raw) = self.fields.remove(name) else { return Ok(None) };
        match raw {
            Raw::Number { value, .. } if value.fract() == 0.0 && value.abs() <= WHOLE_MAX as f64 => {
                Ok(Some(value as i64))
            }
            other => invalid(format!("{name} must be a whole number, not {}", other.describe())),
        }
    }

    /// Milliseconds as a whole number, or a duration as text.
    pub(crate) fn span_ms(&mut self, name: &str) -> Result<u64> {
        match self.take(name)? {
            Raw::Text(text) => parse_duration_ms(&text).or_else(|e| invalid(format!("{name}: {e}"))),
            raw => whole(name, &raw),
        }
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<String> {
        match self.take(name)? {
            Raw::Text(text) => Ok(text),
            other => invalid(format!("{name} must be text, not {}", other.describe())),
        }
    }

    pub(crate) fn text_if(&mut self, name: &str) -> Result<Option<String>> {
        if self.fields.contains_key(name) { self.text(name).map(Some) } else { Ok(None) }
    }

    /// Rejects any other field than these.
    pub(super) fn reject_others(&self, known: &[&str]) -> Result<()> {
        match self.fields.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => invalid(format!("there is no field '{name}' (there are {})", known.join(", "))),
        }
    }

    /// Rejects fields that were not taken.
    pub(crate) fn reject_rest(&self, what: &str) -> Result<()> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(name) => invalid(format!("{what} has no field '{name}'")),
        }
    }
}

fn whole(name: &str, raw: &Raw) -> Result<u64> {
    match raw {
        Raw::Number { value, .. } if value.fract() == 0.0 && (0.0..=WHOLE_MAX as f64).contains(value) => {
            Ok(*value as u64)
        }
        other => {
            invalid(format!("{name} must be a whole number from 1 to {WHOLE_MAX}, not {}", other.describe()))
        }
    }
}
