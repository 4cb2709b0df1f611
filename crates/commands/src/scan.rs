//! The options of SCAN, HSCAN, SSCAN and ZSCAN. It touches nothing.

use crate::args::Cursor;
use crate::errors::{self, Fail};
use crate::glob;
use crate::number;
use crate::reply::Reply;

/// The default COUNT.
const COUNT_DEFAULT: usize = 10;

/// The same for SCAN in the Upstash dialect: databases of some hundreds of keys are returned at once.
const COUNT_DEFAULT_UPSTASH: usize = 1000;

/// What a scan iterates over, which determines its options besides MATCH and COUNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// All keys: TYPE.
    Keys,
    /// All keys, as in Upstash: TYPE, WITHTYPE.
    KeysOfUpstash,
    /// Fields of a hash: NOVALUES.
    Fields,
    /// Members of a set or sorted set.
    Members,
}

/// The parsed arguments of a scan.
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    /// The position to continue from.
    pub cursor: u64,
    /// About how many elements to examine.
    pub count: usize,
    /// The pattern that names must match.
    pub pattern: Option<&'a [u8]>,
    /// SCAN: the type that keys must have, as it was sent.
    pub kind: Option<&'a [u8]>,
    /// HSCAN: fields without values.
    pub no_values: bool,
    /// SCAN in Upstash: each key with its type.
    pub with_types: bool,
}

impl<'a> Scan<'a> {
    /// Parses the cursor and the options after it.
    ///
    /// # Errors
    /// Redis's errors.
    pub fn parse(args: &mut Cursor<'a>, walk: Walk) -> Result<Self, Fail> {
        let mut scan = Scan::from_cursor(args)?;
        if walk == Walk::KeysOfUpstash {
            scan.count = COUNT_DEFAULT_UPSTASH;
        }
        scan.options(args, walk)
    }

    /// Parses the cursor only. The scans of a value check their key before they parse the options, so that the reply for
    /// an absent key is empty whatever the options are.
    ///
    /// # Errors
    /// `ERR invalid cursor`.
    pub fn from_cursor(args: &mut Cursor<'a>) -> Result<Self, Fail> {
        let cursor = parse_cursor(args.bytes()?)?;
        Ok(Scan {
            cursor,
            count: COUNT_DEFAULT,
            pattern: None,
            kind: None,
            no_values: false,
            with_types: false,
        })
    }

    /// Parses the options after the cursor.
    ///
    /// # Errors
    /// Redis's errors.
    pub fn options(mut self, args: &mut Cursor<'a>, walk: Walk) -> Result<Self, Fail> {
        let keys = matches!(walk, Walk::Keys | Walk::KeysOfUpstash);
        while !args.is_done() {
            if args.accept_with("COUNT", 1) {
                let count = number::parse_int(args.bytes()?).ok_or(errors::NOT_INT)?;
                self.count = number::size(count).filter(|n| *n > 0).ok_or(errors::SYNTAX)?;
            } else if args.accept_with("MATCH", 1) {
                self.pattern = Some(args.bytes()?).filter(|pattern| *pattern != b"*");
            } else if keys && args.accept_with("TYPE", 1) {
                self.kind = Some(args.bytes()?);
            } else if walk == Walk::KeysOfUpstash && args.accept("WITHTYPE") {
                self.with_types = true;
            } else if args.accept("NOVALUES") {
                if walk != Walk::Fields {
                    return Err(errors::NO_VALUES_ONLY_HSCAN);
                }
                self.no_values = true;
            } else {
                return Err(errors::SYNTAX);
            }
        }
        Ok(self)
    }

    /// The reply of a scan: the next cursor, and the elements.
    #[must_use]
    pub fn reply(cursor: u64, found: Vec<Reply>) -> Reply {
        Reply::Array(vec![Reply::text(cursor.to_string()), Reply::Array(found)])
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// A cursor is an unsigned 64-bit number as C's strtoul reads it: an empty text is 0, and a negative number wraps.
fn parse_cursor(text: &[u8]) -> Result<u64, Fail> {
    if text.is_empty() {
        return Ok(0);
    }
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix(b"+").unwrap_or(text)),
    };
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(digits).ok().filter(|_| all_digits).and_then(|text| text.parse::<u64>().ok());
    let number = number.ok_or(errors::INVALID_CURSOR)?;
    Ok(if negative { number.wrapping_neg() } else { number })
}
