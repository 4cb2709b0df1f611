//! Redis's protocol for these tests: over REST, because the worker has no other.

#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod over_any;

pub(crate) use over_any::{pause, until};

use crate::client::Listens;
use crate::rest::Rest;

/// A connection without a state of its own.
pub(crate) type Client = over_any::Client<Rest>;

impl over_any::Client<Rest> {
    pub(crate) fn connect(server: &impl Listens) -> Client {
        Client::over(Rest::connect(server))
    }
}
