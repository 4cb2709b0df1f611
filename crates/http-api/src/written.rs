//! How keys and numbers are written in JSON: in requests, responses and recorded lines. Pure.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use keystead_limit::bounds::WHOLE_MAX;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A JSON object with the fields of `T`. A derived `Deserialize` would also accept an array of the values in their order.
pub struct Object<T>(pub T);

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
        // Up to there, every whole number is exactly one double.
        match number.fract() == 0.0 && (0.0..=WHOLE_MAX as f64).contains(&number) {
            true => Ok(Whole(number as u64)),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

/// Reads a whole number of a body.
pub fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Whole::deserialize(deserializer).map(|whole| whole.0)
}

/// The same where it may be left out.
pub fn whole_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::<Whole>::deserialize(deserializer).map(|whole| whole.map(|whole| whole.0))
}

/// A key: a string, or `{"base64":"..."}` if it is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText<'a>(pub Cow<'a, [u8]>);

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

/// A key in JSON: a string if it is UTF-8, otherwise its bytes in an object.
pub fn shown(key: &[u8]) -> Value {
    match std::str::from_utf8(key) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "base64": data_encoding::BASE64.encode(key) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_key_is_shown_as_it_is_taken() {
        assert_eq!(shown(b"ada"), json!("ada"));
        assert_eq!(shown(b"\xff"), json!({ "base64": "/w==" }));
    }
}
