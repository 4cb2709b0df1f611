//! Documents as trees: parsing, formatting, and the types of values. It touches nothing.
//!
//! The stored text of a document is its compact form: no white space, members in insertion order, and the last of
//! members with the same name. Numbers keep their digits; only the exponent is
//! normalised (`1E5` is `1e+5`). All APIs that write documents use [`normal`] or
//! [`print()`], so all of them read the same bytes. A tree is at most [`JSON_DEPTH_MAX`] levels deep, whatever its source,
//! so recursion over it uses a bounded part of the stack.

use serde_json::Value;

use super::tree;
use crate::bounds::{JSON_BYTES_MAX, JSON_DEPTH_MAX};
use crate::errors::Fail;

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is not valid JSON; why.
    NotJson(String),
    /// Arrays and objects are nested too deeply.
    TooDeep,
    /// Its text is too long.
    TooLong,
}

impl From<Flaw> for Fail {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::NotJson(why) => Fail::text(format!("ERR {why}")),
            Flaw::TooDeep => Fail::fixed("ERR recursion limit exceeded"),
            Flaw::TooLong => Fail::fixed("ERR document exceeds maximum allowed size"),
        }
    }
}

/// The tree of a text.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &[u8]) -> Result<Value, Flaw> {
    if text.len() > JSON_BYTES_MAX {
        return Err(Flaw::TooLong);
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = &text[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Flaw::NotJson(format!("invalid UTF-8 at line {line} column {column}"))
    })?;
    tree::read(text).map_err(|error| {
        let why = error.to_string();
        if why.starts_with("recursion limit exceeded") { Flaw::TooDeep } else { Flaw::NotJson(why) }
    })
}

/// The compact text of a tree.
///
/// # Errors
/// When the tree is too deep or the text too long for a document.
pub fn print(tree: &Value) -> Result<String, Flaw> {
    if !within(tree, JSON_DEPTH_MAX) {
        return Err(Flaw::TooDeep);
    }
    let text = tree.to_string();
    if text.len() > JSON_BYTES_MAX { Err(Flaw::TooLong) } else { Ok(text) }
}

/// The compact form of a text.
///
/// # Errors
/// What is wrong with it.
pub fn normal(text: &[u8]) -> Result<String, Flaw> {
    print(&parse(text)?)
}

/// Whether a tree has at most so many levels of arrays and objects.
pub(crate) fn within(tree: &Value, levels: usize) -> bool {
    match tree {
        Value::Array(items) => levels > 0 && items.iter().all(|item| within(item, levels - 1)),
        Value::Object(members) => levels > 0 && members.values().all(|member| within(member, levels - 1)),
        _ => true,
    }
}

/// The type of a value, as JSON.TYPE names it.
#[must_use]
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_integer(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a number is written without a fraction and an exponent.
#[must_use]
pub fn is_integer(number: &serde_json::Number) -> bool {
    !number.as_str().contains(['.', 'e', 'E'])
}

/// Whether two values are equal as defined by RFC 6902: numbers by value, not by notation.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let is_exact = is_integer(a) && is_integer(b);
            a.as_str() == b.as_str() || !is_exact && a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Whether two values are equal for JSON.ARRINDEX: an integer is never equal to a number with a fraction, and the order of
/// members does not matter.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let either = a.as_str() == b.as_str() || a.as_f64() == b.as_f64() && !is_integer(a);
            is_integer(a) == is_integer(b) && either
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        normal(text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_keep_their_digits() {
        for text in [
            "0",
            "-0",
            "1",
            "1.0",
            "1.10",
            "9007199254740993",
            "-9223372036854775808",
            "18446744073709551616",
            "123456789012345678901234567890.123456789012345678901234567890",
            "-1.5e-7",
            "1e+2",
        ] {
            assert_eq!(again(text), text);
        }
        for (text, again) in [("1e400", "1e+400"), ("1E2", "1e+2"), ("1E-2", "1e-2")] {
            assert_eq!(normal(text.as_bytes()).unwrap(), again, "only the exponent is written in one way");
        }
    }

    #[test]
    fn the_compact_form_keeps_the_order_of_members_and_the_last_of_each_name() {
        assert_eq!(again(" { \"b\" : 1 , \"a\" : [ true , null ] } "), r#"{"b":1,"a":[true,null]}"#);
        assert_eq!(again(r#"{"a":1,"b":2,"a":3}"#), r#"{"a":3,"b":2}"#);
        assert_eq!(again(r#""\u00e9\/\n\u0001""#), "\"é/\\n\\u0001\"");
    }

    #[test]
    fn invalid_documents_are_rejected() {
        for text in ["", " ", "{", "[1,]", "{'a':1}", "01", "nul", "1 2", "\"\\ud800\"", "NaN"] {
            assert!(matches!(parse(text.as_bytes()), Err(Flaw::NotJson(_))), "{text}");
        }
        assert!(matches!(parse(b"\"\xff\""), Err(Flaw::NotJson(_))));
        assert_eq!(parse(&vec![b' '; JSON_BYTES_MAX + 1]), Err(Flaw::TooLong));
    }

    #[test]
    fn depth_is_limited_when_read_and_when_written() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(parse(nested(JSON_DEPTH_MAX + 1).as_bytes()), Err(Flaw::TooDeep));
        assert_eq!(parse(nested(1_000_000).as_bytes()), Err(Flaw::TooDeep));
        let deepest = parse(nested(JSON_DEPTH_MAX).as_bytes()).unwrap();
        assert!(print(&deepest).is_ok());
        assert_eq!(print(&Value::Array(vec![deepest])), Err(Flaw::TooDeep));
    }

    #[test]
    fn equality_distinguishes_integers_from_other_numbers() {
        let same = |a: &str, b: &str| same(&parse(a.as_bytes()).unwrap(), &parse(b.as_bytes()).unwrap());
        assert!(same("1", "1") && same("1.0", "1.00") && same("1.5", "15e-1"));
        assert!(!same("1", "1.0") && !same("9007199254740993", "9007199254740992"));
        assert!(same(r#"{"a":1,"b":[2]}"#, r#"{"b":[2],"a":1}"#) && !same("[1]", "[1,1]"));
        assert!(!same(r#"{"a":1}"#, r#"{"b":1}"#) && same("null", "null") && !same("\"1\"", "1"));
    }
}
