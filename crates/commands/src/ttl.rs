//! How TTL and similar commands return the expiration of a key or a field. It touches nothing.

use keystead_core::Millis;

use crate::reply::Reply;

/// The form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryForm {
    /// TTL: the remaining seconds.
    SecondsLeft,
    /// PTTL: the remaining milliseconds.
    MillisLeft,
    /// EXPIRETIME: the Unix time in seconds.
    AtSeconds,
    /// PEXPIRETIME: the Unix time in milliseconds.
    AtMillis,
}

impl ExpiryForm {
    /// -2 if the key or field does not exist, -1 if it does not expire. `seconds` converts milliseconds: for keys Redis
    /// rounds to the nearest second, for fields it rounds up.
    pub(crate) fn reply(self, expires_at: Option<Millis>, now: Millis, seconds: fn(u64) -> u64) -> Reply {
        let at = match expires_at {
            None => return Reply::Int(-2),
            Some(Millis::NEVER) => return Reply::Int(-1),
            Some(at) => at,
        };
        let value = match self {
            ExpiryForm::SecondsLeft => seconds(at.since_ms(now)),
            ExpiryForm::MillisLeft => at.since_ms(now),
            ExpiryForm::AtSeconds => seconds(at.0),
            ExpiryForm::AtMillis => at.0,
        };
        Reply::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}
