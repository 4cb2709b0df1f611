//! What a command answers, before it becomes bytes. It touches nothing.
//!
//! RESP2, RESP3 and JSON are encoders of this one type; a command never writes to a wire.

use std::borrow::Cow;

use keystead_model::Bytes;

use crate::errors::{Answer, Fail};

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
    /// A byte string.
    #[inline]
    pub fn bulk(bytes: &[u8]) -> Reply {
        Reply::Bulk(Bytes::from(bytes))
    }

    /// A byte string made of text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Bulk(Bytes::from(text.into().into_bytes()))
    }

    /// A status line.
    #[must_use]
    pub const fn status(text: &'static str) -> Reply {
        Reply::Status(Cow::Borrowed(text))
    }

    /// A length or count.
    #[inline]
    #[must_use]
    pub fn count(count: usize) -> Reply {
        Reply::Int(i64::try_from(count).unwrap_or(i64::MAX))
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

    /// A list of byte strings.
    pub fn bulks<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Reply {
        Reply::Array(items.into_iter().map(|item| Reply::bulk(item.as_ref())).collect())
    }

    /// Whether this refuses.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        answer.unwrap_or_else(Reply::Error)
    }
}
