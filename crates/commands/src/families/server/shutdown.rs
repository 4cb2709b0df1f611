//! `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`
//!
//! There is nothing to save: acknowledged writes are as durable as the server promises. NOSAVE and NOW do not
//! wait for running scripts.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::hub::ShutDown;
use crate::reply::Reply;
use crate::session::Replies;

const NOT_SUPPORTED: Fail =
    Fail::fixed("ERR SHUTDOWN is not supported: end the process that serves with SIGTERM");
const NOTHING_TO_ABORT: Fail = Fail::fixed("ERR No shutdown in progress.");

pub(super) fn shutdown(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let (mut abort, mut others, mut how) = (false, false, ShutDown::Graceful);
    for option in args.from(1) {
        match option.to_ascii_lowercase().as_slice() {
            b"save" | b"force" => others = true,
            b"nosave" | b"now" => (others, how) = (true, ShutDown::Now),
            b"abort" => abort = true,
            _ => return Err(errors::SYNTAX),
        }
    }
    match (abort, others) {
        (true, true) => return Err(errors::SYNTAX),
        (true, false) => return Err(NOTHING_TO_ABORT),
        _ => {}
    }
    if !conn.hub.host.shut_down(how) {
        return Err(NOT_SUPPORTED);
    }
    // Clients take a closed connection for success, and a reply for failure.
    conn.session.replies = Replies::Off;
    conn.session.closing = true;
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn shutdown_is_an_error_where_it_is_not_supported() {
        let mut desk = Desk::new();
        assert!(desk.resp("SHUTDOWN NOSAVE").contains("SIGTERM"));
        desk.expect(&[
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
            ("SHUTDOWN foo", "-ERR syntax error"),
            ("SHUTDOWN ABORT NOW", "-ERR syntax error"),
        ]);
        assert!(!desk.session.closing);
    }
}
