//! Responses of the Upstash-compatible API: their form, body and status. Pure.

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use keystead_commands::Reply as RedisReply;
use keystead_commands::errors::Fail;
use keystead_commands::idempotency::StoredResponse;
use keystead_commands::wire::json::{self, Strings};
use keystead_commands::wire::resp2;
use keystead_core::Code;

use super::super::reply::{self, Reply};
use super::super::status;
use super::body::BodyError;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BYTES: HeaderValue = HeaderValue::from_static(RESP2_MEDIA);

/// The headers that select a form, their values, and the media type of RESP2.
pub(super) const ENCODING: &str = "upstash-encoding";
pub(super) const BASE64: &str = "base64";
pub(super) const FORMAT: &str = "upstash-response-format";
pub(super) const RESP2: &str = "resp2";
pub(super) const RESP2_MEDIA: &str = "application/octet-stream";

/// The headers that select a form.
pub(super) const FORM_HEADERS: &[&str] = &[ENCODING, FORMAT];

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json(Strings),
    Resp2,
}

impl Default for Form {
    fn default() -> Self {
        Form::Json(Strings::Plain)
    }
}

impl Form {
    /// The form that a request selects.
    pub(super) fn of(headers: &HeaderMap) -> Result<Form, BodyError> {
        let is = |value: &HeaderValue, name: &str| value.as_bytes().eq_ignore_ascii_case(name.as_bytes());
        let strings = match headers.get(ENCODING) {
            None => Strings::Plain,
            Some(value) if is(value, BASE64) => Strings::Base64,
            Some(_) => return Err(BodyError("ERR unknown Upstash-Encoding: it can be base64")),
        };
        match headers.get(FORMAT) {
            None => Ok(Form::Json(strings)),
            Some(value) if is(value, "json") => Ok(Form::Json(strings)),
            Some(value) if is(value, RESP2) && strings == Strings::Plain => Ok(Form::Resp2),
            Some(value) if is(value, RESP2) => {
                Err(BodyError("ERR resp2 responses cannot be encoded in base64"))
            }
            Some(_) => Err(BodyError("ERR unknown Upstash-Response-Format: it can be json or resp2")),
        }
    }

    /// The same, in JSON.
    pub(super) fn json(self) -> Form {
        match self {
            Form::Resp2 => Form::default(),
            json => json,
        }
    }
}

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

/// Its status and body.
pub(super) fn one_in(redis_reply: &RedisReply, form: Form) -> (StatusCode, Vec<u8>) {
    let status = match redis_reply {
        RedisReply::Error(fail) => fail.code().map_or(StatusCode::BAD_REQUEST, status::of),
        _ => StatusCode::OK,
    };
    let mut out = Vec::new();
    match form {
        Form::Json(strings) => json::encode(redis_reply, strings, &mut out),
        Form::Resp2 => resp2::encode(redis_reply, &mut out),
    }
    (status, out)
}

/// The response to several commands.
pub(super) fn all(redis_replies: &[RedisReply], form: Form) -> Reply {
    let (status, body) = all_in(redis_replies, form);
    made(status, form, body)
}

/// Its status and body. An error of one command does not change the status.
pub(super) fn all_in(redis_replies: &[RedisReply], form: Form) -> (StatusCode, Vec<u8>) {
    let mut out = Vec::new();
    match form {
        Form::Resp2 => redis_replies.iter().for_each(|redis_reply| resp2::encode(redis_reply, &mut out)),
        Form::Json(strings) => {
            for (n, redis_reply) in redis_replies.iter().enumerate() {
                out.push(if n == 0 { b'[' } else { b',' });
                json::encode(redis_reply, strings, &mut out);
            }
            out.push(b']');
        }
    }
    (StatusCode::OK, out)
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
    let content_type = if form == Form::Resp2 { BYTES } else { JSON };
    reply::bytes(status, content_type, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&'static str, &'static str)]) -> Result<Form, BodyError> {
        Form::of(&pairs.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect())
    }

    #[test]
    fn headers_select_the_form() {
        let (encoding, format) = (ENCODING, FORMAT);
        assert_eq!(form(&[]), Ok(Form::Json(Strings::Plain)));
        assert_eq!(form(&[(encoding, "Base64")]), Ok(Form::Json(Strings::Base64)));
        assert_eq!(form(&[(encoding, "base64"), (format, "json")]), Ok(Form::Json(Strings::Base64)));
        assert_eq!(form(&[(format, "RESP2")]), Ok(Form::Resp2));
        for pairs in
            [&[(encoding, "hex")][..], &[(format, "resp3")], &[(encoding, "base64"), (format, "resp2")]]
        {
            assert!(form(pairs).is_err(), "{pairs:?}");
        }
    }
}
