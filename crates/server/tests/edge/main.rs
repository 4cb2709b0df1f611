//! The server's tests of REST, documents and limits on the worker of `edge/`, under workerd. `./test edge` builds it and runs them.
//!
//! The test functions are those of the targets `upstash`, `kv` and `limit`; what opens a server for them opens a database of the worker here.
//! What differs at the edge is a row of the table in docs/edge.md: a test asks [`differs`] for it, and expects what the row says.
//!
//! | To find                                      | open        |
//! |----------------------------------------------|-------------|
//! | differences that no test of the server meets | [`only`]   |
//! | a server's arguments as settings of the worker | [`server`] |
//! | the rows of docs/edge.md                     | [`rows`]    |
//! | Redis's protocol, over REST                  | [`resp`]    |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is random says what it did"
)]

#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/edge.rs"]
mod database;
mod kv;
mod limit;
mod only;
mod resp;
#[path = "../common/rest.rs"]
mod rest;
#[path = "../common/differences.rs"]
mod rows;
mod server;
mod upstash;

#[path = "../kv/requests.rs"]
mod documents_requests;
#[path = "../limit/requests.rs"]
mod limits_requests;

use limits_requests::POLICIES;
use rows::differs;
use server::{Fixture, Server, memory, open, stores};
