//! What a check returns when the store fails: an explicit choice without a default.

use std::fmt;
use std::str::FromStr;

use keystead_core::{Code, Error};

use crate::decision::Decision;

/// What a check returns when the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// Allow every request, and mark the decision. For limits that only share a resource fairly.
    Open,
    /// Allow no request: the check is an error. For limits that protect against abuse.
    Closed,
}

impl FailMode {
    /// Its name in policies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            FailMode::Open => "open",
            FailMode::Closed => "closed",
        }
    }
}

impl fmt::Display for FailMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FailMode {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        match word {
            "open" => Ok(FailMode::Open),
            "closed" => Ok(FailMode::Closed),
            _ => Err(Error::new(Code::ConfigInvalid, format!("fail must be open or closed, not '{word}'"))),
        }
    }
}

/// Whether an error means that the store has failed. An invalid request is the caller's error, and no policy allows it.
#[must_use]
pub fn is_broken(error: &Error) -> bool {
    !matches!(
        error.code(),
        Code::BadRequest | Code::ConfigInvalid | Code::TooLarge | Code::WrongType | Code::Unsupported
    )
}

/// The decision of a limit that fails open without its store: nothing was counted, so nothing is known to be used.
pub(crate) fn open_decision(limit: u64, now_ms: u64) -> Decision {
    Decision { failed_open: true, ..Decision::allow(limit, limit, now_ms) }
}
