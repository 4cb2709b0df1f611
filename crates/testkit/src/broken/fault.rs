//! The ways to break the contract, each taken from a real store.

use keystead_core::{Millis, Ttl};
use serde_json::{Number, Value};

/// One way to break the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: the store is correct.
    None,
    /// Reads, yields, writes, and does not check for a concurrent write.
    LostUpdate,
    /// Stores no expiry.
    ForgottenTtl,
    /// Treats a step that keeps as one that puts.
    PersistsDenied,
    /// Writes a list back after a step that keeps, without its last element.
    DeniedTrims,
    /// A state expires one millisecond too late.
    OneMsLate,
    /// A state expires one millisecond too early.
    OneMsEarly,
    /// `Ttl::Same` removes the expiry.
    SameForgets,
    /// `Ttl::Never` keeps the old expiry.
    NeverKeeps,
    /// An expired key that is put again inherits the old expiry.
    InheritsExpiry,
    /// An expired key is only hidden, and reappears when the clock jumps back.
    HidesExpired,
    /// Passes a time to steps that never goes back.
    MonotonicTime,
    /// Deletes everything that is expired by the latest time it ever saw.
    SweepsByLatestTime,
    /// A key ends at its first NUL, as in C.
    CutsKeysAtNul,
    /// A key ends after 255 bytes, as in an index.
    CutsLongKeys,
    /// Keys are folded to lower case, as in some collations.
    FoldsCase,
    /// A separator at the end of a key is removed.
    TrimsSeparator,
    /// All keys share one state.
    OneSlot,
    /// Doubles are converted to 32 bits.
    RoundsDoubles,
    /// Integers are converted to doubles, as in JavaScript.
    IntegersAsDoubles,
    /// Text loses its NULs, as in some databases.
    DropsNuls,
    /// A field of a nested state is lost when it is null.
    DropsNullFields,
    /// A state that is null counts as absent.
    NullIsAbsent,
    /// Text is truncated at 64 KiB.
    CutsText,
    /// Rejects a state that is too large, but only after it has removed the old one.
    LosesOnTooLarge,
    /// A state of another type counts as absent.
    OverwritesOtherTypes,
    /// A `wrong_type` error removes the expiry of the key.
    DenialTouchesTtl,
    /// An expired state of another type still returns `wrong_type`.
    RemembersExpiredType,
    /// A deleted key is not removed.
    IgnoresDelete,
    /// A reset returns the correct result and does nothing.
    IgnoresReset,
    /// A reset always returns true.
    ResetAlwaysReturnsTrue,
    /// Resets do not check for a concurrent reset.
    RacyReset,
    /// A reset treats an expired key as a live one.
    ResetSeesExpired,
    /// Still works after it was closed.
    IgnoresClose,
    /// A second close is an error.
    SecondCloseFails,
    /// Declares a synchronous apply that it does not have.
    ClaimsSync,
    /// Has a synchronous apply that it does not declare.
    HidesSync,
    /// Declares to be durable and loses everything when it is closed.
    ForgetsOnClose,
    /// Declares to be shared, but every handle has its own data.
    NotShared,
    /// Checks for concurrent writers only of its own handle.
    BlindToOtherHandles,
    /// An apply that is dropped half way leaves its key locked.
    LeaksLock,
    /// Declares a bound for keys, and takes longer ones.
    IgnoresKeyBound,
    /// Keeps more keys than its bound.
    Unbounded,
    /// Evicts even the newest key.
    EvictsTheNewest,
}

impl Fault {
    /// The part of a key that such a store uses.
    pub(super) fn cut(self, key: &[u8]) -> Vec<u8> {
        match self {
            Fault::CutsKeysAtNul => key.split(|&b| b == 0).next().unwrap_or_default().to_vec(),
            Fault::CutsLongKeys => key[..key.len().min(255)].to_vec(),
            Fault::FoldsCase => key.to_ascii_lowercase(),
            Fault::TrimsSeparator => key.strip_suffix(b":").unwrap_or(key).to_vec(),
            // The prefix of the run is kept, so that runs do not affect each other.
            Fault::OneSlot => key.split(|&b| b == b':').next().unwrap_or_default().to_vec(),
            _ => key.to_vec(),
        }
    }

    /// The text that such a store writes.
    pub(super) fn spoil(self, text: String) -> String {
        match self {
            Fault::DropsNuls => text.replace("\\u0000", ""),
            Fault::CutsText if text.len() > 65_536 => format!("{}\"", &text[..65_535]),
            Fault::RoundsDoubles | Fault::IntegersAsDoubles | Fault::DropsNullFields => {
                let value = serde_json::from_str::<Value>(&text);
                value.map_or(text, |value| self.spoil_value(value).to_string())
            }
            _ => text,
        }
    }

    fn spoil_value(self, value: Value) -> Value {
        match value {
            Value::Number(number) => Value::Number(self.spoil_number(number)),
            Value::Array(values) => values.into_iter().map(|v| self.spoil_value(v)).collect(),
            Value::Object(fields) => {
                let drops = self == Fault::DropsNullFields;
                let fields = fields.into_iter().filter(|(_, v)| !(drops && v.is_null()));
                Value::Object(fields.map(|(name, v)| (name, self.spoil_value(v))).collect())
            }
            other => other,
        }
    }

    fn spoil_number(self, number: Number) -> Number {
        let spoiled = match (self, number.as_f64()) {
            (Fault::RoundsDoubles, Some(double)) if number.is_f64() => {
                Number::from_f64(f64::from(double as f32))
            }
            (Fault::IntegersAsDoubles, Some(double)) if number.is_u64() => Some(Number::from(double as u64)),
            (Fault::IntegersAsDoubles, Some(double)) if number.is_i64() => Some(Number::from(double as i64)),
            _ => None,
        };
        spoiled.unwrap_or(number)
    }

    /// When a state that is put expires.
    pub(super) fn expires_at(self, ttl: Ttl, now: Millis, before: Millis) -> Millis {
        let expires_at = match (self, ttl) {
            (Fault::ForgottenTtl, _) | (Fault::SameForgets, Ttl::Same) => Millis::NEVER,
            (Fault::NeverKeeps, Ttl::Never) => before,
            _ => ttl.expires_at(now, before),
        };
        match self {
            Fault::OneMsLate => expires_at.plus_ms(1),
            Fault::OneMsEarly if expires_at < Millis::NEVER => Millis(expires_at.0 - 1),
            _ => expires_at,
        }
    }
}
