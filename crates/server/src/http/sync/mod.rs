//! Offline sync: `POST /sync` with the mutations of a client, `GET /sync` with the changes since its last visit.
//!
//! | To find                                  | open        |
//! |------------------------------------------|-------------|
//! | what a request contains                  | `items`     |
//! | applying them on their shards            | `push`      |
//! | the results as JSON                      | `results`   |
//! | changes, page by page, and as events     | `pull`      |
//! | where a client is in the changes         | `cursor`    |
//! | its part of OpenAPI                      | `openapi`   |
//!
//! Touches the shards of the keys. What a mutation means is in `keystead_commands::sync`.

mod cursor;
mod items;
pub(super) mod openapi;
mod pull;
mod push;
mod results;

pub(super) use pull::pull;
pub(super) use push::push;
