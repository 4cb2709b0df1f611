//! The part of a store's URL after its scheme: a path and parameters. Pure.

use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;

use keystead_core::{Code, Error, Result, parse_duration_ms};

use crate::bounds::DEADLINE_MS;

/// A URL without its scheme. A store takes the parameters that it knows, and then rejects the others.
pub struct Url<'a> {
    /// What is between the scheme and the parameters.
    pub path: &'a str,
    form: &'static str,
    parameters: RefCell<Vec<(&'a str, &'a str)>>,
}

impl<'a> Url<'a> {
    /// The URL whose text after the scheme and its `:` this is. `form` is repeated in errors.
    ///
    /// # Errors
    /// `config_invalid`.
    pub fn of(rest: &'a str, form: &'static str) -> Result<Url<'a>> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            // It may be a part of a password, so it is not repeated.
            let why =
                "what follows a '?' are parameters, and they contain no '@': in a password write %3F for '?'";
            return Err(invalid(format!("{why}, as in {form}")));
        }
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some(pair) = pair.split_once('=') else {
                return Err(invalid(format!("the parameter '{pair}' has no value: write {form}")));
            };
            parameters.push(pair);
        }
        Ok(Url { path, form, parameters: RefCell::new(parameters) })
    }

    /// The value of a parameter, if it is present.
    ///
    /// # Errors
    /// `config_invalid`.
    pub fn take<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>> {
        let mut parameters = self.parameters.borrow_mut();
        let Some(place) = parameters.iter().position(|(there, _)| *there == name) else { return Ok(None) };
        let (_, text) = parameters.remove(place);
        text.parse()
            .map(Some)
            .map_err(|error| invalid(format!("{name}={text}: {error}: write {}", self.form)))
    }

    /// The parameters that were not taken, as they are written, for a server that is to receive them. They may be secrets.
    #[must_use]
    pub fn others(&self) -> String {
        let mut parameters = self.parameters.borrow_mut();
        let others: Vec<String> =
            parameters.drain(..).map(|(name, value)| format!("{name}={value}")).collect();
        others.join("&")
    }

    /// Rejects parameters that were not taken.
    ///
    /// # Errors
    /// `config_invalid`.
    pub fn finish(&self) -> Result<()> {
        match self.parameters.borrow().first() {
            Some((name, _)) => {
                Err(invalid(format!("the parameter '{name}' is unknown: write {}", self.form)))
            }
            None => Ok(()),
        }
    }

    /// An error that says why it is not valid, and its form.
    pub fn bad(&self, why: &str) -> Error {
        invalid(format!("{why}: write {}", self.form))
    }
}

fn invalid(message: String) -> Error {
    Error::new(Code::ConfigInvalid, message)
}

/// The deadline of a call, in milliseconds.
#[allow(dead_code, reason = "a store in the process has none")]
pub(crate) fn deadline_ms(url: &Url<'_>) -> Result<u64> {
    url.take::<String>("deadline")?.map_or(Ok(DEADLINE_MS), |text| parse_duration_ms(&text))
}
