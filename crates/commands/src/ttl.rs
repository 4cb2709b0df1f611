//! How TTL and its kin tell when a key or a field expires. It touches nothing.

use keystead_core::Millis;

use crate::reply::Reply;

/// In which form it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// TTL: the seconds that are left.
    SecondsLeft,
    /// PTTL: the milliseconds that are left.
    MillisLeft,
    /// EXPIRETIME: the moment in seconds.
    AtSeconds,
    /// PEXPIRETIME: the moment in milliseconds.
    AtMillis,
}

impl Told {
    /// -2 where there is nothing, -1 where it does not expire. `seconds` makes whole ones of milliseconds: of keys Redis
    /// tells the nearest, of fields those that have begun.
    pub(crate) fn reply(self, expires_at: Option<Millis>, now: Millis, seconds: fn(u64) -> u64) -> Reply {
        let at = match expires_at {
            None => return Reply::Int(-2),
            Some(Millis::NEVER) => return Reply::Int(-1),
            Some(at) => at,
        };
        let told = match self {
            Told::SecondsLeft => seconds(at.since_ms(now)),
            Told::MillisLeft => at.since_ms(now),
            Told::AtSeconds => seconds(at.0),
            Told::AtMillis => at.0,
        };
        Reply::Int(i64::try_from(told).unwrap_or(i64::MAX))
    }
}
