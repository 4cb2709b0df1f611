//! The two ends of a list, with removal and insertion. It touches the list that it is given.

use keystead_model::Bytes;
use keystead_model::keyspace::ListMut;

use crate::errors::{self, Fail};
use crate::reply::Reply;

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Left,
    Right,
}

impl End {
    /// `LEFT` or `RIGHT`, ignoring case.
    pub(super) fn of(text: &[u8]) -> Option<End> {
        if text.eq_ignore_ascii_case(b"LEFT") {
            Some(End::Left)
        } else if text.eq_ignore_ascii_case(b"RIGHT") {
            Some(End::Right)
        } else {
            None
        }
    }

    pub(super) fn parse(text: &[u8]) -> Result<End, Fail> {
        End::of(text).ok_or(errors::SYNTAX)
    }

    pub(super) fn push(self, list: &mut ListMut<'_>, value: &Bytes) {
        match self {
            End::Left => list.push_front(value),
            End::Right => list.push_back(value),
        }
    }

    pub(super) fn pop(self, list: &mut ListMut<'_>) -> Option<Bytes> {
        match self {
            End::Left => list.pop_front(),
            End::Right => list.pop_back(),
        }
    }

    /// Removes up to `count` elements, in order.
    pub(super) fn pop_many(self, list: &mut ListMut<'_>, count: usize) -> Reply {
        Reply::Array((0..count).map_while(|_| self.pop(list)).map(Reply::shared).collect())
    }
}
