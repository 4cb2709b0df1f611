//! The parameters of a query, with errors that say what is wrong with one. Pure.

use std::borrow::Cow;

use http::request::Parts;
use keystead_core::parse_duration_ms;

use crate::error::ApiError;
use crate::upstash::path::TOKEN;
use crate::url::{self, BadEscape};

/// The parameters of a query.
pub struct Parameters(Vec<(&'static str, Vec<u8>)>);

impl Parameters {
    /// Those of a request, which takes these.
    ///
    /// # Errors
    /// An unknown one is an error: it could be a condition that is misspelt.
    pub fn of(head: &Parts, known: &[&'static str]) -> Result<Parameters, ApiError> {
        let mut all: Vec<(&'static str, Vec<u8>)> = Vec::new();
        for (name, value) in url::parameters(head.uri.query()) {
            if name == TOKEN {
                continue;
            }
            let Some(name) = known.iter().find(|known| **known == name) else {
                let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(ApiError::bad(format!(
                    "the parameter '{name}' is unknown: this request takes {list}"
                )));
            };
            if all.iter().any(|(there, _)| there == name) {
                return Err(ApiError::bad(format!("the parameter '{name}' is given twice")));
            }
            all.push((name, decoded(value.unwrap_or_default(), true)?.into_owned()));
        }
        Ok(Parameters(all))
    }

    /// The value of one, if it is given.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(there, _)| *there == name).map(|(_, value)| &value[..])
    }

    /// The same as text.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let text = self.bytes(name).map(std::str::from_utf8).transpose();
        text.map_err(|_| ApiError::bad(format!("the parameter '{name}' is not text")))
    }

    /// The same as a whole number.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let number = self.text(name)?.map(str::parse).transpose();
        number.map_err(|_| ApiError::bad(format!("the parameter '{name}' is not a whole number")))
    }

    /// The same as a duration.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn duration_ms(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let duration = self.text(name)?.map(parse_duration_ms).transpose();
        duration.map_err(|error| ApiError::bad(format!("the parameter '{name}': {}", error.message())))
    }

    /// Whether one is `true`, or given without a value.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn yes(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name)? {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(_) => Err(ApiError::bad(format!("the parameter '{name}' is true or false"))),
        }
    }
}

/// Decodes text of a path or a query.
///
/// # Errors
/// Where a `%` is not followed by two hexadecimal digits.
pub fn decoded(text: &str, is_query: bool) -> Result<Cow<'_, [u8]>, ApiError> {
    url::decoded(text, is_query)
        .map_err(|BadEscape| ApiError::bad("a '%' is not followed by two hexadecimal digits: write %25"))
}
