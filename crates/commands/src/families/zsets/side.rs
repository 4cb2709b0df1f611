//! The two ends of a sorted set, and removal from either. It touches the sorted set that it is given.

use keystead_model::Bytes;
use keystead_model::keyspace::ZSetMut;

#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Min,
    Max,
}

impl Side {
    /// `MIN` or `MAX`, ignoring case.
    pub(super) fn of(text: &[u8]) -> Option<Side> {
        if text.eq_ignore_ascii_case(b"MIN") {
            Some(Side::Min)
        } else if text.eq_ignore_ascii_case(b"MAX") {
            Some(Side::Max)
        } else {
            None
        }
    }

    /// Removes up to `count` members with their scores, in order.
    pub(super) fn pop(self, zset: &mut ZSetMut<'_>, count: usize) -> Vec<(Bytes, f64)> {
        let owned = |(member, score)| (Bytes::from(member), score);
        let taken: Vec<(Bytes, f64)> = match self {
            Side::Min => zset.iter().take(count).map(owned).collect(),
            Side::Max => zset.iter_rev_from(usize::MAX).take(count).map(owned).collect(),
        };
        for (member, _) in &taken {
            zset.remove(member);
        }
        taken
    }
}
