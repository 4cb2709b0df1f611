//! Bounds the size of the replies to one request: they are sent together, so they are in memory together. Pure.

use crate::Reply;
use crate::errors::Fail;
use crate::meter::{ReplyBound, too_large};

/// What a reply, or an element of one, takes beside its bytes.
const PART_BYTES: usize = 16;

/// The bytes that are left for replies.
pub struct ReplyBudget {
    bytes_max: usize,
    bytes_left: usize,
}

impl ReplyBudget {
    /// So many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> ReplyBudget {
        ReplyBudget { bytes_max, bytes_left: bytes_max }
    }

    /// How large the next reply may be.
    #[must_use]
    pub fn bound(&self) -> ReplyBound {
        ReplyBound { bytes_max: self.bytes_max, bytes_left: self.bytes_left }
    }

    /// Runs a command within the budget. One whose reply is too large leaves nothing for the next.
    pub fn run(&mut self, run: impl FnOnce(ReplyBound) -> Reply) -> Reply {
        if self.bytes_left == 0 {
            let max = self.bytes_max;
            let words =
                format!("ERR max response size exceeded. Limit: {max} bytes. The command did not run");
            return Reply::Error(Fail::text(words));
        }
        let reply = run(self.bound());
        let exceeds = matches!(&reply, Reply::Error(fail @ Fail::Broken(_)) if *fail == self.undone());
        if !self.take(&reply) || exceeds {
            self.bytes_left = 0;
        }
        reply
    }

    /// Whether a reply fits beside those before it.
    pub fn take(&mut self, reply: &Reply) -> bool {
        let left = self.bytes_left.checked_sub(weight(reply));
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// The error that rolls back everything when it does not.
    #[must_use]
    pub fn undone(&self) -> Fail {
        too_large(self.bytes_max)
    }
}

fn weight(reply: &Reply) -> usize {
    let of_pair = |(name, value): &(Reply, Reply)| weight(name) + weight(value);
    let bytes = match reply {
        Reply::Bulk(bytes) => bytes.len(),
        Reply::Verbatim(text) => text.len(),
        Reply::Array(parts) | Reply::Set(parts) => parts.iter().map(weight).sum(),
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Dict(pairs) => pairs.iter().map(of_pair).sum(),
        _ => 0,
    };
    bytes + PART_BYTES
}

#[cfg(test)]
mod tests {
    use keystead_core::{Code, Error};

    use super::*;

    #[test]
    fn a_command_runs_while_the_budget_lasts() {
        let mut budget = ReplyBudget::new(100);
        assert_eq!(budget.run(|_| Reply::Ok), Reply::Ok);
        let key_too_large = || Reply::Error(Fail::Broken(Error::new(Code::TooLarge, "a key is too large")));
        assert_eq!(budget.run(|_| key_too_large()), key_too_large());
        let too_large = || Reply::Error(too_large(100));
        let run = |bound: ReplyBound| {
            assert_eq!(bound, ReplyBound { bytes_max: 100, bytes_left: 100 - 2 * PART_BYTES });
            too_large()
        };
        assert_eq!(budget.run(run), too_large());
        let rejected = budget.run(|_| panic!("the budget is used up"));
        assert!(matches!(rejected, Reply::Error(_)), "{rejected:?}");
    }

    #[test]
    fn what_does_not_fit_uses_up_the_budget() {
        let mut budget = ReplyBudget::new(40);
        assert!(budget.take(&Reply::bulk(b"four")) && budget.take(&Reply::bulk(b"four")), "to the last byte");
        assert!(!budget.take(&Reply::Nil));
        let mut budget = ReplyBudget::new(40);
        assert!(!budget.take(&Reply::bulk(&[b'x'; 500])) && !budget.take(&Reply::Nil));
    }

    #[test]
    fn every_element_counts() {
        let text = || Reply::bulk(b"four");
        assert_eq!(weight(&text()), 20);
        assert_eq!(weight(&Reply::Array(vec![text(), Reply::Nil])), 52);
        assert_eq!(weight(&Reply::Map(vec![(text(), Reply::Pairs(vec![(text(), Reply::Int(1))]))])), 88);
    }
}
