//! The arguments of LMPOP, ZMPOP and their blocking variants: `numkeys key [key ...] side [COUNT count]`. It touches
//! nothing.

use std::ops::Range;

use crate::args::Args;
use crate::errors::{self, Fail};
use crate::number;

/// The parsed arguments.
#[derive(Debug)]
pub(crate) struct MultiPop<S> {
    /// The indices of the keys.
    keys: Range<usize>,
    /// The side from which elements are removed.
    pub(crate) side: S,
    /// The maximum number of elements, at least one.
    pub(crate) count: usize,
}

impl<S> MultiPop<S> {
    /// Parses the arguments from the number of keys on, which is at index `at`.
    pub(crate) fn parse(
        args: Args<'_>,
        at: usize,
        side: impl FnOnce(&[u8]) -> Option<S>,
    ) -> Result<Self, Fail> {
        let first = at + 1;
        let end = first.saturating_add(positive(args.at(at)).ok_or(errors::NUMKEYS_NOT_POSITIVE)?);
        let mut options = args.cursor(end);
        let side = side(options.bytes()?).ok_or(errors::SYNTAX)?;
        let mut count = None;
        while !options.is_done() {
            if count.is_some() || !options.accept_with("COUNT", 1) {
                return Err(errors::SYNTAX);
            }
            count = Some(positive(options.bytes()?).ok_or(errors::COUNT_NOT_POSITIVE)?);
        }
        Ok(MultiPop { keys: first..end, side, count: count.unwrap_or(1) })
    }

    /// The keys.
    pub(crate) fn keys<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a, S> {
        args.from(self.keys.start).take(self.keys.len())
    }
}

fn positive(text: &[u8]) -> Option<usize> {
    number::parse_int(text).and_then(number::size).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;

    #[test]
    fn keys_side_and_count_are_parsed() {
        let side = |text: &[u8]| (text == b"LEFT").then_some(());
        let parse = |line: &str| {
            let command = Command::new(line.split(' '));
            let pop = MultiPop::parse(command.args(), 1, side)?;
            Ok((pop.keys(command.args()).count(), pop.count))
        };
        for (line, found) in [
            ("LMPOP 2 a b LEFT", Ok((2, 1))),
            ("LMPOP 1 a LEFT COUNT 7", Ok((1, 7))),
            ("LMPOP 2 a LEFT", Err(errors::SYNTAX)),
            ("LMPOP 1 a b", Err(errors::SYNTAX)),
            ("LMPOP 9223372036854775807 a b", Err(errors::SYNTAX)),
            ("LMPOP 0 a LEFT", Err(errors::NUMKEYS_NOT_POSITIVE)),
            ("LMPOP x a LEFT", Err(errors::NUMKEYS_NOT_POSITIVE)),
            ("LMPOP 1 a LEFT COUNT 0", Err(errors::COUNT_NOT_POSITIVE)),
            ("LMPOP 1 a LEFT COUNT", Err(errors::SYNTAX)),
            ("LMPOP 1 a LEFT COUNT 1 COUNT 1", Err(errors::SYNTAX)),
        ] {
            assert_eq!(parse(line), found, "{line}");
        }
    }
}
