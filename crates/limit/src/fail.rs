//! What a broken store means for a request: an explicit choice, never a default.

use std::fmt;
use std::str::FromStr;

use keystead_core::{Code, Error};

use crate::decision::Decision;

/// What a check answers when the store is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// Let everybody through, and say so in the decision. For limits that are fair play.
    Open,
    /// Let nobody through: the check is an error. For limits that are a defence.
    Closed,
}

impl Fail {
    /// The word in policies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Fail::Open => "open",
            Fail::Closed => "closed",
        }
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Fail {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        match word {
            "open" => Ok(Fail::Open),
            "closed" => Ok(Fail::Closed),
            _ => Err(Error::new(Code::ConfigInvalid, format!("fail must be open or closed, not '{word}'"))),
        }
    }
}

/// Whether an error means that the store is broken. A request that cannot be understood is the caller's fault, and no
/// policy lets it through.
#[must_use]
pub fn is_broken(error: &Error) -> bool {
    !matches!(
        error.code(),
        Code::BadRequest | Code::ConfigInvalid | Code::TooLarge | Code::WrongType | Code::Unsupported
    )
}

/// What an open limit answers without its store: nothing was counted, so nothing is known to be used.
pub(crate) fn open_decision(limit: u64, now_ms: u64) -> Decision {
    Decision { failed_open: true, ..Decision::allow(limit, limit, now_ms) }
}
