//! Values of SQL in JSON: whatever a row has is read back unchanged. Pure.
//!
//! | SQL                              | JSON                             |
//! |----------------------------------|----------------------------------|
//! | NULL                             | `null`                           |
//! | INTEGER that every reader holds  | `42`                             |
//! | INTEGER beyond 2^53              | `{"int":"9007199254740993"}`     |
//! | REAL                             | `{"real":"0.1"}`                 |
//! | TEXT                             | `"text"`                         |
//! | BLOB                             | `{"blob":"BASE64"}`              |

use std::borrow::Cow;
use std::fmt;

use data_encoding::BASE64;
use keystead_model::sql::Param;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Up to here every whole number is a double of its own.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// The member under which serde_json hands over a number as text, where a crate has asked it to keep all digits.
const NUMBER: &str = "$serde_json::private::Number";

/// A value of a row, or of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// INTEGER.
    Int(i64),
    /// REAL.
    Real(f64),
    /// TEXT.
    Text(String),
    /// BLOB.
    Blob(Vec<u8>),
}

impl Value {
    /// As the model's statements have it.
    #[must_use]
    pub fn param(&self) -> Param<'_> {
        match self {
            Value::Null => Param::Null,
            Value::Int(number) => Param::Int(*number),
            Value::Real(number) => Param::Real(*number),
            Value::Text(text) => Param::Text(text),
            Value::Blob(bytes) => Param::Blob(bytes),
        }
    }

    /// Whether a row has what was expected. Where JavaScript is in between, a whole number may come as a double or as text.
    #[must_use]
    pub fn is(&self, expected: &Value) -> bool {
        match (self, expected) {
            (Value::Int(number), Value::Real(real)) | (Value::Real(real), Value::Int(number)) => {
                *real == *number as f64 && number.unsigned_abs() <= EXACT_MAX
            }
            (Value::Int(number), Value::Text(text)) | (Value::Text(text), Value::Int(number)) => {
                *text == number.to_string()
            }
            (one, other) => one == other,
        }
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

impl From<&Param<'_>> for Value {
    fn from(param: &Param<'_>) -> Value {
        match *param {
            Param::Null => Value::Null,
            Param::Int(number) => Value::Int(number),
            Param::Real(number) => Value::Real(number),
            Param::Text(text) => Value::Text(text.to_owned()),
            Param::Blob(bytes) => Value::Blob(bytes.to_vec()),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tagged = |serializer: S, name: &str, text: &str| {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(name, text)?;
            map.end()
        };
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Int(number) if number.unsigned_abs() <= EXACT_MAX => serializer.serialize_i64(*number),
            Value::Int(number) => tagged(serializer, "int", &number.to_string()),
            // Its shortest text that is read back as the same double; also -0, inf and -inf.
            Value::Real(number) => tagged(serializer, "real", &number.to_string()),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Blob(bytes) => tagged(serializer, "blob", &BASE64.encode(bytes)),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a number, text, {\"int\":\"1\"}, {\"real\":\"0.1\"} or {\"blob\":\"BASE64\"}")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        i64::try_from(number).map(Value::Int).map_err(|_| E::custom("a whole number is over 2^63 - 1"))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Real(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let entry: Option<(Cow<'de, str>, Cow<'de, str>)> = map.next_entry()?;
        let (name, text) = entry.ok_or_else(|| A::Error::custom("a value is an empty object"))?;
        let value = match &*name {
            "int" => text.parse().ok().map(Value::Int),
            // NaN is NULL in SQL.
            "real" | NUMBER => text.parse().ok().filter(|number: &f64| !number.is_nan()).map(Value::Real),
            "blob" => BASE64.decode(text.as_bytes()).ok().map(Value::Blob),
            _ => None,
        };
        let value = value.ok_or_else(|| A::Error::custom("a value is an object of another form"))?;
        match map.next_key::<Cow<'de, str>>()? {
            None => Ok(value),
            Some(_) => Err(A::Error::custom("a value is an object with several members")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Option<Value> {
        serde_json::from_str(json).ok()
    }

    #[test]
    fn forms_are_stable() {
        for (value, json) in [
            (Value::Null, "null"),
            (Value::Int(-42), "-42"),
            (Value::Int(9_007_199_254_740_991), "9007199254740991"),
            (Value::Int(9_007_199_254_740_993), r#"{"int":"9007199254740993"}"#),
            (Value::Int(i64::MIN), r#"{"int":"-9223372036854775808"}"#),
            (Value::Real(1.0), r#"{"real":"1"}"#),
            (Value::Real(-0.0), r#"{"real":"-0"}"#),
            (Value::Real(f64::INFINITY), r#"{"real":"inf"}"#),
            (Value::Text("a\"\u{e9}".to_owned()), "\"a\\\"\u{e9}\""),
            (Value::Blob(vec![0, 255]), r#"{"blob":"AP8="}"#),
        ] {
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
            assert_eq!(read(json), Some(value));
        }
        assert_eq!(read("0.5"), Some(Value::Real(0.5)));
    }

    #[test]
    fn other_forms_are_errors() {
        for json in [
            "true",
            "[]",
            "{}",
            "9223372036854775808",
            r#"{"int":1}"#,
            r#"{"int":"x"}"#,
            r#"{"real":"NaN"}"#,
            r#"{"blob":"?"}"#,
            r#"{"blob":"AP8"}"#,
            r#"{"text":"x"}"#,
            r#"{"int":"1","real":"1"}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn javascript_changes_no_comparison() {
        assert!(Value::Real(5.0).is(&Value::Int(5)) && Value::Text("5".into()).is(&Value::Int(5)));
        assert!(!Value::Real(5.5).is(&Value::Int(5)) && !Value::Text("05".into()).is(&Value::Int(5)));
        assert!(!Value::Null.is(&Value::Int(0)));
    }

    proptest! {
        #[test]
        fn numbers_and_bytes_survive(int: i64, real in any::<f64>().prop_filter("NaN is NULL", |n| !n.is_nan()), bytes: Vec<u8>) {
            for value in [Value::Int(int), Value::Blob(bytes.clone())] {
                prop_assert_eq!(read(&serde_json::to_string(&value).unwrap()), Some(value));
            }
            let Some(Value::Real(again)) = read(&serde_json::to_string(&Value::Real(real)).unwrap()) else {
                panic!("not a double")
            };
            prop_assert_eq!(again.to_bits(), real.to_bits());
        }
    }
}
