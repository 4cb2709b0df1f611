//! `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`
//!
//! What a client may not do here.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, Answer, Fail};

const SHUTDOWN: Fail = Fail::fixed(
    "ERR SHUTDOWN is not supported: end the keystead process with SIGTERM, and it closes its database properly",
);
const NOTHING_TO_ABORT: Fail = Fail::fixed("ERR No shutdown in progress.");

pub(super) fn shutdown(_: &mut Conn<'_>, args: Args<'_>) -> Answer {
    let (mut abort, mut others) = (false, false);
    for option in args.from(1) {
        match option.to_ascii_lowercase().as_slice() {
            b"nosave" | b"save" | b"now" | b"force" => others = true,
            b"abort" => abort = true,
            _ => return Err(errors::SYNTAX),
        }
    }
    match (abort, others) {
        (true, true) => Err(errors::SYNTAX),
        (true, false) => Err(NOTHING_TO_ABORT),
        _ => Err(SHUTDOWN),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn refusals_say_what_to_do() {
        let mut desk = Desk::new();
        assert!(desk.resp("SHUTDOWN NOSAVE").contains("SIGTERM"));
        desk.expect(&[
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
            ("SHUTDOWN foo", "-ERR syntax error"),
            ("SHUTDOWN ABORT NOW", "-ERR syntax error"),
        ]);
    }
}
