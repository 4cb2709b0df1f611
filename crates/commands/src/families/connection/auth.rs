//! `AUTH [username] password`

use std::sync::atomic::Ordering;

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::reply::Reply;

/// The only user.
pub(crate) const USER: &str = "default";

pub(super) fn auth(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    match args.len() {
        2 if !conn.hub.host.needs_token() => return Err(errors::AUTH_WITHOUT_PASSWORD),
        2 => bring(conn, USER.as_bytes(), args.at(1))?,
        3 => bring(conn, args.at(1), args.at(2))?,
        _ => return Err(errors::SYNTAX),
    }
    Ok(Reply::Ok)
}

/// Checks a user and a password. If no token is needed any password is accepted, as for Redis's user without a password.
pub(super) fn bring(conn: &mut Conn<'_>, user: &[u8], secret: &[u8]) -> Result<(), Fail> {
    // The password is compared whoever the user is, so that the time reveals nothing about users.
    let right = conn.hub.host.is_token(secret) || !conn.hub.host.needs_token();
    if right && user == USER.as_bytes() {
        conn.session.authenticated = true;
        conn.session.auth_failures = 0;
        return Ok(());
    }
    // Without a token there are no failed authentications.
    if conn.hub.host.needs_token() {
        conn.session.auth_failures = conn.session.auth_failures.saturating_add(1);
        conn.session.delay_reply = true;
        conn.hub.clients.auth_failures.fetch_add(1, Ordering::Relaxed);
    }
    Err(errors::WRONG_PASS)
}

#[cfg(test)]
pub(super) mod tests {
    use crate::hub::{Facts, Host};
    use crate::testing::Desk;

    /// A server whose token is `sesame`.
    pub(in crate::families::connection) struct Locked;

    impl Host for Locked {
        fn needs_token(&self) -> bool {
            true
        }

        fn is_token(&self, token: &[u8]) -> bool {
            token == b"sesame"
        }

        fn shards(&self) -> usize {
            1
        }

        fn facts(&self) -> Facts {
            Facts::default()
        }
    }

    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

    #[test]
    fn the_token_authenticates_the_connection() {
        let mut desk = Desk::at(Box::new(Locked));
        desk.expect(&[
            ("AUTH open", WRONG),
            ("AUTH default open", WRONG),
            ("AUTH someone sesame", WRONG),
            ("AUTH a b c", "-ERR syntax error"),
        ]);
        assert!(!desk.session.authenticated && desk.session.delay_reply);
        assert_eq!(desk.session.auth_failures, 3);
        desk.expect(&[("AUTH default sesame", "+OK"), ("AUTH wrong", WRONG)]);
        let all = desk.hub.clients.auth_failures.load(super::Ordering::Relaxed);
        assert_eq!((desk.session.auth_failures, all), (1, 4));
        assert!(desk.session.authenticated, "a wrong secret does not take it away");
    }

    #[test]
    fn without_a_token() {
        Desk::new().expect(&[
            (
                "AUTH x",
                "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ),
            ("AUTH default x", "+OK"),
            ("AUTH someone x", WRONG),
        ]);
    }
}
