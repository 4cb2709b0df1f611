//! What a command about the connection or the server is given. It touches nothing.

use keystead_core::Millis;

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
}
