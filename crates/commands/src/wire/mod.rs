//! The wire formats: requests in, replies out. It touches nothing.

pub mod foreign;
pub mod json;
pub mod request;
pub mod resp2;
pub mod resp3;

use crate::reply::Reply;
use crate::session::Protocol;

/// Appends a reply.
#[inline]
pub fn encode(protocol: Protocol, reply: &Reply, out: &mut Vec<u8>) {
    resp2::reserve_large(reply, out);
    match protocol {
        Protocol::Resp2 => resp2::encode(reply, out),
        Protocol::Resp3 => resp3::encode(reply, out),
    }
}
