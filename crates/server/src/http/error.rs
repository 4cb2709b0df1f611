//! Errors of the documents API and the limits API as responses. Pure.

use hyper::header::{HeaderName, HeaderValue};
use keystead_commands::hub::Rejection;

pub(super) use keystead_http_api::error::ApiError;

use super::reply::{self, Reply};

/// The URL of the node that owns the key.
pub(crate) const OWNER: HeaderName = HeaderName::from_static("keystead-owner");
/// The epoch of the slot table that says so.
pub(super) const EPOCH: HeaderName = HeaderName::from_static("keystead-epoch");

/// In a request of a router: if the node does not own the slot of the key any more, it sends the body of the request back.
pub(crate) const RETURN_BODY: HeaderName = HeaderName::from_static("keystead-return-body");
/// In the response: its body is that of the request, which was not applied.
pub(crate) const RETURNED_BODY: HeaderName = HeaderName::from_static("keystead-returned-body");

/// The result of a handler.
pub(super) type ApiResult = Result<Reply, ApiError>;

/// The response for an error.
pub(crate) fn reply(error: &ApiError) -> Reply {
    let mut reply = match error {
        ApiError::Broken(error) => reply::error(error),
        _ => reply::stored(error.stored()),
    };
    if let Some((_, owner, epoch)) = error.moved() {
        let headers = reply.headers_mut();
        // An address in the table is visible ASCII.
        HeaderValue::try_from(&owner.http).into_iter().for_each(|url| drop(headers.insert(OWNER, url)));
        headers.insert(EPOCH, HeaderValue::from(epoch));
    }
    let is_moving = matches!(error, ApiError::NotServed(Rejection::Parked(_)));
    reply::mark_try_again(&mut reply, is_moving);
    reply
}
