//! The items of a request to `/store`, and their results, in JSON. Pure.
//!
//! ```text
//! {"items": [{"read": {"key": "a"}}, {"swap": {"key": "a", "expected": 7, "record": "8 - 1f-2\n5", "reclaimMs": 300000}}]}
//! {"results": [{"record": "7 - 1f-1\n4"}, {"swapped": 8}]}
//! ```
//!
//! A record is the text that every compare-and-set store keeps: version, expiry, last writers, state. Without `expected` there must be none.
//! Other results are `{"conflict": {"record": ...}}`, `{"error": {"code", "message"}}`, and `{"later": true}` for a large record that is to be
//! read alone. Invariant: a swap that arrives again is reported as it was, because its record names it.

use std::borrow::Cow;

use keystead_core::bounds::HEADER_BYTES_MAX;
use keystead_core::record::Record;
use keystead_core::{Code, Error, Outcome as Known, Result};
use keystead_http_api::error::ApiError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Backend;
use crate::bounds::{STORE_ITEMS_MAX, STORE_SHARED_RECORD_BYTES_MAX, STORE_STATE_BYTES_MAX};
use crate::exchange::{JSON, Reply};

/// Versions are counted up to here: every one of them is a number of JavaScript.
const VERSION_MAX: u64 = 1 << 53;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Items<'a> {
    #[serde(borrow)]
    items: Vec<Call<'a>>,
}

/// What is asked of one key.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum Call<'a> {
    Read {
        #[serde(borrow)]
        key: Cow<'a, str>,
    },
    Swap(#[serde(borrow)] Swap<'a>),
}

/// A record that is to replace another.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Swap<'a> {
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    #[serde(default)]
    pub(super) expected: Option<u64>,
    #[serde(borrow)]
    pub(super) record: Cow<'a, str>,
    #[serde(default)]
    pub(super) reclaim_ms: Option<u64>,
    /// That of the record.
    #[serde(skip)]
    pub(super) version: u64,
}

impl Call<'_> {
    pub(super) fn key(&self) -> &str {
        match self {
            Call::Read { key } | Call::Swap(Swap { key, .. }) => key,
        }
    }
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The record, if there is one.
    Record(Option<String>),
    /// The new version.
    Swapped(u64),
    /// The version was another one: the current record.
    Conflict(Option<String>),
    Failed(Error),
    /// A record that is too large to be sent with others.
    Later,
    /// The same, of a conflict.
    LargeConflict,
}

impl Outcome {
    /// The same with less, if what it has found is too large for a response with others.
    pub(super) fn among(self, several: bool) -> Outcome {
        let is_large = |text: &Option<String>| {
            several && text.as_ref().is_some_and(|text| text.len() > STORE_SHARED_RECORD_BYTES_MAX)
        };
        match self {
            Outcome::Record(text) if is_large(&text) => Outcome::Later,
            Outcome::Conflict(text) if is_large(&text) => Outcome::LargeConflict,
            other => other,
        }
    }

    /// What a swap that was not made has met.
    pub(super) fn of_lost(swap: &Swap<'_>, current: Option<String>) -> Outcome {
        // It was made before, and its response was lost.
        match current.as_deref() == Some(&*swap.record) {
            true => Outcome::Swapped(swap.version),
            false => Outcome::Conflict(current),
        }
    }

    fn shown(&self) -> Value {
        match self {
            Outcome::Record(record) => json!({ "record": record }),
            Outcome::Swapped(version) => json!({ "swapped": version }),
            Outcome::Conflict(record) => json!({ "conflict": { "record": record } }),
            Outcome::LargeConflict => json!({ "conflict": {} }),
            Outcome::Later => json!({ "later": true }),
            Outcome::Failed(error) => {
                let mut shown = json!({ "code": error.code().as_str(), "message": error.message() });
                if error.outcome() == Known::Unknown {
                    shown["outcome"] = json!("unknown");
                }
                json!({ "error": shown })
            }
        }
    }
}

/// The calls of a request's body.
pub(super) fn calls(body: &[u8], backend: Backend) -> std::result::Result<Vec<Call<'_>>, ApiError> {
    let Items { mut items } = serde_json::from_slice(body).map_err(|error| {
        ApiError::bad(format!("invalid body: {error}: send {{\"items\":[{{\"read\":{{\"key\":\"a\"}}}}]}}"))
    })?;
    if !(1..=STORE_ITEMS_MAX).contains(&items.len()) {
        return Err(ApiError::bad(format!(
            "a request has 1 to {STORE_ITEMS_MAX} items, not {}",
            items.len()
        )));
    }
    for call in &mut items {
        check(call, backend)?;
    }
    Ok(items)
}

/// Rejects a call that no store sends.
pub(super) fn check(call: &mut Call<'_>, backend: Backend) -> Result<()> {
    let (len, max) = (call.key().len(), backend.key_bytes_max());
    if len == 0 || len > max {
        let message =
            format!("max key size exceeded. Limit: 1 to {max} bytes of its text, Actual: {len} bytes");
        return Err(Error::new(Code::TooLarge, message));
    }
    let Call::Swap(swap) = call else { return Ok(()) };
    let (len, max) = (swap.record.len(), STORE_STATE_BYTES_MAX + HEADER_BYTES_MAX);
    if len > max {
        let message = format!("max record size exceeded. Limit: {max} bytes, Actual: {len} bytes");
        return Err(Error::new(Code::TooLarge, message));
    }
    let record = Record::decode(&swap.record)
        .map_err(|_| Error::new(Code::BadRequest, "the record of a swap has another form"))?;
    swap.version = record.version;
    // A version that did not grow could hide a lost race.
    if record.version > VERSION_MAX || swap.expected.is_some_and(|expected| record.version <= expected) {
        let message = format!("the version of a record is above the expected one, and at most {VERSION_MAX}");
        return Err(Error::new(Code::BadRequest, message));
    }
    Ok(())
}

/// The response with these outcomes.
pub(super) fn reply(outcomes: &[Outcome]) -> Reply {
    let results: Vec<Value> = outcomes.iter().map(Outcome::shown).collect();
    Reply::new(http::StatusCode::OK, JSON, json!({ "results": results }).to_string().into_bytes())
}
