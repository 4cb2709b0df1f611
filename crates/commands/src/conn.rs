//! The context of a command that concerns the connection or the server. It touches nothing.

use keystead_core::Millis;

use crate::ctx::Dialect;
use crate::hub::Hub;
use crate::session::Session;

/// The context of a command that touches no key.
pub struct Conn<'a> {
    /// The connection.
    pub session: &'a mut Session,
    /// The state that all connections share.
    pub hub: &'a Hub,
    /// The current time.
    pub now: Millis,
    /// Which service's replies to return where Redis and Upstash differ.
    pub dialect: Dialect,
}

impl<'a> Conn<'a> {
    /// The context of the next command.
    pub fn new(session: &'a mut Session, hub: &'a Hub, now: Millis) -> Self {
        Conn { session, hub, now, dialect: Dialect::Redis }
    }

    /// Whether to reply as Upstash does where it differs from Redis.
    #[must_use]
    pub fn is_upstash(&self) -> bool {
        self.dialect == Dialect::Upstash
    }
}
