//! What the scripts of steps and jobs return. Pure.

use std::ops::Range;

use keystead_core::{Code, Error, Millis, Result, ScriptReply};
use redis::Value;

use super::failure::Failure;

/// What steps of one script returned.
#[derive(Default)]
pub(super) struct Replies {
    now: Millis,
    numbers: Vec<u64>,
    /// For each step its numbers, or why the server rejected it.
    steps: Vec<Result<Range<usize>, String>>,
}

impl Replies {
    pub(super) fn of(reply: Value) -> Result<Replies, Failure> {
        Replies::parse(reply)
            .ok_or_else(|| Failure::Lost("the server sent something else than replies of steps".to_owned()))
    }

    fn parse(reply: Value) -> Option<Replies> {
        let Value::Array(values) = reply else { return None };
        let number = |value| match value {
            Value::Int(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let mut values = values.into_iter();
        let mut replies = Replies { now: Millis(number(values.next()?)?), ..Replies::default() };
        while let Some(value) = values.next() {
            if let Value::BulkString(text) = value {
                replies.steps.push(Err(String::from_utf8_lossy(&text).into_owned()));
                continue;
            }
            let start = replies.numbers.len();
            for _ in 0..number(value)? {
                replies.numbers.push(number(values.next()?)?);
            }
            replies.steps.push(Ok(start..replies.numbers.len()));
        }
        Some(replies)
    }

    /// The reply of each step.
    pub(super) fn all(&self) -> impl Iterator<Item = Result<ScriptReply<'_>>> {
        self.steps.iter().map(|step| match step {
            Ok(range) if range.is_empty() => {
                Err(Error::new(Code::WrongType, "the key holds a state of another kind"))
            }
            Ok(range) => Ok(ScriptReply { now: self.now, numbers: &self.numbers[range.clone()] }),
            Err(text) => Err(Failure::rejected(text).into()),
        })
    }
}
