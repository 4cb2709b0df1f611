//! The result of a case: success, or a message with the expected value, the actual value, and the source location.

use std::fmt;
use std::panic::Location;

use keystead_core::{Code, Error};

/// A case that passed, or the reason why it did not.
pub type Checked<T = ()> = Result<T, Failure>;

/// Why a case failed, as a message for the author of the store.
pub struct Failure(Box<Inner>);

struct Inner {
    words: String,
    difference: Option<Difference>,
    seed: Option<u64>,
}

/// An expected value and the one that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What was compared.
    pub what: String,
    /// The value that the contract demands.
    pub expected: String,
    /// The value that the store returned.
    pub got: String,
}

impl Failure {
    /// A failure with this message and the location of the caller.
    #[track_caller]
    pub fn new(words: impl fmt::Display) -> Self {
        let place = Location::caller();
        let words = format!("{words} ({}:{})", place.file(), place.line());
        Failure(Box::new(Inner { words, difference: None, seed: None }))
    }

    /// A value that is not the expected one.
    #[track_caller]
    pub fn differs(what: impl fmt::Display, expected: impl Into<String>, got: impl Into<String>) -> Self {
        let difference = Difference { what: what.to_string(), expected: expected.into(), got: got.into() };
        let Difference { what, expected, got } = &difference;
        let mut failure = Failure::new(format_args!("{what}: expected {expected}, got {got}"));
        failure.0.difference = Some(difference);
        failure
    }

    /// Prepends context, for example the round or the key.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.words = format!("{what}: {}", self.0.words);
        self
    }

    /// Adds the seed that repeats it.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.0.seed = Some(seed);
        self
    }

    /// The expected value and the one that was found, if that is what failed.
    #[must_use]
    pub fn difference(&self) -> Option<&Difference> {
        self.0.difference.as_ref()
    }

    /// The seed that repeats it, if it was found at random.
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        self.0.seed
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.words)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.words)
    }
}

impl From<Error> for Failure {
    /// The debug form, because it names the code and the outcome.
    #[track_caller]
    fn from(error: Error) -> Self {
        Failure::new(format_args!("the store returned {error:?}"))
    }
}

impl From<tokio::task::JoinError> for Failure {
    #[track_caller]
    fn from(error: tokio::task::JoinError) -> Self {
        Failure::new(format_args!("a task of the case ended early: {error}"))
    }
}

impl From<std::io::Error> for Failure {
    #[track_caller]
    fn from(error: std::io::Error) -> Self {
        Failure::new(error)
    }
}

/// Passes if the two are equal.
///
/// # Errors
/// With the expected and the actual value.
#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "what cases compare are temporaries")]
pub fn expect_eq<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(
    what: impl fmt::Display,
    got: T,
    want: U,
) -> Checked {
    if got == want {
        return Ok(());
    }
    Err(Failure::differs(what, format!("{want:?}"), format!("{got:?}")))
}

/// Passes if the condition holds.
///
/// # Errors
/// With the message.
#[track_caller]
pub fn expect(what: impl fmt::Display, holds: bool) -> Checked {
    if holds { Ok(()) } else { Err(Failure::new(format_args!("not so: {what}"))) }
}

/// Passes if the result is an error with this code and the outcome `NotApplied`.
///
/// # Errors
/// With the actual result.
#[track_caller]
pub fn expect_rejected<T: fmt::Debug>(
    what: impl fmt::Display,
    result: Result<T, Error>,
    code: Code,
) -> Checked {
    match result {
        Err(error) if error.code() == code && error.outcome() == keystead_core::Outcome::NotApplied => Ok(()),
        other => Err(Failure::differs(what, format!("{code} (NotApplied)"), format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_expected_and_where() {
        let failure = expect_eq("count", 199, 200).unwrap_err().context("round 3").with_seed(7);
        let difference = failure.difference().unwrap();
        assert_eq!((&*difference.expected, &*difference.got, failure.seed()), ("200", "199", Some(7)));
        let failure = failure.to_string();
        assert!(failure.starts_with("round 3: count: expected 200, got 199 ("), "{failure}");
        assert!(failure.contains("failure.rs:"), "{failure}");
    }

    #[test]
    fn an_error_of_unknown_outcome_is_no_rejection() {
        let result: Result<(), Error> = Err(Error::unknown(Code::StoreUnavailable, "lost"));
        assert!(expect_rejected("apply", result, Code::StoreUnavailable).is_err());
        let result: Result<(), Error> = Err(Error::new(Code::StoreUnavailable, "closed"));
        assert!(expect_rejected("apply", result, Code::StoreUnavailable).is_ok());
    }
}
