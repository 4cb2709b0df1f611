//! What a command answers, before it becomes bytes. It touches nothing.
//!
//! RESP2, RESP3 and JSON are encoders of this one type; a command never writes to a wire. What holds bytes is made with
//! [`Reply::bulk`], [`Reply::shared`] or [`Reply::text`], which count them against the bound of the command (`meter.rs`).

use std::borrow::Cow;

use keystead_model::Bytes;

use crate::errors::{CommandResult, Fail};
use crate::meter;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `OK`.
    Ok,
    /// A status line.
    Status(Cow<'static, str>),
    /// An integer.
    Int(i64),
    /// A byte string.
    Bulk(Bytes),
    /// There is nothing (RESP2: `$-1`).
    Nil,
    /// There is no list (RESP2: `*-1`); in RESP3 the same as [`Nil`](Reply::Nil).
    NilArray,
    /// A list.
    Array(Vec<Reply>),
    /// Names and values; RESP2 has them one after the other in a list.
    Map(Vec<(Reply, Reply)>),
    /// Elements without an order; a list in RESP2.
    Set(Vec<Reply>),
    /// Things that belong together by two, in an order (members with scores): a list of lists of two; RESP2 has them one
    /// after the other in a list.
    Pairs(Vec<(Reply, Reply)>),
    /// Names and values, where RESP2 has a list of lists of two (what XREAD found in each stream).
    Dict(Vec<(Reply, Reply)>),
    /// A number; a byte string in RESP2.
    Double(f64),
    /// A number as this text; a byte string in RESP2.
    Number(String),
    /// An integer of any size as this text; a byte string in RESP2.
    BigNumber(String),
    /// Yes or no; 1 or 0 in RESP2.
    Bool(bool),
    /// A text for people; a byte string in RESP2.
    Verbatim(String),
    /// What was not asked for: messages, invalidations; a list in RESP2.
    Push(Vec<Reply>),
    /// Several answers to one request, one after the other (SUBSCRIBE a b); none for a client that wants none.
    Several(Vec<Reply>),
    /// A refusal.
    Error(Fail),
}

impl Reply {
    /// A byte string, copied; nothing beyond the command's bound.
    #[inline]
    pub fn bulk(bytes: &[u8]) -> Reply {
        if meter::copied(bytes.len()) { Reply::Bulk(Bytes::from(bytes)) } else { Reply::Nil }
    }

    /// A byte string that is stored or already made; nothing beyond the command's bound.
    #[inline]
    pub fn shared(bytes: Bytes) -> Reply {
        if meter::shared(bytes.len()) { Reply::Bulk(bytes) } else { Reply::Nil }
    }

    /// A byte string made of text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::shared(Bytes::from(text.into().into_bytes()))
    }

    /// A status line.
    #[must_use]
    pub const fn status(text: &'static str) -> Reply {
        Reply::Status(Cow::Borrowed(text))
    }

    /// A length or count; nothing beyond the command's bound, as lists of them may be long.
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

    /// A byte string, or nothing.
    #[inline]
    pub fn maybe(bytes: Option<&[u8]>) -> Reply {
        bytes.map_or(Reply::Nil, Reply::bulk)
    }

    /// A list of byte strings. It ends at the command's bound.
    pub fn bulks<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Reply {
        let within = |reply: &Reply| !matches!(reply, Reply::Nil) || !meter::is_exceeded();
        Reply::Array(items.into_iter().map(|item| Reply::bulk(item.as_ref())).take_while(within).collect())
    }

    /// Whether this refuses.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

impl From<CommandResult> for Reply {
    fn from(answer: CommandResult) -> Self {
        answer.unwrap_or_else(Reply::Error)
    }
}
