//! How much the answers of one request may hold together: what is written at once is also kept at once. Pure.

use keystead_commands::Reply;
use keystead_commands::errors::Fail;
use keystead_core::{Code, Error};

/// What an answer or a part of one takes beside its bytes.
const PART_BYTES: usize = 16;

/// The room that is left for answers.
pub(crate) struct Room {
    bytes_max: usize,
    bytes_left: usize,
}

impl Room {
    pub(crate) fn new(bytes_max: usize) -> Room {
        Room { bytes_max, bytes_left: bytes_max }
    }

    /// Runs a command if there is room for its answer, however long that turns out to be.
    pub(crate) fn run(&mut self, run: impl FnOnce() -> Reply) -> Reply {
        if self.bytes_left == 0 {
            return Reply::Error(Fail::text(format!("ERR {}", self.exceeded("The command did not run"))));
        }
        let reply = run();
        self.take(&reply);
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
        Fail::Broken(Error::new(Code::TooLarge, self.exceeded("Nothing of it was changed")))
    }

    fn exceeded(&self, so: &str) -> String {
        format!("max response size exceeded. Limit: {} bytes. {so}", self.bytes_max)
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
        let mut room = Room::new(100);
        assert_eq!(room.run(|| Reply::Ok), Reply::Ok);
        let long = Reply::Array(vec![Reply::bulk(&[b'x'; 500])]);
        assert_eq!(room.run(|| long.clone()), long, "nobody knows beforehand how long it is");
        let refused = room.run(|| panic!("there is no room"));
        assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
    }

    #[test]
    fn what_does_not_fit_leaves_no_room() {
        let mut room = Room::new(40);
        assert!(room.take(&Reply::bulk(b"four")) && room.take(&Reply::bulk(b"four")), "to the last byte");
        assert!(!room.take(&Reply::Nil));
        let mut room = Room::new(40);
        assert!(!room.take(&Reply::bulk(&[b'x'; 500])) && !room.take(&Reply::Nil));
    }

    #[test]
    fn every_part_weighs() {
        let text = || Reply::bulk(b"four");
        assert_eq!(weight(&text()), 20);
        assert_eq!(weight(&Reply::Array(vec![text(), Reply::Nil])), 52);
        assert_eq!(weight(&Reply::Map(vec![(text(), Reply::Pairs(vec![(text(), Reply::Int(1))]))])), 88);
    }
}
