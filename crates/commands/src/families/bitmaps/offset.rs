//! Bit offsets as arguments. It touches nothing.
//!
//! Bit 0 is the highest of the first byte.

use std::borrow::Cow;

use crate::bounds::STRING_BYTES_MAX;
use crate::errors::Fail;
use crate::number;

const BAD_OFFSET: Fail = Fail::Text(Cow::Borrowed("ERR bit offset is not an integer or out of range"));

/// An offset within the longest string.
pub(super) fn parse(text: &[u8]) -> Result<usize, Fail> {
    within(number::parse_int(text))
}

/// The same; with the prefix `#` it is counted in fields of so many bits.
pub(super) fn parse_field(text: &[u8], bits: u32) -> Result<usize, Fail> {
    match text.strip_prefix(b"#") {
        Some(count) => within(number::parse_int(count).and_then(|count| count.checked_mul(i64::from(bits)))),
        None => parse(text),
    }
}

fn within(offset: Option<i64>) -> Result<usize, Fail> {
    offset
        .and_then(|offset| usize::try_from(offset).ok())
        .filter(|offset| offset / 8 < STRING_BYTES_MAX)
        .ok_or(BAD_OFFSET)
}
