//! The same step as a script, for stores whose server runs scripts: one round trip, and no retry when others change the key.
//!
//! A feature that offers a script still does not know its store, and a store that runs scripts does not know the feature. What they
//! share is this contract; a test compares the decisions of both ways.

use std::fmt;

use crate::clock::Millis;

/// A step in Lua 5.1, as Redis runs it.
///
/// The source is the body of a function with three parameters: `state`, the JSON text of the state or `nil`; `now`, the time in
/// milliseconds; and `a`, the arguments as text. It returns the JSON text of the state to put, or `false` to keep the present
/// one; the TTL in milliseconds of a state that is put; and then the reply, whole numbers of at most 2^53. It returns nothing at all
/// if the state is of another type. It calls nothing of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The name of the step, in errors and in the server's logs.
    pub name: &'static str,
    /// Definitions that the source uses: local functions and constants. They are evaluated one time for all steps of a call.
    pub library: &'static str,
    /// The parts of the source, one after the other. A store caches what it makes of them by their addresses.
    pub source: &'static [&'static str],
    /// The arguments.
    pub args: Vec<ScriptArg>,
    /// The time that the step sees, if it is not the store's. Expiry is decided by the store's in any case.
    pub at: Option<Millis>,
}

/// An argument of a script. It is displayed as the text that the script gets, from which a number is read back exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScriptArg {
    /// A whole number.
    Whole(u64),
    /// A double.
    Double(f64),
    /// A word.
    Word(&'static str),
}

impl From<u64> for ScriptArg {
    fn from(number: u64) -> Self {
        ScriptArg::Whole(number)
    }
}

impl From<f64> for ScriptArg {
    fn from(number: f64) -> Self {
        ScriptArg::Double(number)
    }
}

impl From<&'static str> for ScriptArg {
    fn from(word: &'static str) -> Self {
        ScriptArg::Word(word)
    }
}

impl fmt::Display for ScriptArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptArg::Whole(number) => write!(f, "{number}"),
            // The shortest text that is read back as the same double.
            ScriptArg::Double(number) => write!(f, "{number:?}"),
            ScriptArg::Word(word) => f.write_str(word),
        }
    }
}

/// What a script returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptReply<'a> {
    /// The time of the store.
    pub now: Millis,
    /// The reply of the script.
    pub numbers: &'a [u64],
}
