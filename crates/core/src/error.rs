//! The workspace's only error type: a stable code, whether the step may have been applied, and a message that says what to do.
//!
//! An expected outcome (a version conflict, a denial, a missing key) is a value, not an error.

use std::borrow::Cow;
use std::fmt;

/// A result with the workspace's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of error. The text form is stable: it is part of responses, logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The store cannot be reached, or rejects work until it is repaired.
    StoreUnavailable,
    /// A setting or policy that is not valid.
    ConfigInvalid,
    /// A request that is not valid.
    BadRequest,
    /// The key holds another type of value.
    WrongType,
    /// A concurrent change of what this change was based on.
    Conflict,
    /// A bounded queue is full; try again later.
    QueueFull,
    /// The key is being moved to another node of the cluster; try again.
    TryAgain,
    /// The store does not support this.
    Unsupported,
    /// A key, value, batch or body exceeds its bound.
    TooLarge,
    /// Names and values have reached the memory bound, so a change that could add to them is rejected.
    OutOfMemory,
    /// Stored bytes are not what was written.
    Corrupt,
    /// A feed was asked for changes that have been discarded.
    Gone,
    /// A defect in Keystead itself.
    Internal,
}

impl Code {
    /// All codes.
    pub const ALL: [Code; 13] = [
        Code::StoreUnavailable,
        Code::ConfigInvalid,
        Code::BadRequest,
        Code::WrongType,
        Code::Conflict,
        Code::QueueFull,
        Code::TryAgain,
        Code::Unsupported,
        Code::TooLarge,
        Code::OutOfMemory,
        Code::Corrupt,
        Code::Gone,
        Code::Internal,
    ];

    /// The stable text form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::StoreUnavailable => "store_unavailable",
            Code::ConfigInvalid => "config_invalid",
            Code::BadRequest => "bad_request",
            Code::WrongType => "wrong_type",
            Code::Conflict => "conflict",
            Code::QueueFull => "queue_full",
            Code::TryAgain => "try_again",
            Code::Unsupported => "unsupported",
            Code::TooLarge => "too_large",
            Code::OutOfMemory => "out_of_memory",
            Code::Corrupt => "corrupt",
            Code::Gone => "gone",
            Code::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the step was applied. Only a step that was *not applied* may be retried without checking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing was changed.
    NotApplied,
    /// The change may or may not have happened, for example because the response was lost.
    Unknown,
}

/// The workspace's error: code, outcome, message, and the source error if there is one.
///
/// It is one pointer wide, so that a `Result` on the hot path stays small.
pub struct Error(Box<Inner>);

struct Inner {
    code: Code,
    outcome: Outcome,
    message: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error after which nothing has changed.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Inner { code, outcome: Outcome::NotApplied, message: message.into(), source: None }))
    }

    /// An error after which the change may or may not have happened.
    #[must_use]
    pub fn unknown(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let mut error = Error::new(code, message);
        error.0.outcome = Outcome::Unknown;
        error
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Prefixes the message, for example with the file or setting that it concerns.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message).into();
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Whether the step is known not to have been applied.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}): {self}", self.0.code, self.0.outcome)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| &**e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_distinct_snake_case_words() {
        let texts: HashSet<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        assert!(texts.iter().all(|t| t.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    }

    #[test]
    fn the_guide_lists_every_code() {
        let guide = include_str!("../../../docs/memory-store.md");
        let (_, table) = guide.split_once("\n| Code | Meaning |\n|---|---|\n").unwrap();
        let listed: HashSet<_> = table.lines().filter_map(|row| row.split('`').nth(1)).collect();
        assert_eq!(listed, Code::ALL.iter().map(|code| code.as_str()).collect());
    }

    #[test]
    fn an_error_is_not_applied_unless_it_says_otherwise() {
        assert_eq!(Error::new(Code::QueueFull, "full").outcome(), Outcome::NotApplied);
        assert_eq!(Error::unknown(Code::StoreUnavailable, "timed out").outcome(), Outcome::Unknown);
    }

    #[test]
    fn context_comes_before_the_message_and_the_source_last() {
        let error = Error::new(Code::Corrupt, "cannot read")
            .context("shard 3")
            .with_source(std::io::Error::other("bad sector"));
        assert_eq!(error.to_string(), "shard 3: cannot read: bad sector");
        assert_eq!(format!("{error:?}"), "corrupt (NotApplied): shard 3: cannot read: bad sector");
    }

    #[test]
    fn an_error_is_one_pointer() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}
