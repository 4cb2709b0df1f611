//! Redis's error texts, and the error type of commands. It touches nothing.
//!
//! Each text is defined once, byte for byte; its first word is the error code on the wire.

use std::borrow::Cow;

use keystead_core::{Code, Error};
use keystead_model::keyspace::Miss;

/// Why a command failed.
#[derive(Debug)]
pub enum Fail {
    /// Redis's error for the request. The command changed nothing.
    Text(Cow<'static, str>),
    /// Redis's error for a command that was stopped midway (a script that takes too long). The job is rolled back.
    Undone(Cow<'static, str>),
    /// The database is broken, full or too slow. The job is rolled back.
    Broken(Error),
}

/// The result of a command.
pub type CommandResult = Result<crate::Reply, Fail>;

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: Fail = Fail::Text(Cow::Borrowed($text));)*
    };
}

texts! {
    SYNTAX = "ERR syntax error";
    NOT_INT = "ERR value is not an integer or out of range";
    NOT_FLOAT = "ERR value is not a valid float";
    WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
    NO_KEY = "ERR no such key";
    OUT_OF_RANGE = "ERR index out of range";
    OVERFLOW = "ERR increment or decrement would overflow";
    NAN_OR_INFINITY = "ERR increment would produce NaN or Infinity";
    STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    OFFSET_OUT_OF_RANGE = "ERR offset is out of range";
    NOT_POSITIVE = "ERR value is out of range, must be positive";
    INVALID_CURSOR = "ERR invalid cursor";
    TIMEOUT_NOT_FLOAT = "ERR timeout is not a float or out of range";
    TIMEOUT_NOT_INT = "ERR timeout is not an integer or out of range";
    TIMEOUT_NEGATIVE = "ERR timeout is negative";
    NO_AUTH = "NOAUTH Authentication required.";
    WRONG_PASS = "WRONGPASS invalid username-password pair or user is disabled.";
    AUTH_WITHOUT_PASSWORD = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
    NO_PROTO = "NOPROTO unsupported protocol version";
    DB_INDEX = "ERR DB index is out of range";
    MULTI_NESTED = "ERR MULTI calls can not be nested";
    EXEC_WITHOUT_MULTI = "ERR EXEC without MULTI";
    DISCARD_WITHOUT_MULTI = "ERR DISCARD without MULTI";
    WATCH_INSIDE_MULTI = "ERR WATCH inside MULTI is not allowed";
    EXEC_ABORT = "EXECABORT Transaction discarded because of previous errors.";
    NOT_IN_MULTI = "ERR Command not allowed inside a transaction";
    CROSS_SLOT = "CROSSSLOT Keys in request don't hash to the same slot";
    SLOT_NOT_SERVED = "CLUSTERDOWN Hash slot not served";
    SLOTS_MOVING = "TRYAGAIN Slots are being moved to or from this node";
    SLOT_MOVING = "TRYAGAIN The slot is being moved to another node";
    UNBLOCKED = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
    WATCHES_COMMANDS = "ERR Replica can't interact with the keyspace";
    QUEUE_TOO_LONG = "ERR too many commands in one transaction";
    SAME_OBJECT = "ERR source and destination objects are the same";
    NOT_INT_32 = "ERR value is out of range, value must between -2147483648 and 2147483647";
    COUNT_OUT_OF_RANGE = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    VALUE_OUT_OF_RANGE = "ERR value is out of range";
    NO_VALUES_ONLY_HSCAN = "ERR NOVALUES option can only be used in HSCAN";
    NUMKEYS_NOT_POSITIVE = "ERR numkeys should be greater than 0";
    COUNT_NOT_POSITIVE = "ERR count should be greater than 0";
    NOT_SCORE_RANGE = "ERR min or max is not a float";
    NOT_LEX_RANGE = "ERR min or max not valid string range item";
    TIMEOUT_OUT_OF_RANGE = "ERR timeout is out of range";
    BUSY_SCRIPT = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    BUSY_FUNCTION = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    BUSY_COMMAND = "BUSY A command takes long, and nothing else is served meanwhile: try again later. You can only call SHUTDOWN NOSAVE.";
    LOADING = "LOADING Keystead is loading the dataset in memory";
    NO_SCRIPT = "NOSCRIPT No matching script. Please use EVAL.";
    REPEATED_KEYS = "ERR the same large keys are repeated: pass each key once";
    INVALID_STREAM_ID = "ERR Invalid stream ID specified as stream command argument";
    INVALID_START_ID = "ERR invalid start ID for the interval";
    INVALID_END_ID = "ERR invalid end ID for the interval";
    OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";
}

impl Fail {
    /// Whether the changes that the job made before it failed are rolled back.
    #[must_use]
    pub const fn undoes(&self) -> bool {
        matches!(self, Fail::Undone(_) | Fail::Broken(_))
    }

    /// The stable code, where it is more than a mistake in the request.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Fail::Broken(error) => Some(error.code()),
            // The error of a script continues with its position.
            _ if self.line().starts_with(&*OUT_OF_MEMORY.line()) => Some(Code::OutOfMemory),
            _ => None,
        }
    }

    /// A text that is used in one place only, starting with its code.
    #[must_use]
    pub const fn fixed(text: &'static str) -> Fail {
        Fail::Text(Cow::Borrowed(text))
    }

    /// A text that is formatted at run time, starting with its code.
    pub fn text(text: impl Into<String>) -> Fail {
        Fail::Text(Cow::Owned(text.into()))
    }

    /// The line on the wire, without prefix and line end. Line breaks become spaces, as in Redis.
    #[must_use]
    pub fn line(&self) -> Cow<'_, str> {
        match self {
            Fail::Text(text) | Fail::Undone(text) if !text.contains(['\r', '\n']) => Cow::Borrowed(text),
            Fail::Text(text) | Fail::Undone(text) => Cow::Owned(text.replace(['\r', '\n'], " ")),
            // Clients of a cluster send the request again.
            Fail::Broken(error) if error.code() == Code::TryAgain => Cow::Owned(format!("TRYAGAIN {error}")),
            Fail::Broken(error) => Cow::Owned(format!("ERR {error}").replace(['\r', '\n'], " ")),
        }
    }
}

/// Two errors with the same text are equal.
impl PartialEq for Fail {
    fn eq(&self, other: &Self) -> bool {
        self.line() == other.line()
    }
}

impl Clone for Fail {
    fn clone(&self) -> Self {
        match self {
            Fail::Text(text) => Fail::Text(text.clone()),
            Fail::Undone(text) => Fail::Undone(text.clone()),
            Fail::Broken(_) => Fail::text(self.line()),
        }
    }
}

impl From<Miss> for Fail {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::WrongType(_) => WRONG_TYPE,
            Miss::Failed(error) => error.into(),
        }
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        if error.code() == Code::OutOfMemory { OUT_OF_MEMORY } else { Fail::Broken(error) }
    }
}

/// `ERR wrong number of arguments for 'get' command`
#[must_use]
pub fn wrong_arity(name: &str) -> Fail {
    Fail::text(format!("ERR wrong number of arguments for '{name}' command"))
}

/// `NOPERM this user has no permissions to run the 'set' command or its subcommand`
#[must_use]
pub fn no_permission(name: &str) -> Fail {
    Fail::text(format!("NOPERM this user has no permissions to run the '{name}' command or its subcommand"))
}

/// `ERR invalid expire time in 'set' command`
#[must_use]
pub fn invalid_expire(name: &str) -> Fail {
    Fail::text(format!("ERR invalid expire time in '{name}' command"))
}

/// `ERR unknown command 'foo', with args beginning with: 'a' 'b' `
#[must_use]
pub fn unknown_command(args: crate::Args<'_>) -> Fail {
    let (name, mut beginning) = (shown(args.name(), SHOWN_MAX), String::new());
    for argument in args.from(1) {
        if beginning.len() >= SHOWN_MAX {
            break;
        }
        let left = SHOWN_MAX - beginning.len();
        beginning.push_str(&format!("'{}' ", shown(argument, left)));
    }
    Fail::text(format!("ERR unknown command '{name}', with args beginning with: {beginning}"))
}

/// `ERR unknown subcommand 'foo'. Try OBJECT HELP.`
#[must_use]
pub fn unknown_subcommand(args: crate::Args<'_>) -> Fail {
    let (container, name) = (shown(args.name(), SHOWN_MAX).to_uppercase(), shown(args.at(1), SHOWN_MAX));
    Fail::text(format!("ERR unknown subcommand '{name}'. Try {container} HELP."))
}

/// `ERR unknown subcommand or wrong number of arguments for 'foo'. Try DEBUG HELP.`
#[must_use]
pub fn subcommand_or_arity(args: crate::Args<'_>) -> Fail {
    let (container, name) = (shown(args.name(), SHOWN_MAX).to_uppercase(), shown(args.at(1), SHOWN_MAX));
    Fail::text(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
    ))
}

/// How many bytes of an argument an error shows.
const SHOWN_MAX: usize = 128;

/// An argument as C's printf shows it: up to the first zero byte.
fn shown(bytes: &[u8], max: usize) -> String {
    let bytes = &bytes[..bytes.len().min(max)];
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
