//! How much the answers of one request may hold together: what is written at once is also kept at once. Pure.

use keystead_commands::Reply;
use keystead_commands::errors::Fail;

use crate::limits::REST_ANSWER_BYTES_MAX;

/// What an answer or a part of one takes beside its bytes.
const PART_BYTES: usize = 16;

/// The room that is left for answers.
pub(super) struct Room {
    bytes_left: usize,
}

impl Room {
    pub(super) fn new() -> Room {
        Room { bytes_left: REST_ANSWER_BYTES_MAX }
    }

    /// Runs a command if there is room for its answer, however long that turns out to be.
    pub(super) fn run(&mut self, run: impl FnOnce() -> Reply) -> Reply {
        if self.bytes_left == 0 {
            return Reply::Error(Fail::text(format!(
                "ERR max response size exceeded. Limit: {REST_ANSWER_BYTES_MAX} bytes. The command did not run"
            )));
        }
        let reply = run();
        self.bytes_left = self.bytes_left.saturating_sub(weight(&reply));
        reply
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
    use super::*;

    #[test]
    fn a_command_runs_while_there_is_room_and_not_after() {
        let mut room = Room { bytes_left: 100 };
        assert_eq!(room.run(|| Reply::Ok), Reply::Ok);
        let long = Reply::Array(vec![Reply::bulk(&[b'x'; 500])]);
        assert_eq!(room.run(|| long.clone()), long, "nobody knows beforehand how long it is");
        let refused = room.run(|| panic!("there is no room"));
        assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
    }

    #[test]
    fn every_part_weighs() {
        let text = || Reply::bulk(b"four");
        assert_eq!(weight(&text()), 20);
        assert_eq!(weight(&Reply::Array(vec![text(), Reply::Nil])), 52);
        assert_eq!(weight(&Reply::Map(vec![(text(), Reply::Pairs(vec![(text(), Reply::Int(1))]))])), 88);
    }
}
