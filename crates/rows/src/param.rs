//! A value as a bound parameter that fits its column. Pure.
//!
//! A value that cannot be stored without changing its meaning is rejected here, also for targets that would convert it silently.

use serde_json::Value;

/// What a column takes, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Whole numbers of 64 bits.
    Integer,
    /// Doubles.
    Real,
    /// True and false.
    Bool,
    /// JSON.
    Json,
    /// The target converts text by itself, and rejects what does not fit.
    Other,
}

/// A bound parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// NULL.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A double.
    Real(f64),
    /// Text.
    Text(String),
}

impl Param {
    /// At most how many bytes it takes in a request, with its type and its length.
    #[must_use]
    pub fn size(&self) -> usize {
        let bytes = match self {
            Param::Text(text) => text.len(),
            _ => 8,
        };
        bytes + 12
    }

    /// A value for a column of this name and kind.
    ///
    /// # Errors
    /// Why it does not fit.
    pub fn of(value: Option<&Value>, kind: Kind, column: &str) -> Result<Param, String> {
        let Some(value) = value.filter(|value| !value.is_null() || kind == Kind::Json) else {
            return Ok(Param::Null);
        };
        let fits = match kind {
            Kind::Json => Some(Param::Text(value.to_string())),
            Kind::Text | Kind::Other => Some(Param::Text(text_of(value))),
            Kind::Integer => integer(value).map(Param::Integer),
            Kind::Real => real(value).map(Param::Real),
            Kind::Bool => bool_of(value).map(Param::Bool),
        };
        fits.ok_or_else(|| {
            let (kind, mut shown) = (format!("{kind:?}").to_lowercase(), value.to_string());
            shown.truncate((0..=40).rev().find(|end| shown.is_char_boundary(*end)).unwrap_or(0));
            format!("{shown} does not fit the column {column} of type {kind}")
        })
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let number = number.as_f64()?;
            // Doubles below 2^53 are exact.
            (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

fn bool_of(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::Number(number) => match number.as_i64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        Value::String(text) => match text.as_str() {
            "0" | "false" => Some(false),
            "1" | "true" => Some(true),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_fits_or_is_rejected() {
        let of = |value: Value, kind| Param::of(Some(&value), kind, "c").ok();
        let text = |text: &str| Some(Param::Text(text.to_owned()));
        assert_eq!(of(json!(null), Kind::Integer), Some(Param::Null));
        assert_eq!(of(json!(null), Kind::Json), text("null"));
        assert_eq!(of(json!("a"), Kind::Json), text("\"a\""));
        assert_eq!(of(json!("a"), Kind::Text), text("a"));
        assert_eq!(of(json!({"a": 1}), Kind::Text), text("{\"a\":1}"));
        assert_eq!(of(json!(18_446_744_073_709_551_615u64), Kind::Other), text("18446744073709551615"));
        assert_eq!(of(json!(3.0), Kind::Integer), Some(Param::Integer(3)));
        assert_eq!(of(json!("-3"), Kind::Integer), Some(Param::Integer(-3)));
        assert_eq!(of(json!("1"), Kind::Bool), Some(Param::Bool(true)));
        assert_eq!(of(json!("2.5"), Kind::Real), Some(Param::Real(2.5)));
        for (value, kind) in [
            (json!(3.5), Kind::Integer),
            (json!(u64::MAX), Kind::Integer),
            (json!("x"), Kind::Integer),
            (json!(true), Kind::Integer),
            (json!("NaN"), Kind::Real),
            (json!([1]), Kind::Real),
            (json!(2), Kind::Bool),
            (json!("yes"), Kind::Bool),
        ] {
            assert_eq!(of(value.clone(), kind), None, "{value} {kind:?}");
        }
        let reason = Param::of(Some(&json!("ü".repeat(50))), Kind::Integer, "age").unwrap_err();
        assert!(reason.ends_with("does not fit the column age of type integer"), "{reason}");
        assert_eq!(Param::of(None, Kind::Json, "c"), Ok(Param::Null));
    }
}
