//! How URLs are parsed and servers are reached, for other crates that connect to the same servers. Opens sockets.

#[cfg(feature = "tls")]
pub use crate::authority::Authority;
#[cfg(feature = "http")]
pub use crate::date::rfc3339;
#[cfg(feature = "http")]
pub use crate::http::{Failure, Http};
#[cfg(feature = "nats")]
pub use crate::nats::connect::{
    Target as NatsTarget, losing as nats_losing, push_encoded as push_nats_key,
    stream_error as nats_stream_error, unavailable as nats_unavailable,
};
#[cfg(feature = "tls")]
pub use crate::net::{Address, Tls, handshake_advice, system_certificates, system_tls};
#[cfg(feature = "postgres")]
pub use crate::postgres::connect::{Login as PostgresLogin, Target as PostgresTarget};
#[cfg(feature = "postgres")]
pub use crate::postgres::failure::of_call as postgres_error;
pub use crate::url::Url;
