//! The result of a check: five fields that are always there, and those that only some limits have.

use serde::{Deserialize, Serialize};

use keystead_core::{Code, Error, Result};

/// The result of a check.
///
/// Its JSON form has the names `allowed`, `limit`, `remaining`, `resetAt`, `retryAfterMs`. Later versions only add optional
/// fields, so a reader must accept unknown fields.
///
/// ```
/// use keystead_limit::Decision;
///
/// let decision: Decision = serde_json::from_str(
///     r#"{"allowed":true,"limit":10,"remaining":9,"resetAt":1700000006000,"retryAfterMs":0,"new":1}"#,
/// )?;
/// assert_eq!(decision.remaining, 9);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Whether the request may proceed. A denied one has consumed nothing.
    pub allowed: bool,
    /// The effective limit.
    pub limit: u64,
    /// Whole units that remain.
    pub remaining: u64,
    /// When the whole limit is available again, in milliseconds since the epoch.
    pub reset_at: u64,
    /// How long to wait before the same request can be allowed; 0 exactly when it is allowed. A cost above the limit gets a time
    /// too, because the formulas are the same.
    pub retry_after_ms: u64,
    /// How long to delay an allowed request. Only a shaper (`leakyBucket`) sets this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The lease to release when the request has ended. Only `concurrency` grants one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<u64>,
    /// The store failed and the limit fails open: nothing was counted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failed_open: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Decision {
    /// A request that may proceed.
    #[inline]
    pub(crate) fn allow(limit: u64, remaining: u64, reset_at: u64) -> Self {
        Decision {
            allowed: true,
            limit,
            remaining,
            reset_at,
            retry_after_ms: 0,
            delay_ms: None,
            lease_id: None,
            failed_open: false,
        }
    }

    /// A request that must wait, at least a millisecond.
    #[inline]
    pub(crate) fn deny(limit: u64, remaining: u64, reset_at: u64, retry_after_ms: u64) -> Self {
        let retry_after_ms = retry_after_ms.max(1);
        Decision { allowed: false, retry_after_ms, ..Decision::allow(limit, remaining, reset_at) }
    }

    /// The JSON form, as the server and `keystead limit replay` write it.
    ///
    /// # Errors
    /// `internal`, which does not happen: every field is a whole number.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|e| Error::new(Code::Internal, "a decision has no JSON form").with_source(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_form_has_the_five_names_and_only_what_else_there_is() {
        let mut decision = Decision::allow(10, 9, 1_700_000_006_000);
        let text = r#"{"allowed":true,"limit":10,"remaining":9,"resetAt":1700000006000,"retryAfterMs":0}"#;
        assert_eq!(decision.to_json().unwrap(), text);
        assert_eq!(serde_json::from_str::<Decision>(text).unwrap(), decision);
        (decision.delay_ms, decision.lease_id, decision.failed_open) = (Some(3), Some(7), true);
        let text = decision.to_json().unwrap();
        assert!(text.ends_with(r#""delayMs":3,"leaseId":7,"failedOpen":true}"#), "{text}");
        assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    }

    #[test]
    fn a_denial_waits_at_least_a_millisecond() {
        assert_eq!(Decision::deny(1, 0, 5, 0).retry_after_ms, 1);
    }
}
