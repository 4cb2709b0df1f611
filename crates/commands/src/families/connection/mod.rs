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
    Spec::conn("auth", -2, BEFORE_AUTH, auth::auth).doc(
        "[username] password",
        "Authenticates the connection with the server's token. The only user is `default`.",
        "1.0.0",
    ),
    Spec::conn("hello", -1, BEFORE_AUTH, hello::hello).doc(
        "[protover [AUTH username password] [SETNAME clientname]]",
        "Selects RESP2 or RESP3 and returns information about the server.",
        "6.0.0",
    ),
    Spec::conn("ping", -1, FAST, ping::ping).doc(
        "[message]",
        "Returns `PONG`, or the message if there is one.",
        "1.0.0",
    ),
    Spec::conn("echo", 2, FAST, ping::echo).doc("message", "Returns the message.", "1.0.0"),
    Spec::conn("select", 2, and(FAST, NO_REST), select::select).doc(
        "index",
        "Selects the logical database. Only 0 exists.",
        "1.0.0",
    ),
    Spec::control("quit", -1, BEFORE_AUTH, Control::Quit).doc("", "Closes the connection.", "1.0.0"),
    Spec::control("reset", 1, BEFORE_AUTH, Control::Reset).doc(
        "",
        "Resets the connection to its initial state.",
        "6.2.0",
    ),
    Spec::within("client", client::TABLE).doc("", "A container for client connection commands.", "2.4.0"),
];

/// RESET: the initial state of a connection. Its transaction is already discarded.
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
    fn reset_restores_the_initial_state() {
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
