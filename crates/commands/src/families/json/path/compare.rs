//! Comparisons in a filter, as defined by RFC 9535. It touches nothing.
//!
//! An absent value equals only another absent value; values of different types are unequal and have no order.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::PathFlaw;
use super::select::Walk;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Whether a comparison holds.
pub(super) fn holds(
    left: Option<&Value>,
    operator: Operator,
    right: Option<&Value>,
    walk: &mut Walk<'_>,
) -> Result<bool, PathFlaw> {
    let equal = match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => equal(left, right, walk)?,
        _ => false,
    };
    let order = || match (left, right) {
        (Some(Value::Number(left)), Some(Value::Number(right))) => number_order(left, right),
        (Some(Value::String(left)), Some(Value::String(right))) => Some(left.cmp(right)),
        _ => None,
    };
    Ok(match operator {
        Operator::Equal => equal,
        Operator::Unequal => !equal,
        Operator::Less => order() == Some(Ordering::Less),
        Operator::AtMost => equal || order() == Some(Ordering::Less),
        Operator::More => order() == Some(Ordering::Greater),
        Operator::AtLeast => equal || order() == Some(Ordering::Greater),
    })
}

fn equal(left: &Value, right: &Value, walk: &mut Walk<'_>) -> Result<bool, PathFlaw> {
    walk.visit(1)?;
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Ok(number_order(left, right) == Some(Ordering::Equal)),
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (left, right) in left.iter().zip(right) {
                if !equal(left, right, walk)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            for (name, left) in left {
                let Some(right) = right.get(name) else { return Ok(false) };
                if !equal(left, right, walk)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Array(_) | Value::Object(_), _) => Ok(false),
        _ => Ok(left == right),
    }
}

/// Integers are compared exactly, other numbers as doubles.
fn number_order(left: &Number, right: &Number) -> Option<Ordering> {
    if let (Some(left), Some(right)) = (left.as_i128(), right.as_i128()) {
        return Some(left.cmp(&right));
    }
    left.as_f64()?.partial_cmp(&right.as_f64()?)
}
