//! `CLIENT PAUSE timeout [WRITE | ALL]`
//! `CLIENT UNPAUSE`

use crate::args::Args;
use crate::blocking;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::reply::Reply;

const BAD_MODE: Fail = Fail::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL");

pub(super) fn pause(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 4 {
        return Err(errors::subcommand_or_arity(args));
    }
    let writes_only = match args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"all") => false,
        Some(b"write") => true,
        _ => return Err(BAD_MODE),
    };
    let timeout_ms = blocking::timeout_ms(args.at(2))?.unwrap_or(0);
    conn.hub.clients.pause(conn.now.plus_ms(timeout_ms), writes_only, conn.now);
    Ok(Reply::Ok)
}

pub(super) fn unpause(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    conn.hub.clients.unpause();
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_pause_suspends_commands_until_it_ends() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range"),
            ("CLIENT PAUSE -1", "-ERR timeout is negative"),
            ("CLIENT PAUSE 100 foo", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
            ("CLIENT PAUSE 100 write", "+OK"),
        ]);
        let (now, later) = (desk.now, desk.now.plus_ms(100));
        assert_eq!(desk.hub.clients.paused(true, now), Some(later));
        assert_eq!(desk.hub.clients.paused(false, now), None);
        desk.expect(&[("CLIENT PAUSE 50", "+OK")]);
        assert_eq!(
            desk.hub.clients.paused(false, now),
            Some(later),
            "the longer and the stricter pause stays"
        );
        assert_eq!(desk.hub.clients.paused(true, later), None);
        desk.expect(&[("CLIENT UNPAUSE", "+OK")]);
        assert_eq!(desk.hub.clients.paused(true, now), None);
    }
}
