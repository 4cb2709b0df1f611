//! One error for several callers: of calls that went together, of steps that share a write.

use keystead_core::{Error, Outcome};

/// The same error, for another caller.
pub(crate) fn copy(error: &Error) -> Error {
    copy_as(error, error.outcome())
}

/// The same error with this outcome.
pub(crate) fn copy_as(error: &Error, outcome: Outcome) -> Error {
    match outcome {
        Outcome::NotApplied => Error::new(error.code(), error.to_string()),
        Outcome::Unknown => Error::unknown(error.code(), error.to_string()),
    }
}
