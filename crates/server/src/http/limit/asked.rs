//! What a request of the limit door asks for: its path, its body, how a denial is told. Pure.

use std::borrow::Cow;
use std::fmt;

use hyper::StatusCode;
use hyper::http::request::Parts;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::parameters::{Parameters, decoded};
use super::super::refused::Refused;

const START: &str = "/limit/";
/// The parameter that says which status a denial has.
pub(super) const STATUS: &str = "status";

/// The parts of a path behind `/limit/`: a policy, and an action or a key, still encoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path<'a> {
    pub(super) policy: &'a str,
    pub(super) rest: Option<&'a str>,
}

impl<'a> Path<'a> {
    pub(super) fn of(head: &'a Parts) -> Result<Path<'a>, Refused> {
        let text = head.uri.path().strip_prefix(START).unwrap_or_default();
        let (policy, rest) = match text.split_once('/') {
            Some((policy, rest)) => (policy, Some(rest)),
            None => (text, None),
        };
        if policy.is_empty() || rest == Some("") {
            return Err(Refused::bad("the path is /limit/POLICY, or /limit/POLICY/KEY"));
        }
        if rest.is_some_and(|rest| rest.contains('/')) {
            return Err(Refused::bad("a '/' in a key is written %2F"));
        }
        Ok(Path { policy, rest })
    }
}

/// The key in a path.
pub(super) fn key(text: &str) -> Result<Cow<'_, [u8]>, Refused> {
    decoded(text, false)
}

/// The status of a denial: 200, or 429 where the query asks for it.
pub(super) fn denial(head: &Parts) -> Result<StatusCode, Refused> {
    match Parameters::of(head, &[STATUS])?.text(STATUS)? {
        None | Some("200") => Ok(StatusCode::OK),
        Some("429") => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some(_) => Err(Refused::bad("the parameter 'status' is 200 or 429: the status of a denial")),
    }
}

/// Reads a body, of which `form` is an example.
pub(super) fn body<'a, T: Deserialize<'a>>(bytes: &'a [u8], form: &str) -> Result<T, Refused> {
    serde_json::from_slice(bytes)
        .map_err(|error| Refused::bad(format!("the body is not as it should be: {error}: send {form}")))
}

/// A key: text, or `{"base64":"..."}` where it is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyText<'a>(pub(super) Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for KeyText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = KeyText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key: text, or {\"base64\":\"...\"}")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<KeyText<'de>, E> {
        Ok(KeyText(Cow::Borrowed(text.as_bytes())))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<KeyText<'de>, E> {
        Ok(KeyText(Cow::Owned(text.as_bytes().to_vec())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyText<'de>, A::Error> {
        let bytes = match map.next_entry::<String, String>()? {
            Some((name, text)) if name == "base64" => data_encoding::BASE64.decode(text.as_bytes()).ok(),
            _ => None,
        };
        match (bytes, map.next_key::<String>()?) {
            (Some(bytes), None) => Ok(KeyText(Cow::Owned(bytes))),
            _ => Err(A::Error::custom("a key that is an object is {\"base64\":\"...\"}")),
        }
    }
}

/// One unit, where nobody says more.
pub(super) fn one() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(target: &str) -> Parts {
        hyper::Request::builder().uri(target).body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_path_names_a_policy_and_perhaps_something_of_it() {
        assert_eq!(Path::of(&head("/limit/a")).unwrap(), Path { policy: "a", rest: None });
        assert_eq!(Path::of(&head("/limit/a/b%2Fc")).unwrap(), Path { policy: "a", rest: Some("b%2Fc") });
        for target in ["/limit/", "/limit//a", "/limit/a/", "/limit/a/b/c"] {
            assert!(Path::of(&head(target)).is_err(), "{target}");
        }
        assert_eq!(&*key("b%2Fc").unwrap(), b"b/c");
    }

    #[test]
    fn a_denial_is_told_as_the_query_asks() {
        assert_eq!(denial(&head("/limit/a")).unwrap(), StatusCode::OK);
        assert_eq!(denial(&head("/limit/a?status=429")).unwrap(), StatusCode::TOO_MANY_REQUESTS);
        for target in ["/limit/a?status=503", "/limit/a?stauts=429", "/limit/a?status=429&status=429"] {
            assert!(denial(&head(target)).is_err(), "{target}");
        }
    }

    #[test]
    fn a_key_is_text_or_bytes_in_base64() {
        let key = |text: &'static str| serde_json::from_str::<KeyText<'_>>(text).map(|key| key.0);
        assert!(matches!(key("\"ada\""), Ok(Cow::Borrowed(b"ada"))));
        assert_eq!(&*key(r#""a\"b""#).unwrap(), b"a\"b");
        assert_eq!(&*key(r#"{"base64":"/w=="}"#).unwrap(), b"\xff");
        for text in
            ["1", "null", "[]", "{}", r#"{"base64":"?"}"#, r#"{"hex":"ff"}"#, r#"{"base64":"/w==","x":1}"#]
        {
            assert!(key(text).is_err(), "{text}");
        }
    }
}
