//! The result of a case: success, or a message with the expected value, the actual value, and the source location.

use std::fmt;
use std::panic::Location;

use keystead_core::{Code, Error};

/// A case that passed, or the reason why it did not.
pub type Checked<T = ()> = Result<T, Failure>;

/// Why a case failed, as a message for the author of the store.
pub struct Failure(String);

impl Failure {
    /// A failure with this message and the location of the caller.
    #[track_caller]
    pub fn new(words: impl fmt::Display) -> Self {
        let place = Location::caller();
        Failure(format!("{words} ({}:{})", place.file(), place.line()))
    }

    /// Prepends context, for example the round or the key.
    #[must_use]
    pub fn context(self, what: impl fmt::Display) -> Self {
        Failure(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
    Err(Failure::new(format_args!("{what}: expected {want:?}, got {got:?}")))
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
        other => Err(Failure::new(format_args!("{what}: expected {code} (NotApplied), got {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_expected_and_where() {
        let failure = expect_eq("count", 199, 200).unwrap_err().context("round 3").to_string();
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
