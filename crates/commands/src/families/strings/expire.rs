//! The options of SET, MSETEX and GETEX that tell when a key expires. It touches nothing.

use keystead_core::Millis;
use keystead_model::keyspace::Expire;

use crate::args::Cursor;
use crate::errors::{self, Fail};
use crate::number;

/// How an expiry is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// EX: in so many seconds.
    Seconds,
    /// PX: in so many milliseconds.
    Millis,
    /// EXAT: at a moment, in seconds since 1970.
    AtSeconds,
    /// PXAT: at a moment, in milliseconds since 1970.
    AtMillis,
}

const FORMS: [(&str, Form); 4] =
    [("EX", Form::Seconds), ("PX", Form::Millis), ("EXAT", Form::AtSeconds), ("PXAT", Form::AtMillis)];

/// What becomes of the expiry, as it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    /// Nothing was said.
    #[default]
    Nothing,
    /// KEEPTTL (SET, MSETEX) or PERSIST (GETEX).
    Word,
    /// A number, unchecked.
    Until(Form, &'a [u8]),
}

impl<'a> Asked<'a> {
    /// Takes the next option if it is one of these and does not contradict those before. The same one may be said again.
    pub(super) fn accept(&mut self, args: &mut Cursor<'a>, word: &str) -> bool {
        if matches!(self, Asked::Nothing | Asked::Word) && args.accept(word) {
            *self = Asked::Word;
            return true;
        }
        for (name, form) in FORMS {
            let fits = match *self {
                Asked::Nothing => true,
                Asked::Word => false,
                Asked::Until(before, _) => before == form,
            };
            if fits && args.accept_with(name, 1) {
                *self = Asked::Until(form, args.next().unwrap_or_default());
                return true;
            }
        }
        false
    }

    /// The expiry of a new value, of which the word means that the one before stays. `command` is named in the error.
    ///
    /// # Errors
    /// As [`moment`].
    pub(super) fn of_new(self, command: &str, now: Millis) -> Result<Expire, Fail> {
        Ok(match self {
            Asked::Nothing => Expire::At(Millis::NEVER),
            Asked::Word => Expire::Keep,
            Asked::Until(form, text) => Expire::At(moment(form, text, command, now)?),
        })
    }
}

/// The moment that is meant. `command` is named in the error.
///
/// # Errors
/// Redis's texts for what is no integer, not positive, or too far away.
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
