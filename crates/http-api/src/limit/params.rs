//! The parts of a request of the limits API: its body, the status of a denial. Pure.

use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;

use crate::error::ApiError;
use crate::parameters::Parameters;
use crate::written::Object;

/// The parameter for the status of a denial.
pub const STATUS: &str = "status";

/// The status of a denial: 200, or 429 if the query says so.
///
/// # Errors
/// When it says something else.
pub fn denial(head: &Parts) -> Result<StatusCode, ApiError> {
    match Parameters::of(head, &[STATUS])?.text(STATUS)? {
        None | Some("200") => Ok(StatusCode::OK),
        Some("429") => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some(_) => Err(ApiError::bad("the parameter 'status' is 200 or 429: the status of a denial")),
    }
}

/// Reads a body, of which `form` is an example.
///
/// # Errors
/// What is wrong with it.
pub fn body<'a, T: Deserialize<'a>>(bytes: &'a [u8], form: &str) -> Result<T, ApiError> {
    let read: Result<Object<T>, _> = serde_json::from_slice(bytes);
    read.map(|body| body.0).map_err(|error| ApiError::bad(format!("invalid body: {error}: send {form}")))
}

/// The default cost.
#[must_use]
pub fn one() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use keystead_limit::bounds::WHOLE_MAX;

    use super::*;
    use crate::written::{self, KeyText};

    fn head(target: &str) -> Parts {
        http::Request::builder().uri(target).body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_query_sets_the_status_of_a_denial() {
        assert_eq!(denial(&head("/limit/a")).unwrap(), StatusCode::OK);
        assert_eq!(denial(&head("/limit/a?status=429")).unwrap(), StatusCode::TOO_MANY_REQUESTS);
        for target in ["/limit/a?status=503", "/limit/a?stauts=429", "/limit/a?status=429&status=429"] {
            assert!(denial(&head(target)).is_err(), "{target}");
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Some<'a> {
        #[serde(borrow)]
        key: KeyText<'a>,
        #[serde(default = "one", deserialize_with = "written::whole")]
        cost: u64,
        #[serde(default, deserialize_with = "written::whole_or_none")]
        ttl: Option<u64>,
    }

    fn some(text: &'static str) -> Result<(u64, Option<u64>), String> {
        match body::<Some<'_>>(text.as_bytes(), "{}") {
            Ok(some) => Ok((some.cost, some.ttl)),
            Err(ApiError::Bad(why)) => Err(why),
            Err(other) => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        for text in ["7", "7.0", "7e0", "0.7e1", "70e-1"] {
            let text = format!(r#"{{"key":"k","cost":{text},"ttl":{text}}}"#);
            assert_eq!(some(text.leak()), Ok((7, Option::Some(7))));
        }
        assert_eq!(some(r#"{"key":"k","ttl":null}"#), Ok((1, None)));
        assert_eq!(some(r#"{"key":"k","cost":9007199254740991.0}"#), Ok((WHOLE_MAX, None)));
        for text in ["1.5", "-1", "-1.0", "1e300", "9007199254740993.0", "\"1\"", "null", "[1]", "true"] {
            let why = some(format!(r#"{{"key":"k","cost":{text}}}"#).leak()).unwrap_err();
            assert!(why.contains("expected a whole number up to 9007199254740991"), "{why}");
        }
    }

    #[test]
    fn only_an_object_is_a_body_and_no_names_of_types_are_shown() {
        for text in [r#"["k",1]"#, "[]", "1", "null", "\"k\"", "true"] {
            let why = some(text).unwrap_err();
            assert!(why.contains("expected a JSON object") && !why.contains("struct"), "{why}");
        }
        assert!(some(r#"{"key":"k","key":"k"}"#).unwrap_err().contains("duplicate field `key`"));
        assert!(some(r#"{"key":"k"} {}"#).unwrap_err().contains("trailing"));
    }
}
