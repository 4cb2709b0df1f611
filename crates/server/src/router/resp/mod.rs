//! The RESP listener of a router: Redis clients as on one server.
//!
//! ```text
//! bytes -> connection -> destination -> link of the owner -> node -> frame -> client, in its order -> bytes
//! ```
//!
//! Requests are passed on as the bytes that they came in, and replies as those that the node sent: no value is built. Many clients share
//! few connections to a node, one for each thread and version, so one write has the requests of many. A client is no part of a cluster here:
//! it needs no client library for clusters.
//!
//! | To find                                          | open           |
//! |--------------------------------------------------|----------------|
//! | where a command runs                             | `destination`  |
//! | accepting, threads, draining                     | `listener`     |
//! | reading requests, bounds of a client             | `connection`   |
//! | sending a request to one or several nodes        | `send`         |
//! | requests on a connection of their own, WATCH     | `special`, `own` |
//! | the replies of a client in their order           | `client`       |
//! | a connection that clients share                  | `link`, `inbox`, `dial`, `doubt` |
//! | one reply from several                           | `merge`        |
//! | where a reply ends                               | `frame`        |
//! | what a thread shares, requests that are sent again | `event_loop` |
//! | Pub/Sub over all nodes                           | `relay`        |
//! | what INFO and HELLO say                          | `host`         |

mod client;
mod connection;
mod destination;
mod dial;
mod doubt;
mod event_loop;
mod frame;
mod host;
mod inbox;
mod link;
mod listener;
pub(super) mod merge;
mod own;
mod relay;
mod send;
mod special;

use std::sync::Arc;

use keystead_commands::hub::{Hub, Waiting};
use keystead_commands::number::push_int;

pub(super) use listener::{Resp, serve};

use super::Router;
use crate::notice::Notices;

/// What all threads share.
pub(super) struct Shared {
    router: Arc<Router>,
    /// The state of connections and of Pub/Sub.
    hub: Arc<Hub>,
    /// Bytes of large requests that are arriving.
    arriving: Arc<Waiting>,
    relay: relay::Relay,
    notices: Notices,
}

/// Appends a request.
fn command<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.push(b'*');
    push_int(out, words.len() as i64);
    out.extend_from_slice(b"\r\n");
    for word in words {
        out.push(b'$');
        push_int(out, word.len() as i64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A text as an error can have it.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
