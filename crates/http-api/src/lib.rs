//! The HTTP APIs without sockets: what a request means, and the bytes of its response.
//!
//! | To find                                    | open           |
//! |--------------------------------------------|----------------|
//! | the Upstash-compatible REST API            | [`upstash`]    |
//! | versioned documents                        | [`kv`]         |
//! | rate limits                                | [`limit`]      |
//! | errors of documents and limits             | [`error`]      |
//! | the `Idempotency-Key` header               | [`idempotency`] |
//! | the token of a request                     | [`rights`]     |
//! | pages of other sites (CORS)                | [`cors`]       |
//! | query parameters, with their errors        | [`parameters`] |
//! | percent-encoding, parts of a query         | [`url`]        |
//! | which slot a request belongs to            | [`keys`]       |
//! | keys and numbers in JSON                   | [`written`]    |
//! | the status of an error                     | [`status`]     |
//! | statements for a storage service           | [`statements`] |
//!
//! Two programs serve these APIs: the server, whose connections and shards are in its own crate, and the Durable Object in `edge/`. This
//! crate touches nothing: no sockets, no shards, no clock. It compiles to wasm32.

pub mod bounds;
pub mod code;
pub mod cors;
pub mod error;
pub mod idempotency;
pub mod keys;
pub mod kv;
pub mod limit;
pub mod parameters;
pub mod rights;
pub mod statements;
pub mod status;
pub mod upstash;
pub mod url;
pub mod written;
