//! The expiration options of SET, MSETEX and GETEX. It touches nothing.

use keystead_core::Millis;
use keystead_model::keyspace::Expire;

use crate::args::Cursor;
use crate::errors::{self, Fail};
use crate::number;

/// The unit and base of an expiration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// EX: seconds from now.
    Seconds,
    /// PX: milliseconds from now.
    Millis,
    /// EXAT: Unix time in seconds.
    AtSeconds,
    /// PXAT: Unix time in milliseconds.
    AtMillis,
}

const FORMS: &[(&str, Form)] =
    &[("EX", Form::Seconds), ("PX", Form::Millis), ("EXAT", Form::AtSeconds), ("PXAT", Form::AtMillis)];

/// The requested change of the expiration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ExpiryOption<'a> {
    /// No option.
    #[default]
    Nothing,
    /// KEEPTTL (SET, MSETEX) or PERSIST (GETEX).
    Word,
    /// A number, not validated.
    Until(Form, &'a [u8]),
}

impl<'a> ExpiryOption<'a> {
    /// Consumes the next option if it is one of these and does not contradict earlier ones. The same one may be repeated.
    pub(super) fn accept(&mut self, args: &mut Cursor<'a>, word: &str) -> bool {
        if matches!(self, ExpiryOption::Nothing | ExpiryOption::Word) && args.accept(word) {
            *self = ExpiryOption::Word;
            return true;
        }
        for &(name, form) in FORMS {
            let fits = match *self {
                ExpiryOption::Nothing => true,
                ExpiryOption::Word => false,
                ExpiryOption::Until(before, _) => before == form,
            };
            if fits && args.accept_with(name, 1) {
                *self = ExpiryOption::Until(form, args.next().unwrap_or_default());
                return true;
            }
        }
        false
    }

    /// The expiration of a new value, for commands whose keyword keeps the previous one. `command` is shown in the error.
    ///
    /// # Errors
    /// As [`moment`].
    pub(super) fn of_new(self, command: &str, now: Millis) -> Result<Expire, Fail> {
        Ok(match self {
            ExpiryOption::Nothing => Expire::At(Millis::NEVER),
            ExpiryOption::Word => Expire::Keep,
            ExpiryOption::Until(form, text) => Expire::At(moment(form, text, command, now)?),
        })
    }
}

/// The absolute time. `command` is shown in the error.
///
/// # Errors
/// Redis's errors for a value that is not an integer, not positive, or out of range.
pub(super) fn moment(form: Form, text: &[u8], command: &str, now: Millis) -> Result<Millis, Fail> {
    let value = number::parse_int(text).ok_or(errors::NOT_INT)?;
    let ms = match form {
        Form::Seconds | Form::AtSeconds => value.checked_mul(1000),
        Form::Millis | Form::AtMillis => Some(value),
    };
    let base = match form {
        Form::Seconds | Form::Millis => i64::try_from(now.0).unwrap_or(i64::MAX),
        Form::AtSeconds | Form::AtMillis => 0,
    };
    ms.filter(|ms| *ms > 0)
        .and_then(|ms| ms.checked_add(base))
        .map(|ms| Millis(ms.unsigned_abs()))
        .ok_or_else(|| Fail::text(format!("ERR invalid expire time in '{command}' command")))
}
