//! How much the answers of one request may hold together: what is written at once is also kept at once. Pure.

use keystead_commands::Reply;
use keystead_commands::errors::Fail;
use keystead_commands::meter::{ReplyBound, too_large};

/// What an answer or a part of one takes beside its bytes.
const PART_BYTES: usize = 16;

/// The room that is left for answers.
pub(crate) struct ReplyBudget {
    bytes_max: usize,
    bytes_left: usize,
}

impl ReplyBudget {
    pub(crate) fn new(bytes_max: usize) -> ReplyBudget {
        ReplyBudget { bytes_max, bytes_left: bytes_max }
    }

    /// How large the next answer may be.
    pub(crate) fn bound(&self) -> ReplyBound {
        ReplyBound { bytes_max: self.bytes_max, bytes_left: self.bytes_left }
    }

    /// Runs a command within the room that is left. One whose answer does not fit in leaves none for the next.
    pub(crate) fn run(&mut self, run: impl FnOnce(ReplyBound) -> Reply) -> Reply {
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

    /// Whether an answer fits in beside those that came before.
    pub(crate) fn take(&mut self, reply: &Reply) -> bool {
        let left = self.bytes_left.checked_sub(weight(reply));
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// What undoes everything when it does not.
    pub(crate) fn undone(&self) -> Fail {
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
    fn a_command_runs_while_there_is_room_and_not_after() {
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
        let refused = budget.run(|_| panic!("there is no room"));
        assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
    }

    #[test]
    fn what_does_not_fit_leaves_no_room() {
        let mut budget = ReplyBudget::new(40);
        assert!(budget.take(&Reply::bulk(b"four")) && budget.take(&Reply::bulk(b"four")), "to the last byte");
        assert!(!budget.take(&Reply::Nil));
        let mut budget = ReplyBudget::new(40);
        assert!(!budget.take(&Reply::bulk(&[b'x'; 500])) && !budget.take(&Reply::Nil));
    }

    #[test]
    fn every_part_weighs() {
        let text = || Reply::bulk(b"four");
        assert_eq!(weight(&text()), 20);
        assert_eq!(weight(&Reply::Array(vec![text(), Reply::Nil])), 52);
        assert_eq!(weight(&Reply::Map(vec![(text(), Reply::Pairs(vec![(text(), Reply::Int(1))]))])), 88);
    }
}
