//! The Upstash-compatible REST API: the commands of a request, and the form of its response. Pure.

pub mod body;
pub mod command;
pub mod form;
pub mod path;

use keystead_commands::Command;

pub use body::BodyError;
pub use form::Form;

/// The text for a request without a token, or with a wrong one.
pub const WRONG_TOKEN: &str = "WRONGPASS invalid or missing auth token";

/// The header of a response that is different in each. With Upstash, a client sends it back to read from a replica that has caught up
/// with it; there are no replicas here.
pub const SYNC_TOKEN: &str = "upstash-sync-token";

/// The one command of a request, in its body or its path.
///
/// # Errors
/// The error of the body or the path.
pub fn command_of(path: &str, body: &[u8], query: Option<&str>) -> Result<Command, BodyError> {
    if path == "/" && !body.is_empty() { body::command(body) } else { path::command(path, body, query) }
}
