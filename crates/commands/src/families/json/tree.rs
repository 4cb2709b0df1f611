//! The tree of a JSON text, in which every member is an ordinary member. It touches nothing.
//!
//! serde_json represents a number that keeps its digits as a map with one member of a private name, and its `Value` reads any map that
//! begins with such a name as a number, or as JSON within a string. A client may use these names like any other, so they are handled here:
//! a name is serde_json's own only if it does not occur in the text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a text.
///
/// # Errors
/// The error of serde_json.
pub(super) fn read(text: &str) -> serde_json::Result<Value> {
    let start = text.as_ptr().addr();
    let mut reader = serde_json::Deserializer::from_str(text);
    let tree = Tree { start, end: start + text.len() }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(tree)
}

/// Parses a value of the text at these addresses.
#[derive(Clone, Copy)]
struct Tree {
    start: usize,
    end: usize,
}

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key_seed(NameIn(self))? {
            match name {
                Name::Member(name) => {
                    members.insert(name, map.next_value_seed(self)?);
                }
                Name::OfNumber => {
                    let digits: String = map.next_value()?;
                    return digits.parse::<Number>().map(Value::Number).map_err(A::Error::custom);
                }
            }
        }
        Ok(Value::Object(members))
    }
}

/// The name of a member.
enum Name {
    /// A name in the text.
    Member(String),
    /// serde_json's own name, whose value is the digits of a number.
    OfNumber,
}

/// Parses the name of a member.
struct NameIn(Tree);

impl<'de> DeserializeSeed<'de> for NameIn {
    type Value = Name;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Name, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameIn {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    /// A name without escapes is borrowed from the text.
    #[inline]
    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Name, E> {
        let at = name.as_ptr().addr();
        let is_of_text = (self.0.start..=self.0.end).contains(&at);
        Ok(if is_of_text { Name::Member(name.to_owned()) } else { Name::OfNumber })
    }

    /// A name with escapes was copied.
    fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
        Ok(Name::Member(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All names to which serde_json may give a meaning.
    const PRIVATE: &[&str] = &[
        "$serde_json::private::Number",
        "$serde_json::private::RawValue",
        r"\u0024serde_json::private::Number",
    ];

    #[test]
    fn private_names_are_names_at_any_depth() {
        for name in PRIVATE {
            for text in [
                format!(r#"{{"{name}":"1"}}"#),
                format!(r#"{{"{name}":"[1,2]"}}"#),
                format!(r#"{{"{name}":7}}"#),
                format!(r#"{{"{name}":{{"{name}":"x"}}}}"#),
                format!(r#"[1,{{"a":{{"{name}":"1"}}}}]"#),
                format!(r#"{{"a":1,"{name}":"1","b":2}}"#),
                format!(r#"{{"{name}":"1","b":2}}"#),
            ] {
                let printed = read(&text).unwrap().to_string();
                assert_eq!(printed, text.replace(r"\u0024", "$"));
                assert_eq!(read(&printed).unwrap().to_string(), printed, "and once more");
            }
        }
    }

    #[test]
    fn everything_else_is_read_as_serde_json_reads_it() {
        for text in [
            "null",
            " [ true , false , \"\" , {} , [] ] ",
            "-0",
            "1E400",
            "123456789012345678901234567890.10",
            r#"{"":1,"a":{"":2},"a":3,"\n":"\ud83d\ude00","é":-1.5e-7}"#,
        ] {
            assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        for text in ["", "{", "[1,]", "{\"a\"}", "1 2", "nul", "\"\\ud800\"", "[01]", "-", "{1:2}"] {
            let (ours, theirs) = (read(text).unwrap_err(), serde_json::from_str::<Value>(text).unwrap_err());
            assert_eq!(ours.to_string(), theirs.to_string(), "{text}");
        }
    }
}
