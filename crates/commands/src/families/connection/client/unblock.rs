//! `CLIENT UNBLOCK client-id [TIMEOUT | ERROR]`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::hub::Unblock;
use crate::reply::Reply;

const BAD_REASON: Fail = Fail::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");

pub(super) fn unblock(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 4 {
        return Err(errors::subcommand_or_arity(args));
    }
    let how = match args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"timeout") => Unblock::Timeout,
        Some(b"error") => Unblock::Error,
        _ => return Err(BAD_REASON),
    };
    let client = u64::try_from(args.int(2)?).ok().and_then(|id| conn.hub.clients.get(id));
    Ok(Reply::yes(client.is_some_and(|client| client.unblock(how))))
}

#[cfg(test)]
mod tests {
    use crate::hub::Unblock;
    use crate::testing::Desk;

    #[test]
    fn a_blocked_connection_is_unblocked() {
        let mut desk = Desk::new();
        let other = Desk::connect(&desk.hub).client;
        desk.expect(&[
            ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range"),
            ("CLIENT UNBLOCK 2 foo", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
            ("CLIENT UNBLOCK 99", ":0"),
            ("CLIENT UNBLOCK 2", ":0"),
        ]);
        other.shown().blocked = true;
        desk.expect(&[("CLIENT UNBLOCK 2", ":1")]);
        assert_eq!(other.take_unblock(), Some(Unblock::Timeout));
        desk.expect(&[("CLIENT UNBLOCK 2 ERROR", ":1")]);
        assert_eq!(other.take_unblock(), Some(Unblock::Error));
    }
}
