//! `CLIENT KILL ip:port`
//! `CLIENT KILL [ID client-id] [TYPE type] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>] [MAXAGE maxage]`

use keystead_core::Millis;

use super::list::kind_named;
use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::families::connection::auth::USER;
use crate::hub::{Client, Kind};
use crate::number;
use crate::reply::Reply;

const NO_SUCH_CLIENT: Fail = Fail::fixed("ERR No such client");
const ID_TOO_SMALL: Fail = Fail::fixed("ERR client-id should be greater than 0");
const AGE_NOT_INT: Fail = Fail::fixed("ERR maxage is not an integer or out of range");
const AGE_TOO_SMALL: Fail = Fail::fixed("ERR maxage should be greater than 0");

/// Which connections to close: those that match all filters.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    /// The inner `None`: a type of which there are no connections.
    kind: Option<Option<Kind>>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    age_s: Option<u64>,
    with_me: bool,
}

pub(super) fn kill(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 3 {
        let filter = Filter { address: Some(args.at(2)), with_me: true, ..Filter::default() };
        return if end(conn, &filter) > 0 { Ok(Reply::Ok) } else { Err(NO_SUCH_CLIENT) };
    }
    let filter = Filter::parse(args)?;
    Ok(Reply::count(end(conn, &filter)))
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Fail> {
        let mut filter = Filter::default();
        let mut options = args.cursor(2);
        while !options.is_done() {
            if options.accept_with("ID", 1) {
                let id = number::parse_int(options.bytes()?).filter(|id| *id > 0);
                filter.id = Some(id.ok_or(ID_TOO_SMALL)?.unsigned_abs());
            } else if options.accept_with("TYPE", 1) {
                filter.kind = Some(kind_named(options.bytes()?)?);
            } else if options.accept_with("ADDR", 1) {
                filter.address = Some(options.bytes()?);
            } else if options.accept_with("LADDR", 1) {
                filter.local_address = Some(options.bytes()?);
            } else if options.accept_with("USER", 1) {
                let user = options.bytes()?;
                if user != USER.as_bytes() {
                    let user = String::from_utf8_lossy(user);
                    return Err(Fail::text(format!("ERR No such user '{user}'")));
                }
            } else if options.accept_with("SKIPME", 1) {
                filter.with_me = match options.bytes()?.to_ascii_lowercase().as_slice() {
                    b"yes" => false,
                    b"no" => true,
                    _ => return Err(errors::SYNTAX),
                };
            } else if options.accept_with("MAXAGE", 1) {
                let age = number::parse_int(options.bytes()?).ok_or(AGE_NOT_INT)?;
                filter.age_s = Some(u64::try_from(age).ok().filter(|age| *age > 0).ok_or(AGE_TOO_SMALL)?);
            } else {
                return Err(errors::SYNTAX);
            }
        }
        Ok(filter)
    }

    fn fits(&self, client: &Client, now: Millis) -> bool {
        let is =
            |wanted: Option<&[u8]>, address: &str| wanted.is_none_or(|wanted| wanted == address.as_bytes());
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind == Some(client.shown().kind))
            && is(self.address, &client.address)
            && is(self.local_address, &client.local_address)
            && self.age_s.is_none_or(|age_s| now.since_ms(client.since) / 1000 >= age_s)
    }
}

/// Closes connections and returns how many. The calling connection is closed after its reply.
fn end(conn: &mut Conn<'_>, filter: &Filter<'_>) -> usize {
    let me = conn.session.client.id;
    let mut ended = 0;
    for client in conn.hub.clients.all() {
        if (client.id == me && !filter.with_me) || !filter.fits(&client, conn.now) {
            continue;
        }
        ended += 1;
        if client.id == me {
            conn.session.closing = true;
        } else {
            client.kill();
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn connections_are_closed_by_filter() {
        let mut desk = Desk::new();
        let other = Desk::connect(&desk.hub).client;
        desk.expect(&[
            ("CLIENT KILL 1.2.3.4:5", "-ERR No such client"),
            ("CLIENT KILL ID", "-ERR No such client"),
            ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0"),
            ("CLIENT KILL ID x", "-ERR client-id should be greater than 0"),
            ("CLIENT KILL ID 99", ":0"),
            ("CLIENT KILL TYPE foo", "-ERR Unknown client type 'foo'"),
            ("CLIENT KILL TYPE replica", ":0"),
            ("CLIENT KILL TYPE normal SKIPME maybe", "-ERR syntax error"),
            ("CLIENT KILL USER nobody", "-ERR No such user 'nobody'"),
            ("CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range"),
            ("CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0"),
            ("CLIENT KILL MAXAGE 10", ":0"),
            ("CLIENT KILL ADDR a b", "-ERR syntax error"),
        ]);
        assert!(!other.is_killed() && !desk.session.closing);
        desk.expect(&[("CLIENT KILL LADDR 127.0.0.1:6379 USER default", ":1")]);
        assert!(other.is_killed() && !desk.session.closing, "the calling connection is spared");
        desk.now = desk.now.plus_ms(10_000);
        desk.expect(&[("CLIENT KILL MAXAGE 10 SKIPME no", ":2")]);
        assert!(desk.session.closing);
    }

    #[test]
    fn the_old_form_closes_by_address() {
        let mut desk = Desk::new();
        desk.expect(&[("CLIENT KILL 127.0.0.1:5000", "+OK")]);
        assert!(desk.session.closing);
    }
}
