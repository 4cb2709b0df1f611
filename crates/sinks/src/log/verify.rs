//! Compares the last state of a log with keys. Touches the target.

use keystead_core::Result;
use serde_json::Value;

use super::fold::KeyState;
use super::read::{Marks, state_of};
use super::{LogTarget, extent, states};
use crate::batch::{Change, Row, Shown};
use crate::bounds::LOG_FOLD_BYTES;

/// The keys of these rows whose last state in the log differs, or is missing, or is there though the key is deleted.
///
/// # Errors
/// `store_unavailable`; `too_large`.
pub async fn differing(log: &dyn LogTarget, rows: &[Row]) -> Result<Vec<String>> {
    let last = extent(log).await?.last;
    let Some(marks) = Marks::at(log, last).await? else {
        return Ok(rows.iter().map(|row| row.key.clone()).collect());
    };
    let mut keys = Vec::new();
    for row in rows {
        let (state, _) = state_of(log, &row.key, &marks, last).await?;
        let is_same = match (&row.change, &state) {
            (Change::Delete, KeyState::Absent) => true,
            (Change::Put { value, .. }, KeyState::Is(state)) => {
                state.version == row.version && is_same(&state.json(), value)
            }
            _ => false,
        };
        if !is_same {
            keys.push(row.key.clone());
        }
    }
    Ok(keys)
}

/// The last states of these keys, for people: those that the log has.
///
/// # Errors
/// As [`differing`].
pub async fn look(log: &dyn LogTarget, keys: &[String]) -> Result<Vec<Shown>> {
    let last = extent(log).await?.last;
    let Some(marks) = Marks::at(log, last).await? else { return Ok(Vec::new()) };
    let mut shown = Vec::new();
    for key in keys {
        if let (KeyState::Is(state), _) = state_of(log, key, &marks, last).await? {
            shown.push(Shown { key: key.clone(), version: state.version.0, value: state.json().to_string() });
        }
    }
    Ok(shown)
}

/// Keys that exist at the last event, in ascending order after this one, and at most so many; none at the end.
///
/// # Errors
/// As [`states`].
pub async fn live_keys(
    log: &dyn LogTarget,
    prefix: &str,
    after: Option<&str>,
    most: usize,
) -> Result<Vec<String>> {
    let mut after = after.map(str::to_owned);
    loop {
        let page = states(log, prefix, None, after.as_deref(), most, LOG_FOLD_BYTES).await?;
        if !page.keys.is_empty() || page.next.is_none() {
            return Ok(page.keys.into_iter().map(|(key, _)| key).collect());
        }
        after = page.next;
    }
}

/// Whether two values are the same. A target may write a number in another form.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same =
                |(name, value): (&String, &Value)| other.get(name).is_some_and(|there| is_same(value, there));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_the_same_in_any_form() {
        assert!(is_same(&json!({"a": [1.0, 1e300]}), &json!({"a": [1, 1e300]})));
        for (one, other) in
            [(json!([1]), json!([1, 2])), (json!({"a": 1}), json!({"b": 1})), (json!("1"), json!(1))]
        {
            assert!(!is_same(&one, &other));
        }
    }
}
