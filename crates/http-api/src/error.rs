//! Errors of the documents API and the limits API, each with a stable code. Pure.

use http::StatusCode;
use keystead_cluster::Node;
use keystead_commands::hub::Rejection;
use keystead_commands::idempotency::StoredResponse;
use keystead_commands::json::document::Flaw;
use keystead_core::{Code, Error};
use keystead_model::keyspace::Miss;
use serde_json::{Value, json};

use crate::code;
use crate::idempotency::IdempotencyError;

const CROSS_SLOT: &str = "in a cluster the keys of a request must be in one slot: give them the same {tag}";

/// Why a request fails.
#[derive(Debug)]
pub enum ApiError {
    /// The request is wrong, in this way.
    Bad(String),
    /// The request has too many items.
    TooMany(String),
    /// There is no such thing.
    NotFound(String),
    /// The condition does not hold: the status of the response, and the current version.
    Conflict(StatusCode, Option<u64>),
    /// A `test` of the patch does not hold; the current version.
    Test(Option<u64>),
    /// The body is of another media type.
    Media(String),
    /// The key holds something else.
    WrongType(&'static str),
    /// It does not fit the current state.
    Unprocessable(String),
    /// It is too large.
    TooLarge(String),
    /// The token may only read.
    ReadOnly,
    /// The token of an offline client is for another prefix.
    OutsidePrefix,
    /// This node of a cluster does not serve the keys.
    NotServed(Rejection),
    /// The operation of a batch that failed, and why.
    Operation(usize, Box<ApiError>),
    /// The database failed.
    Broken(Error),
}

impl ApiError {
    /// The request is wrong, in this way.
    pub fn bad(why: impl Into<String>) -> ApiError {
        ApiError::Bad(why.into())
    }

    /// There is no document under this key.
    #[must_use]
    pub fn not_found(key: &[u8]) -> ApiError {
        ApiError::NotFound(format!("there is no document '{}'", String::from_utf8_lossy(key)))
    }

    /// The error of a JSON text, which messages call `what`.
    #[must_use]
    pub fn flaw(what: &str, flaw: &Flaw) -> ApiError {
        match flaw {
            Flaw::NotJson(why) => ApiError::Bad(format!("{what} is not JSON: {why}")),
            Flaw::TooDeep => ApiError::Bad(format!("{what} is nested too deeply")),
            Flaw::TooLong => ApiError::TooLarge(format!("{what} is too large")),
        }
    }

    /// Status, code, message, and the version where it matters.
    fn parts(&self) -> (StatusCode, &str, &str, Option<Option<u64>>) {
        match self {
            ApiError::Bad(why) => (StatusCode::BAD_REQUEST, Code::BadRequest.as_str(), why, None),
            ApiError::TooMany(why) => (StatusCode::BAD_REQUEST, code::TOO_MANY_ITEMS, why, None),
            ApiError::NotFound(why) => (StatusCode::NOT_FOUND, code::NOT_FOUND, why, None),
            ApiError::Conflict(status, current) => {
                let why = match current {
                    Some(_) => "the document has another version than the request requires",
                    None => "there is no such document",
                };
                (*status, Code::Conflict.as_str(), why, Some(*current))
            }
            ApiError::Test(current) => {
                let why = "a test of the patch does not hold";
                (StatusCode::CONFLICT, Code::Conflict.as_str(), why, Some(*current))
            }
            ApiError::Media(why) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, code::UNSUPPORTED_MEDIA_TYPE, why, None)
            }
            ApiError::WrongType(kind) => (StatusCode::CONFLICT, Code::WrongType.as_str(), kind, None),
            ApiError::Unprocessable(why) => {
                (StatusCode::UNPROCESSABLE_ENTITY, code::UNPROCESSABLE, why, None)
            }
            ApiError::TooLarge(why) => (StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge.as_str(), why, None),
            ApiError::Operation(_, error) => error.parts(),
            ApiError::ReadOnly => (StatusCode::FORBIDDEN, code::FORBIDDEN, "this token may only read", None),
            ApiError::OutsidePrefix => (
                StatusCode::FORBIDDEN,
                code::FORBIDDEN,
                "the prefix does not begin with the prefix of the token",
                None,
            ),
            ApiError::NotServed(rejection) => match rejection {
                Rejection::Moved { .. } => (
                    StatusCode::MISDIRECTED_REQUEST,
                    code::MOVED,
                    "another node of the cluster owns this key",
                    None,
                ),
                Rejection::CrossSlot => {
                    (StatusCode::BAD_REQUEST, Code::BadRequest.as_str(), CROSS_SLOT, None)
                }
                Rejection::Parked(_) => {
                    let why = "the slot of this key is being moved to another node: try again";
                    (StatusCode::SERVICE_UNAVAILABLE, Code::TryAgain.as_str(), why, None)
                }
                Rejection::Unassigned(_) => {
                    let why = "no node of the cluster owns the slot of this key";
                    (StatusCode::SERVICE_UNAVAILABLE, Code::StoreUnavailable.as_str(), why, None)
                }
            },
            ApiError::Broken(error) => {
                (crate::status::of(error.code()), error.code().as_str(), error.message(), None)
            }
        }
    }

    /// The response, in the form that can be stored.
    #[must_use]
    pub fn stored(&self) -> StoredResponse {
        let (status, code, message, current) = self.parts();
        let mut error = json!({ "code": code, "message": message });
        if let (Value::Object(error), Some(current)) = (&mut error, current) {
            error.insert("current".to_owned(), json!(current));
        }
        if let (Value::Object(error), ApiError::Operation(index, _)) = (&mut error, self) {
            error.insert("operation".to_owned(), json!(index));
        }
        if let (Value::Object(error), Some((slot, owner, epoch))) = (&mut error, self.moved()) {
            for (name, value) in [
                ("slot", json!(slot)),
                ("node", json!(owner.id.as_str())),
                ("owner", json!(owner.http)),
                ("epoch", json!(epoch)),
            ] {
                error.insert(name.to_owned(), value);
            }
        }
        let body = format!("{}\n", json!({ "error": error }));
        StoredResponse { status: status.as_u16(), version: None, body: body.into_bytes() }
    }

    /// The response of a request that changed nothing; an error when the database failed.
    ///
    /// # Errors
    /// Itself, when the database failed.
    pub fn unless_broken(self) -> Result<StoredResponse, ApiError> {
        match self {
            ApiError::Broken(_) => Err(self),
            error => Ok(error.stored()),
        }
    }

    /// The slot, its owner and the epoch, if another node owns the key.
    #[must_use]
    pub fn moved(&self) -> Option<(u16, &Node, u64)> {
        match self {
            ApiError::NotServed(Rejection::Moved { slot, owner, epoch }) => Some((*slot, owner, epoch.0)),
            _ => None,
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        ApiError::Broken(error)
    }
}

impl From<IdempotencyError> for ApiError {
    fn from(error: IdempotencyError) -> Self {
        match error {
            IdempotencyError::InvalidKey => ApiError::Bad(error.words()),
            IdempotencyError::KeyReused => ApiError::Unprocessable(error.words()),
            IdempotencyError::ResponseTooLarge => ApiError::TooLarge(error.words()),
        }
    }
}

impl From<Miss> for ApiError {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::WrongType(_) => ApiError::WrongType("the key holds a value that is not a document"),
            Miss::Failed(error) => ApiError::Broken(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_reports_the_current_version() {
        let conflict = ApiError::Conflict(StatusCode::CONFLICT, None).stored();
        let body = r#"{"error":{"code":"conflict","message":"there is no such document","current":null}}"#;
        assert_eq!((conflict.status, conflict.body.trim_ascii_end()), (409, body.as_bytes()));
    }
}
