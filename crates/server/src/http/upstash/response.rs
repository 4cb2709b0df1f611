//! Responses of the Upstash-compatible API, as hyper writes them. Pure.

use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use keystead_commands::Reply as RedisReply;
use keystead_commands::errors::Fail;
use keystead_commands::idempotency::StoredResponse;
use keystead_commands::wire::json;
use keystead_core::Code;
pub(super) use keystead_http_api::upstash::form::{all_in, one_in};

use super::super::reply::{self, Reply};
use super::body::BodyError;

pub(super) use keystead_http_api::upstash::form::{
    BASE64, ENCODING, FORM_HEADERS, FORMAT, Form, RESP2, RESP2_MEDIA,
};

/// The response to one command.
pub(super) fn one(redis_reply: &RedisReply, form: Form) -> Reply {
    let (status, body) = one_in(redis_reply, form);
    let mut reply = made(status, form, body);
    if matches!(redis_reply, RedisReply::Error(Fail::Broken(error)) if matches!(error.code(), Code::QueueFull | Code::TryAgain))
    {
        reply.headers_mut().insert(RETRY_AFTER, reply::SOON);
    }
    let is_moving = |fail: &Fail| fail.line().starts_with("TRYAGAIN ");
    reply::mark_try_again(&mut reply, matches!(redis_reply, RedisReply::Error(fail) if is_moving(fail)));
    reply
}

/// The response to several commands.
pub(super) fn all(redis_replies: &[RedisReply], form: Form) -> Reply {
    let (status, body) = all_in(redis_replies, form);
    made(status, form, body)
}

/// A stored response. The form is part of the fingerprint of a request, so it is the same.
pub(super) fn stored(stored: StoredResponse, form: Form) -> Reply {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    made(status, form, stored.body)
}

/// The response for an invalid request.
pub(super) fn bad_request(error: BodyError) -> Reply {
    words(StatusCode::BAD_REQUEST, error.0)
}

/// An error response with this text.
pub(super) fn words(status: StatusCode, words: &str) -> Reply {
    let mut out = Vec::new();
    json::error(words, &mut out);
    made(status, Form::default(), out)
}

/// A response whose body is encoded already.
pub(super) fn encoded(status: StatusCode, form: Form, body: Vec<u8>) -> Reply {
    made(status, form, body)
}

fn made(status: StatusCode, form: Form, body: Vec<u8>) -> Reply {
    reply::bytes(status, form.media_type(), body)
}
