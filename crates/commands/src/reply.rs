//! The reply of a command, before it is encoded. It touches nothing.
//!
//! RESP2, RESP3 and JSON are encoders of this one type; a command never writes to a wire. Replies that hold bytes are made with
//! [`Reply::bulk`], [`Reply::shared`] or [`Reply::text`], which count them against the bound of the command (`meter.rs`).

use std::borrow::Cow;

use keystead_model::Bytes;
use keystead_model::value::Str;

use crate::errors::{CommandResult, Fail};
use crate::meter;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `OK`.
    Ok,
    /// A simple string.
    Status(Cow<'static, str>),
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(Str),
    /// Null (RESP2: `$-1`).
    Nil,
    /// A null array (RESP2: `*-1`); in RESP3 the same as [`Nil`](Reply::Nil).
    NilArray,
    /// An array.
    Array(Vec<Reply>),
    /// A map; a flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// A set; an array in RESP2.
    Set(Vec<Reply>),
    /// Ordered pairs (members with scores): an array of arrays of two; a flat
    /// array in RESP2.
    Pairs(Vec<(Reply, Reply)>),
    /// A map that is an array of arrays of two in RESP2 (the streams of XREAD).
    Dict(Vec<(Reply, Reply)>),
    /// A double; a bulk string in RESP2.
    Double(f64),
    /// A double with this text; a bulk string in RESP2.
    Number(String),
    /// A big number with this text; a bulk string in RESP2.
    BigNumber(String),
    /// A boolean; 1 or 0 in RESP2.
    Bool(bool),
    /// A verbatim string; a bulk string in RESP2.
    Verbatim(String),
    /// A push: messages, invalidations; an array in RESP2.
    Push(Vec<Reply>),
    /// Several replies to one request (SUBSCRIBE a b). Empty: no reply.
    Several(Vec<Reply>),
    /// An error.
    Error(Fail),
}

impl Reply {
    /// A bulk string, copied; null beyond the command's bound.
    #[inline]
    pub fn bulk(bytes: &[u8]) -> Reply {
        if meter::copied(bytes.len()) { Reply::Bulk(bytes.into()) } else { Reply::Nil }
    }

    /// A bulk string that shares stored or already built bytes; null beyond the command's bound.
    #[inline]
    pub fn shared(bytes: Bytes) -> Reply {
        if meter::shared(bytes.len()) { Reply::Bulk(Str::sharing(bytes)) } else { Reply::Nil }
    }

    /// The string of a key: a long one is shared, a short one copied.
    #[inline]
    pub fn string(value: &Str) -> Reply {
        let counted = if value.is_shared() { meter::shared(value.len()) } else { meter::copied(value.len()) };
        if counted { Reply::Bulk(value.clone()) } else { Reply::Nil }
    }

    /// A bulk string of a text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::shared(Bytes::from(text.into().into_bytes()))
    }

    /// A simple string.
    #[must_use]
    pub const fn status(text: &'static str) -> Reply {
        Reply::Status(Cow::Borrowed(text))
    }

    /// A length or count; null beyond the command's bound, as arrays of them may be long.
    #[inline]
    #[must_use]
    pub fn count(count: usize) -> Reply {
        if meter::shared(0) { Reply::Int(i64::try_from(count).unwrap_or(i64::MAX)) } else { Reply::Nil }
    }

    /// 1 or 0.
    #[inline]
    #[must_use]
    pub fn yes(yes: bool) -> Reply {
        Reply::Int(i64::from(yes))
    }

    /// A bulk string, or null.
    #[inline]
    pub fn maybe(bytes: Option<&[u8]>) -> Reply {
        bytes.map_or(Reply::Nil, Reply::bulk)
    }

    /// An array of bulk strings. It ends at the command's bound.
    pub fn bulks<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Reply {
        let within = |reply: &Reply| !matches!(reply, Reply::Nil) || !meter::is_exceeded();
        Reply::Array(items.into_iter().map(|item| Reply::bulk(item.as_ref())).take_while(within).collect())
    }

    /// Whether this is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

impl From<CommandResult> for Reply {
    fn from(result: CommandResult) -> Self {
        result.unwrap_or_else(Reply::Error)
    }
}
