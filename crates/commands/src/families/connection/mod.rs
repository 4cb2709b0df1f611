//! Connections: the table of this family.

mod auth;
mod client;
mod hello;
mod ping;
mod select;

pub(crate) use auth::USER;
pub(crate) use hello::REDIS_VERSION;

use crate::hub::Hub;
use crate::session::{Protocol, Replies, Session};
use crate::spec::flag::{FAST, NO_AUTH, NO_REST, NO_SCRIPT, and};
use crate::spec::{Control, Flags, Spec};

/// Allowed before AUTH.
const BEFORE_AUTH: Flags = and(and(NO_AUTH, NO_SCRIPT), and(FAST, NO_REST));

pub(crate) const TABLE: &[Spec] = &[
    Spec::conn("AUTH", "auth", -2, BEFORE_AUTH, auth::run).doc(
        "[username] password",
        "Brings the secret: the server's token. The only user is `default`.",
        "1.0.0",
    ),
    Spec::conn("HELLO", "hello", -1, BEFORE_AUTH, hello::run).doc(
        "[protover [AUTH username password] [SETNAME clientname]]",
        "Chooses RESP2 or RESP3 and tells about the server.",
        "6.0.0",
    ),
    Spec::conn("PING", "ping", -1, FAST, ping::ping).doc(
        "[message]",
        "Answers `PONG`, or the message.",
        "1.0.0",
    ),
    Spec::conn("ECHO", "echo", 2, FAST, ping::echo).doc("message", "Answers the message.", "1.0.0"),
    Spec::conn("SELECT", "select", 2, and(FAST, NO_REST), select::run).doc(
        "index",
        "Chooses a database: there is only 0.",
        "1.0.0",
    ),
    Spec::control("QUIT", "quit", -1, BEFORE_AUTH, Control::Quit).doc("", "Ends the connection.", "1.0.0"),
    Spec::control("RESET", "reset", 1, BEFORE_AUTH, Control::Reset).doc(
        "",
        "Makes the connection as if it had just come.",
        "6.2.0",
    ),
    Spec::within("CLIENT", "client", client::TABLE).doc("", "Looks at connections.", "2.4.0"),
];

/// RESET: the connection is as if it had just come. Its transaction is forgotten already.
pub(crate) fn reset(session: &mut Session, hub: &Hub) {
    session.leave(hub);
    session.set_protocol(Protocol::Resp2);
    session.authenticated = !hub.host.needs_token();
    session.replies = Replies::On;
    let mut shown = session.client.shown();
    shown.name.clear();
    (shown.no_evict, shown.no_touch) = (false, false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn reset_makes_a_connection_new() {
        let mut desk = Desk::new();
        for line in ["HELLO 3 SETNAME me", "SUBSCRIBE a", "CLIENT NO-TOUCH ON", "CLIENT REPLY OFF"] {
            desk.run(line);
        }
        reset(&mut desk.session, &desk.hub);
        desk.expect(&[("CLIENT GETNAME", "$-1"), ("PUBSUB CHANNELS", "*0"), ("PING", "+PONG")]);
        assert_eq!((desk.session.protocol, desk.session.replies), (Protocol::Resp2, Replies::On));
        assert!(desk.session.authenticated && !desk.session.client.shown().no_touch);
    }
}
