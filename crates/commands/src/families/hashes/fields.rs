//! `FIELDS numfields field [field ...]`, as the commands on field expirations take it. It touches nothing.

use crate::Args;
use crate::errors::Fail;
use crate::number;

const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const NO_MATCH: &str = "ERR The `numfields` parameter must match the number of arguments";

/// The error of HTTL, HPERSIST, HGETDEL and HGETEX for a wrong number.
pub(super) const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";
/// The error of HEXPIRE and similar commands for a wrong number.
pub(super) const NOT_ABOVE_ZERO: &str = "ERR Parameter `numFields` should be greater than 0";

/// The fields, if the word FIELDS is at `at`. They are all arguments that follow.
pub(super) fn parse<'a>(
    args: Args<'a>,
    at: usize,
    not_positive: &'static str,
) -> Result<impl ExactSizeIterator<Item = &'a [u8]> + use<'a>, Fail> {
    if !args.at(at).eq_ignore_ascii_case(b"FIELDS") {
        return Err(Fail::Text(NO_FIELDS.into()));
    }
    let count = number::parse_int(args.at(at + 1)).filter(|count| *count > 0);
    let count = count.ok_or(Fail::Text(not_positive.into()))?;
    let fields = args.from(at + 2);
    if usize::try_from(count) != Ok(fields.len()) {
        return Err(Fail::Text(NO_MATCH.into()));
    }
    Ok(fields)
}
