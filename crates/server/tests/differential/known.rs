//! Intended differences: one row each, with its reason. docs/redis.md lists them for users. Touches nothing.

use crate::compare::Case;
use crate::wire::Value;

/// A difference that is meant.
struct Known {
    /// Where it shows.
    is: fn(&Case<'_>) -> bool,
    /// Why it is right.
    #[allow(dead_code, reason = "it is for the reader of this table")]
    reason: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        is: crosses_shards,
        reason: "keys of one command or transaction must be on one shard, as in a cluster",
    },
    Known {
        is: |case| is_field_expiry(case) && case.valkey.is_some_and(Value::is_error) && says(case, REDIS_8),
        reason: "the expiry of fields is Redis 8's, and so are the texts of its errors; Valkey has others",
    },
    Known {
        is: |case| is_field_expiry(case) && says(case, &["ERR invalid expire time in "]),
        reason: "Redis 8 rejects times after the year 4199 for fields; Valkey keeps them",
    },
    Known {
        is: |case| {
            is_field_expiry(case)
                && !has_fields(case)
                && says(case, &["ERR unknown argument: ", "ERR Mandatory argument"])
        },
        reason: "Valkey takes HGETEX and HSETEX without the word FIELDS for something else",
    },
    Known {
        is: |case| {
            named(case, "CLIENT REPLY") && says(case, &["ERR Command not allowed inside a transaction"])
        },
        reason: "a reply inside of EXEC cannot be suppressed, so Redis 7.2 and later reject it; Valkey uses another text",
    },
    Known {
        is: |case| {
            named(case, "CLIENT SETINFO")
                && says(case, &["ERR LIB-VER cannot contain", "ERR LIB-NAME cannot contain"])
        },
        reason: "Valkey reads a name only up to its first zero byte",
    },
    Known {
        is: |case| named(case, "WAITAOF") && case.subject.items().is_some_and(|items| items.len() == 2),
        reason: "Keystead has a disk where the judges have no append-only file",
    },
];

/// Whether a reply differs from those of both judges on purpose.
pub(crate) fn is_known(case: &Case<'_>) -> bool {
    KNOWN.iter().any(|known| (known.is)(case))
}

/// Whether Keystead returns an error because keys are on different shards.
pub(crate) fn crosses_shards(case: &Case<'_>) -> bool {
    case.sharded
        && says(case, &["CROSSSLOT ", "ERR BY option of SORT denied", "ERR GET option of SORT denied"])
}

/// Error texts of Redis 8 for the commands that let fields expire.
const REDIS_8: &[&str] = &[
    "ERR Mandatory argument FIELDS is missing or not at the right position",
    "ERR The `numfields` parameter must match the number of arguments",
    "ERR Number of fields must be a positive integer",
    "ERR Parameter `numFields` should be greater than 0",
    "ERR invalid expire time, must be >= 0",
    "ERR invalid expire time in ",
    "ERR missing expire time",
    "ERR invalid number of fields",
    "ERR value is not an integer or out of range",
    "ERR syntax error",
    "ERR wrong number of arguments",
    "ERR unknown argument: ",
    "WRONGTYPE ",
];

fn is_field_expiry(case: &Case<'_>) -> bool {
    const NAMES: &str = "HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HTTL HPTTL HEXPIRETIME HPEXPIRETIME HPERSIST HGETDEL HGETEX HSETEX";
    case.request
        .first()
        .is_some_and(|name| NAMES.split(' ').any(|known| name.eq_ignore_ascii_case(known.as_bytes())))
}

/// Whether the word FIELDS is at a valid position.
fn has_fields(case: &Case<'_>) -> bool {
    case.request.iter().skip(2).any(|argument| argument.eq_ignore_ascii_case(b"FIELDS"))
}

fn named(case: &Case<'_>, words: &str) -> bool {
    words.split(' ').enumerate().all(|(place, word)| {
        case.request.get(place).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    })
}

/// Whether Keystead returns an error that begins with one of these texts.
fn says(case: &Case<'_>, texts: &[&str]) -> bool {
    let text = case.subject.bytes().unwrap_or_default();
    case.subject.is_error() && texts.iter().any(|known| text.starts_with(known.as_bytes()))
}
