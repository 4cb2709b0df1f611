//! What a request of the limit door asks for: its path, its body, how a denial is told. Pure.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use hyper::StatusCode;
use hyper::http::request::Parts;
use keystead_limit::limits::WHOLE_MAX;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
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
    let read: Result<Object<T>, _> = serde_json::from_slice(bytes);
    read.map(|body| body.0)
        .map_err(|error| Refused::bad(format!("the body is not as it should be: {error}: send {form}")))
}

/// An object with the members of `T`. What derives its form would also take a list of the values in their order, which nobody means.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// A whole number, however it is written: `1`, `1.0`, `1e0`.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number up to {WHOLE_MAX}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
        // Up to there every whole number is a double, and none stands for two.
        match number.fract() == 0.0 && (0.0..=WHOLE_MAX as f64).contains(&number) {
            true => Ok(Whole(number as u64)),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

/// Reads a whole number of a body.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Whole::deserialize(deserializer).map(|whole| whole.0)
}

/// The same where it may be left out.
pub(super) fn whole_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::<Whole>::deserialize(deserializer).map(|whole| whole.map(|whole| whole.0))
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

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Some<'a> {
        #[serde(borrow)]
        key: KeyText<'a>,
        #[serde(default = "one", deserialize_with = "whole")]
        cost: u64,
        #[serde(default, deserialize_with = "whole_or_none")]
        ttl: Option<u64>,
    }

    fn some(text: &'static str) -> Result<(u64, Option<u64>), String> {
        match body::<Some<'_>>(text.as_bytes(), "{}") {
            Ok(some) => Ok((some.cost, some.ttl)),
            Err(Refused::Bad(why)) => Err(why),
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
    fn only_an_object_is_a_body_and_no_words_of_the_program_are_shown() {
        for text in [r#"["k",1]"#, "[]", "1", "null", "\"k\"", "true"] {
            let why = some(text).unwrap_err();
            assert!(why.contains("expected a JSON object") && !why.contains("struct"), "{why}");
        }
        assert!(some(r#"{"key":"k","key":"k"}"#).unwrap_err().contains("duplicate field `key`"));
        assert!(some(r#"{"key":"k"} {}"#).unwrap_err().contains("trailing"));
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
