//! `HELLO [protover [AUTH username password] [SETNAME clientname]]`

use super::auth;
use super::client::check_name;
use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::number;
use crate::reply::Reply;
use crate::session::Protocol;

/// The version of Redis whose features clients may use.
pub(crate) const REDIS_VERSION: &str = "7.4.0";

const NOT_A_VERSION: Fail = Fail::fixed("ERR Protocol version is not an integer or out of range");
const NO_AUTH_HELLO: Fail = Fail::fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
);

pub(super) fn hello(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let protocol = match args.get(1) {
        None => None,
        Some(version) => Some(match number::parse_int(version).ok_or(NOT_A_VERSION)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(errors::NO_PROTO),
        }),
    };
    let (mut login, mut name) = (None, None);
    let mut options = args.cursor(2);
    while let Some(option) = options.peek() {
        if options.accept_with("AUTH", 2) {
            login = Some((options.bytes()?, options.bytes()?));
        } else if options.accept_with("SETNAME", 1) {
            name = Some(check_name(options.bytes()?)?);
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(Fail::text(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some((user, secret)) = login {
        auth::bring(conn, user, secret)?;
    }
    if !conn.session.authenticated && conn.hub.host.needs_token() {
        return Err(NO_AUTH_HELLO);
    }
    if let Some(name) = name {
        conn.session.client.shown().name = name;
    }
    if let Some(protocol) = protocol {
        conn.session.set_protocol(protocol);
    }
    Ok(facts(conn))
}

fn facts(conn: &Conn<'_>) -> Reply {
    let text = |text: &'static str| Reply::bulk(text.as_bytes());
    let protocol = if conn.session.protocol == Protocol::Resp3 { 3 } else { 2 };
    let id = i64::try_from(conn.session.client.id).unwrap_or(i64::MAX);
    Reply::Map(vec![
        (text("server"), text("redis")),
        (text("version"), text(REDIS_VERSION)),
        (text("proto"), Reply::Int(protocol)),
        (text("id"), Reply::Int(id)),
        (text("mode"), text(conn.hub.mode())),
        (text("role"), text("master")),
        (text("modules"), Reply::Array(Vec::new())),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::auth::tests::Locked;
    use super::*;
    use crate::testing::Desk;

    const FACTS: &str = "*14 $6 server $5 redis $7 version $5 7.4.0 $5 proto :2 $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0";

    #[test]
    fn hello_selects_the_protocol_and_describes_the_server() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HELLO", FACTS),
            ("HELLO 2 AUTH default any SETNAME me", FACTS),
            ("CLIENT GETNAME", "$2 me"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("HELLO 3 AUTH", "-ERR Syntax error in HELLO option 'AUTH'"),
            (
                "HELLO 3 AUTH nobody x SETNAME y",
                "-WRONGPASS invalid username-password pair or user is disabled.",
            ),
            ("HELLO 3 AUTH nobody x FOO", "-ERR Syntax error in HELLO option 'FOO'"),
            ("CLIENT GETNAME", "$2 me"),
        ]);
        assert_eq!(desk.session.protocol, Protocol::Resp2, "an error changes nothing");
        assert_eq!(desk.resp("HELLO 3"), FACTS.replace("proto :2", "proto :3"));
        assert_eq!(desk.session.protocol, Protocol::Resp3);
        assert!(desk.run_args(&["HELLO", "3", "SETNAME", "a b"]).is_error());
    }

    #[test]
    fn hello_needs_the_token() {
        let mut desk = Desk::at(Box::new(Locked));
        assert!(desk.resp("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
        assert_eq!(desk.resp("HELLO 2 AUTH default sesame"), FACTS);
        assert_eq!(desk.resp("HELLO"), FACTS);
    }
}
