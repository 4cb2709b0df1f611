//! The form of a response: JSON, or RESP2 where a header says so; its body and status. Pure.

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use keystead_commands::Reply as RedisReply;
use keystead_commands::wire::json::{self, Strings};
use keystead_commands::wire::resp2;

use super::body::BodyError;
use crate::status;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BYTES: HeaderValue = HeaderValue::from_static(RESP2_MEDIA);

/// The header that selects how strings are encoded.
pub const ENCODING: &str = "upstash-encoding";
/// Its value.
pub const BASE64: &str = "base64";
/// The header that selects RESP2.
pub const FORMAT: &str = "upstash-response-format";
/// Its value.
pub const RESP2: &str = "resp2";
/// The media type of RESP2.
pub const RESP2_MEDIA: &str = "application/octet-stream";

/// The headers that select a form.
pub const FORM_HEADERS: &[&str] = &[ENCODING, FORMAT];

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON, with its strings in this form.
    Json(Strings),
    /// RESP2.
    Resp2,
}

impl Default for Form {
    fn default() -> Self {
        Form::Json(Strings::Plain)
    }
}

impl Form {
    /// The form that a request selects.
    ///
    /// # Errors
    /// When there is no such form.
    pub fn of(headers: &HeaderMap) -> Result<Form, BodyError> {
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
    #[must_use]
    pub fn json(self) -> Form {
        match self {
            Form::Resp2 => Form::default(),
            json => json,
        }
    }

    /// The media type of its bodies.
    #[must_use]
    pub fn media_type(self) -> HeaderValue {
        match self {
            Form::Resp2 => BYTES,
            Form::Json(_) => JSON,
        }
    }
}

/// The status and body of the response to one command.
#[must_use]
pub fn one_in(redis_reply: &RedisReply, form: Form) -> (StatusCode, Vec<u8>) {
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

/// The status and body of the response to several commands. An error of one command does not change the status.
#[must_use]
pub fn all_in(redis_replies: &[RedisReply], form: Form) -> (StatusCode, Vec<u8>) {
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
