//! Versioned documents: `/kv/{key}` with compare-and-set by version, merge and watch.
//!
//! | Request                     | open       |
//! |-----------------------------|------------|
//! | `GET /kv/{key}`             | `read`     |
//! | `GET /kv`                   | `list`     |
//! | `PUT`, `PATCH`, `DELETE`    | `write`    |
//! | `POST /kv:batch`            | `batch`    |
//! | waiting for a change        | `poll`     |
//! | events                      | `watch`    |
//! | a store instead of the database | `shared` |
//! | parameters and conditions   | `params`   |
//! | responses                   | `response`   |
//! | its part of OpenAPI         | `openapi`  |
//!
//! Touches the shard of the key, or the store of the documents. What a change means is in `keystead_commands::documents`.

pub(super) mod batch;
pub(super) mod list;
pub(super) mod openapi;
pub(super) mod params;
mod poll;
pub(super) mod read;
pub(super) mod shared;
pub(super) mod watch;
mod write;

pub(super) use keystead_http_api::kv::response;

pub(super) use batch::batch;
pub(super) use list::list;
pub(super) use read::get;
pub(super) use write::{delete, patch, put};
