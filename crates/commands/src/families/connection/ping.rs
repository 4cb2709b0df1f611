//! `PING [message]`
//! `ECHO message`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult};
use crate::reply::Reply;
use crate::session::Protocol;

pub(super) fn ping(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 {
        return Err(errors::wrong_arity("ping"));
    }
    // In RESP2 a subscribed connection receives arrays only.
    if conn.session.is_subscribed() && conn.session.protocol == Protocol::Resp2 {
        return Ok(Reply::bulks([&b"pong"[..], args.at(1)]));
    }
    Ok(args.get(1).map_or(Reply::status("PONG"), Reply::bulk))
}

pub(super) fn echo(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::bulk(args.at(1)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn pings_get_replies() {
        Desk::new().expect(&[
            ("PING", "+PONG"),
            ("ping hi", "$2 hi"),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
            ("ECHO hi", "$2 hi"),
            ("SUBSCRIBE c", "*3 $9 subscribe $1 c :1"),
            ("PING", "*2 $4 pong $0"),
            ("PING hi", "*2 $4 pong $2 hi"),
        ]);
    }
}
