//! The conditions of SET, MSETEX and DELEX: `NX | XX`, and `IFEQ value | IFNE value | IFDEQ digest | IFDNE digest`.
//! It touches nothing.

use xxhash_rust::xxh3::xxh3_64;

use crate::args::Cursor;
use crate::errors::Fail;

const NO_DIGEST: Fail = Fail::fixed("ERR must be exactly 16 hexadecimal characters");

/// Hexadecimal digits of a digest.
const DIGEST_LEN: usize = 16;

/// What is compared, and the expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    NotEqual,
    DigestEqual,
    DigestNotEqual,
}

const TESTS: &[(&str, Test)] = &[
    ("IFEQ", Test::Equal),
    ("IFNE", Test::NotEqual),
    ("IFDEQ", Test::DigestEqual),
    ("IFDNE", Test::DigestNotEqual),
];

/// A condition with its operand, not validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    test: Test,
    operand: &'a [u8],
}

impl<'a> Condition<'a> {
    /// The condition with this name.
    pub(super) fn named(name: &[u8], operand: &'a [u8]) -> Option<Self> {
        let (_, test) = TESTS.iter().find(|(word, _)| name.eq_ignore_ascii_case(word.as_bytes()))?;
        Some(Condition { test: *test, operand })
    }

    /// Consumes the next option if it is one of these. The same one may be repeated, a different one is an error.
    pub(super) fn accept(before: &mut Option<Self>, args: &mut Cursor<'a>) -> bool {
        for &(word, test) in TESTS {
            if before.is_none_or(|before| before.test == test) && args.accept_with(word, 1) {
                *before = Some(Condition { test, operand: args.next().unwrap_or_default() });
                return true;
            }
        }
        false
    }

    /// Whether it holds. Without a string, only the conditions for inequality hold.
    ///
    /// # Errors
    /// Redis's error for an invalid digest, which is checked only when it is compared.
    pub(super) fn holds(self, there: Option<&[u8]>) -> Result<bool, Fail> {
        let wants_equal = matches!(self.test, Test::Equal | Test::DigestEqual);
        let Some(there) = there else { return Ok(!wants_equal) };
        let equal = match self.test {
            Test::Equal | Test::NotEqual => there == self.operand,
            Test::DigestEqual | Test::DigestNotEqual if self.operand.len() != DIGEST_LEN => {
                return Err(NO_DIGEST);
            }
            Test::DigestEqual | Test::DigestNotEqual => {
                digest(there).as_bytes().eq_ignore_ascii_case(self.operand)
            }
        };
        Ok(equal == wants_equal)
    }
}

/// Consumes the next option if it is `NX` (keys must not exist) or `XX` (they must exist) and does not contradict an earlier
/// one.
pub(super) fn accept_there(there: &mut Option<bool>, args: &mut Cursor<'_>) -> bool {
    for (word, wanted) in [("NX", false), ("XX", true)] {
        if there.is_none_or(|before| before == wanted) && args.accept(word) {
            *there = Some(wanted);
            return true;
        }
    }
    false
}

/// The digest of a string: 64-bit XXH3, in hexadecimal digits.
pub(super) fn digest(value: &[u8]) -> String {
    format!("{:016x}", xxh3_64(value))
}
