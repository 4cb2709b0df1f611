//! `CLIENT REPLY <ON | OFF | SKIP>`
//! `CLIENT NO-EVICT <ON | OFF>`
//! `CLIENT NO-TOUCH <ON | OFF>`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::reply::Reply;
use crate::session::Replies;

pub(super) fn reply(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let nothing = Reply::Several(Vec::new());
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            conn.session.replies = Replies::On;
            return Ok(Reply::Ok);
        }
        b"off" => conn.session.replies = Replies::Off,
        b"skip" if conn.session.replies == Replies::Off => {}
        b"skip" => conn.session.replies = Replies::SkipNext,
        _ => return Err(errors::SYNTAX),
    }
    Ok(nothing)
}

pub(super) fn no_evict(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    conn.session.client.shown().no_evict = on_or_off(args)?;
    Ok(Reply::Ok)
}

pub(super) fn no_touch(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    conn.session.client.shown().no_touch = on_or_off(args)?;
    Ok(Reply::Ok)
}

fn on_or_off(args: Args<'_>) -> Result<bool, Fail> {
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(errors::SYNTAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn flags_are_stored() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("CLIENT NO-EVICT ON", "+OK"),
            ("CLIENT NO-TOUCH on", "+OK"),
            ("CLIENT NO-TOUCH x", "-ERR syntax error"),
        ]);
        let shown = desk.session.client.shown().clone();
        assert!(shown.no_evict && shown.no_touch);
        for (line, expected, replies) in [
            ("CLIENT REPLY SKIP", "", Replies::SkipNext),
            ("CLIENT REPLY OFF", "", Replies::Off),
            ("CLIENT REPLY SKIP", "", Replies::Off),
            ("CLIENT REPLY foo", "-ERR syntax error", Replies::Off),
            ("CLIENT REPLY ON", "+OK", Replies::On),
        ] {
            assert_eq!((desk.resp(line).as_str(), desk.session.replies), (expected, replies), "{line}");
        }
    }
}
