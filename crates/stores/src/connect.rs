//! How URLs are parsed and servers are reached, for other crates that connect to the same servers. Opens sockets.

#[cfg(feature = "postgres")]
pub use crate::postgres::connect::{Login as PostgresLogin, Target as PostgresTarget};
#[cfg(feature = "postgres")]
pub use crate::postgres::failure::of_call as postgres_error;
pub use crate::url::Url;
