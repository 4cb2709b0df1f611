//! Why a run did not go on: an error that a script may catch, or an end that it may not. It touches nothing.

use std::rc::Rc;

use crate::value::Value;

/// What ends a run whatever the script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The budget of bytes is used up.
    Memory,
    /// The host said that the run is over: time, or a kill.
    Interrupted,
}

/// Where something happened in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the chunk, with its mark (`@user_script`).
    pub source: Rc<str>,
    /// The line; -1 where there is none.
    pub line: i64,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// A value was raised, here.
    Raised(Value, Option<Place>),
    Stopped(Stop),
    /// A coroutine yields so many values, which lie on its stack.
    Yield(usize),
    /// The text is no program: the words.
    Syntax(Vec<u8>),
}

/// Why a run did not go on.
#[derive(Debug)]
pub struct Error(pub(crate) Box<Kind>);

/// What may not go on.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Ends the run.
    #[cold]
    #[must_use]
    pub fn stop(stop: Stop) -> Error {
        Error(Box::new(Kind::Stopped(stop)))
    }

    /// Raises a value, for a script to catch.
    #[cold]
    #[must_use]
    pub fn raise(value: Value) -> Error {
        Error(Box::new(Kind::Raised(value, None)))
    }

    #[cold]
    pub(crate) fn raise_at(value: Value, place: Option<Place>) -> Error {
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

    /// What ended the run, if nothing may catch this.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        if let Kind::Stopped(stop) = *self.0 { Some(stop) } else { None }
    }

    /// The value that was raised, and where.
    #[must_use]
    pub fn raised(&self) -> Option<(Value, Option<&Place>)> {
        match &*self.0 {
            Kind::Raised(value, place) => Some((*value, place.as_ref())),
            _ => None,
        }
    }
}
