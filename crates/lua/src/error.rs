//! Why a run stopped: an error that a script can catch, or an end that it cannot. It touches nothing.

use std::rc::Rc;

use crate::value::Value;

/// What ends a run, and no script can catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The memory budget is exceeded.
    Memory,
    /// The host ended the run: a timeout, or a kill.
    Interrupted,
}

/// Where something happened in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// The name of the chunk, with its mark (`@user_script`).
    pub source: Rc<str>,
    /// The line; -1 if there is none.
    pub line: i64,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// A value was raised, at this position.
    Raised(Value, Option<SourcePosition>),
    Stopped(Stop),
    /// A coroutine yields this many values, which are on its stack.
    Yield(usize),
    /// A syntax error, with its message.
    Syntax(Vec<u8>),
}

/// Why a run stopped.
#[derive(Debug)]
pub struct Error(pub(crate) Box<Kind>);

/// The result of what may stop a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Ends the run.
    #[cold]
    #[must_use]
    pub fn stop(stop: Stop) -> Error {
        Error(Box::new(Kind::Stopped(stop)))
    }

    /// Raises a value, which a script can catch.
    #[cold]
    #[must_use]
    pub fn raise(value: Value) -> Error {
        Error(Box::new(Kind::Raised(value, None)))
    }

    #[cold]
    pub(crate) fn raise_at(value: Value, place: Option<SourcePosition>) -> Error {
        Error(Box::new(Kind::Raised(value, place)))
    }

    #[cold]
    pub(crate) fn yields(count: usize) -> Error {
        Error(Box::new(Kind::Yield(count)))
    }

    #[cold]
    pub(crate) fn syntax(words: Vec<u8>) -> Error {
        Error(Box::new(Kind::Syntax(words)))
    }

    /// What ended the run, if no script can catch this.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        if let Kind::Stopped(stop) = *self.0 { Some(stop) } else { None }
    }

    /// The value that was raised, and where.
    #[must_use]
    pub fn raised(&self) -> Option<(Value, Option<&SourcePosition>)> {
        match &*self.0 {
            Kind::Raised(value, place) => Some((*value, place.as_ref())),
            _ => None,
        }
    }
}
