//! What a command about the connection or the server is given. It touches nothing.

use keystead_core::Millis;

use crate::ctx::Dialect;
use crate::hub::Hub;
use crate::session::Session;

/// The surroundings of a command that touches no key.
pub struct Conn<'a> {
    /// The connection.
    pub session: &'a mut Session,
    /// What all connections share.
    pub hub: &'a Hub,
    /// The present moment.
    pub now: Millis,
    /// Which service's answers are wanted where Redis and Upstash differ.
    pub dialect: Dialect,
}

impl<'a> Conn<'a> {
    /// The surroundings of the next command.
    pub fn new(session: &'a mut Session, hub: &'a Hub, now: Millis) -> Self {
        Conn { session, hub, now, dialect: Dialect::Redis }
    }

    /// Whether Upstash's answers are wanted where it differs from Redis.
    #[must_use]
    pub fn is_upstash(&self) -> bool {
        self.dialect == Dialect::Upstash
    }
}
