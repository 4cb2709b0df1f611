//! The expiration of a field, as HEXPIRE, HGETEX and HSETEX take it. It touches nothing.

use keystead_core::Millis;

use crate::args::Cursor;
use crate::errors::{self, Fail};
use crate::number;

const NEGATIVE: &str = "ERR invalid expire time, must be >= 0";

/// The latest expiration of a field: Redis stores 46 bits of milliseconds.
const LAST_MS: i64 = (1 << 46) - 1;

/// The unit and base of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    unit_ms: i64,
    /// Relative to now, not to 1970.
    relative: bool,
}

impl Form {
    /// EX
    pub(super) const IN_SECONDS: Form = Form { unit_ms: 1000, relative: true };
    /// PX
    pub(super) const IN_MS: Form = Form { unit_ms: 1, relative: true };
    /// EXAT
    pub(super) const AT_SECONDS: Form = Form { unit_ms: 1000, relative: false };
    /// PXAT
    pub(super) const AT_MS: Form = Form { unit_ms: 1, relative: false };

    /// Consumes EX, PX, EXAT or PXAT.
    pub(super) fn accept(options: &mut Cursor<'_>) -> Option<Form> {
        [("EX", Form::IN_SECONDS), ("PX", Form::IN_MS), ("EXAT", Form::AT_SECONDS), ("PXAT", Form::AT_MS)]
            .into_iter()
            .find_map(|(word, form)| options.accept(word).then_some(form))
    }

    /// The time that a number means, for the command of this name.
    pub(super) fn moment(self, text: &[u8], now: Millis, name: &str) -> Result<Millis, Fail> {
        let number = number::parse_int(text).ok_or(errors::NOT_INT)?;
        if number < 0 {
            return Err(Fail::Text(NEGATIVE.into()));
        }
        let from = if self.relative { i64::try_from(now.0).unwrap_or(i64::MAX) } else { 0 };
        let at = number.checked_mul(self.unit_ms).and_then(|ms| ms.checked_add(from));
        let at = at.filter(|at| *at <= LAST_MS).ok_or_else(|| errors::invalid_expire(name))?;
        Ok(Millis(at.unsigned_abs()))
    }
}
