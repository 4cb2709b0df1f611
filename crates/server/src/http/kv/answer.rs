//! Answers of the document door: documents, and refusals with a stable code. Pure.

use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};
use keystead_commands::documents::{Changed, Document};
use keystead_commands::json::document::Flaw;
use keystead_commands::once::Kept;
use keystead_core::{Code, Error, Millis};
use keystead_model::keyspace::Miss;
use serde_json::{Value, json};

use super::super::once::Misused;
use super::super::reply::{self, Reply, code};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why a request is refused.
#[derive(Debug)]
pub(in crate::http) enum Refused {
    Bad(String),
    NotFound(String),
    /// The condition does not hold: how that is told, and the version that is there.
    Conflict(StatusCode, Option<u64>),
    /// A `test` of the patch does not hold; the version that is there.
    Test(Option<u64>),
    Media(String),
    WrongType(&'static str),
    Unprocessable(String),
    TooLarge(String),
    ReadOnly,
    /// The operation of a batch that is refused, and why.
    Operation(usize, Box<Refused>),
    Broken(Error),
}

impl Refused {
    pub(in crate::http) fn bad(why: impl Into<String>) -> Refused {
        Refused::Bad(why.into())
    }

    pub(super) fn not_found(key: &[u8]) -> Refused {
        Refused::NotFound(format!("there is no document '{}'", String::from_utf8_lossy(key)))
    }

    /// What is wrong with a JSON text, named `what`.
    pub(super) fn flaw(what: &str, flaw: &Flaw) -> Refused {
        match flaw {
            Flaw::NotJson(why) => Refused::Bad(format!("{what} is not JSON: {why}")),
            Flaw::TooDeep => Refused::Bad(format!("{what} is nested too deeply")),
            Flaw::TooLong => Refused::TooLarge(format!("{what} is too large")),
        }
    }

    /// Status, code, message, and the version where it matters.
    fn told(&self) -> (StatusCode, &str, &str, Option<Option<u64>>) {
        match self {
            Refused::Bad(why) => (StatusCode::BAD_REQUEST, Code::BadRequest.as_str(), why, None),
            Refused::NotFound(why) => (StatusCode::NOT_FOUND, code::NOT_FOUND, why, None),
            Refused::Conflict(status, current) => {
                let why = match current {
                    Some(_) => "the document is there with another version than the request allows",
                    None => "there is no such document",
                };
                (*status, Code::Conflict.as_str(), why, Some(*current))
            }
            Refused::Test(current) => {
                let why = "a test of the patch does not hold";
                (StatusCode::CONFLICT, Code::Conflict.as_str(), why, Some(*current))
            }
            Refused::Media(why) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, code::UNSUPPORTED_MEDIA_TYPE, why, None)
            }
            Refused::WrongType(kind) => (StatusCode::CONFLICT, Code::WrongType.as_str(), kind, None),
            Refused::Unprocessable(why) => (StatusCode::UNPROCESSABLE_ENTITY, code::UNPROCESSABLE, why, None),
            Refused::TooLarge(why) => (StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge.as_str(), why, None),
            Refused::Operation(_, refused) => refused.told(),
            Refused::ReadOnly => (StatusCode::FORBIDDEN, code::FORBIDDEN, "this token may only read", None),
            Refused::Broken(error) => {
                (super::super::status::of(error.code()), error.code().as_str(), error.message(), None)
            }
        }
    }

    /// The answer, as it can be kept.
    pub(in crate::http) fn kept(&self) -> Kept {
        let (status, code, message, current) = self.told();
        let mut error = json!({ "code": code, "message": message });
        if let (Value::Object(error), Some(current)) = (&mut error, current) {
            error.insert("current".to_owned(), json!(current));
        }
        if let (Value::Object(error), Refused::Operation(index, _)) = (&mut error, self) {
            error.insert("operation".to_owned(), json!(index));
        }
        let body = format!("{}\n", json!({ "error": error }));
        Kept { status: status.as_u16(), version: None, body: body.into_bytes() }
    }

    /// The answer where the request changed nothing; where the database is broken there is none.
    pub(super) fn unless_broken(self) -> Result<Kept, Refused> {
        match self {
            Refused::Broken(_) => Err(self),
            refused => Ok(refused.kept()),
        }
    }

    pub(in crate::http) fn reply(&self) -> Reply {
        match self {
            Refused::Broken(error) => reply::error(error),
            _ => kept(self.kept()),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Broken(error)
    }
}

impl From<Misused> for Refused {
    fn from(misused: Misused) -> Self {
        match misused {
            Misused::Header => Refused::Bad(misused.words()),
            Misused::Other => Refused::Unprocessable(misused.words()),
            Misused::Answer => Refused::TooLarge(misused.words()),
        }
    }
}

impl From<Miss> for Refused {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::WrongType(_) => Refused::WrongType("the key holds something that is no document"),
            Miss::Failed(error) => Refused::Broken(error),
        }
    }
}

/// What came of a change, as an answer that can be kept.
pub(super) fn changed(key: &[u8], changed: Changed, conflict: StatusCode) -> Kept {
    let refused = match changed {
        Changed::Done { document, created } => {
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            return Kept {
                status: status.as_u16(),
                version: Some(document.version),
                body: (object(key, Some(&document)) + "\n").into_bytes(),
            };
        }
        Changed::Deleted => return Kept { status: 204, version: None, body: Vec::new() },
        Changed::Absent => Refused::not_found(key),
        Changed::Conflict(current) => Refused::Conflict(conflict, current),
        Changed::TestFailed(current) => Refused::Test(current),
        Changed::Unfit(why) => Refused::Unprocessable(why),
        Changed::Flawed(flaw) => Refused::flaw("what it would become", &flaw),
    };
    refused.kept()
}

/// The reply of an answer.
pub(in crate::http) fn kept(kept: Kept) -> Reply {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let is_empty = kept.body.is_empty();
    let mut reply = reply::bytes(status, JSON, kept.body);
    if is_empty {
        reply.headers_mut().remove(hyper::header::CONTENT_TYPE);
    }
    if let Some(version) = kept.version {
        tag(&mut reply, version);
    }
    reply
}

/// Puts the version into the header.
pub(super) fn tag(reply: &mut Reply, version: u64) {
    if let Ok(value) = HeaderValue::try_from(format!("\"{version}\"")) {
        reply.headers_mut().insert(ETAG, value);
    }
}

/// `{"key":...,"value":...,"version":...}`; without a document only the key.
pub(super) fn object(key: &[u8], document: Option<&Document>) -> String {
    let mut text = format!("{{\"key\":{}", name(key));
    if let Some(document) = document {
        text.push_str(",\"value\":");
        // A document is text by construction.
        text.push_str(&String::from_utf8_lossy(&document.text));
        text.push_str(&format!(",\"version\":{}", document.version));
        if document.expires_at != Millis::NEVER {
            text.push_str(&format!(",\"expiresAt\":{}", document.expires_at.0));
        }
    }
    text.push('}');
    text
}

/// A key in JSON: a string where it is text, else its bytes in an object.
pub(in crate::http) fn name(key: &[u8]) -> Value {
    match std::str::from_utf8(key) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "base64": data_encoding::BASE64.encode(key) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_conflicts_have_their_form() {
        let document = Document { text: b"1.10".as_slice().into(), version: 7, expires_at: Millis::NEVER };
        assert_eq!(object(b"a\"", Some(&document)), r#"{"key":"a\"","value":1.10,"version":7}"#);
        let soon = Document { expires_at: Millis(9), ..document };
        assert_eq!(
            object(b"\xff", Some(&soon)),
            r#"{"key":{"base64":"/w=="},"value":1.10,"version":7,"expiresAt":9}"#
        );
        let conflict = Refused::Conflict(StatusCode::CONFLICT, None).kept();
        let body = r#"{"error":{"code":"conflict","message":"there is no such document","current":null}}"#;
        assert_eq!((conflict.status, conflict.body.trim_ascii_end()), (409, body.as_bytes()));
    }
}
