//! Which arguments of a command are keys. It touches nothing.

use crate::args::Args;
use crate::errors::{self, Fail};
use crate::number;

/// The positions of keys. Index 0 is the command's name.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// There are none.
    None,
    /// One, at this index.
    At(usize),
    /// Two, at these indices.
    Two(usize, usize),
    /// Every argument from this index on.
    From(usize),
    /// From the first index on, every n-th argument (key value key value: 2).
    Every(usize, usize),
    /// Every argument from the first index on, except the last n.
    Until(usize, usize),
    /// The number of keys is at this index; the keys follow it.
    Counted(usize),
    /// The number of keys is at index 1; the keys follow it, each with its value.
    CountedPairs,
    /// One at index 1, the number of the others at index 2; the others follow it.
    StoreCounted,
    /// The first half of the arguments after the word STREAMS.
    Streams,
    /// One at index 1, and one after the last of these words: if an option occurs twice, the last one counts.
    AndAfter(&'static [&'static str]),
    /// One at index 1, and one after the last STORE or STOREDIST among the options, which begin at this index.
    AndStored(usize),
}

impl Keys {
    /// Whether a command may have several keys.
    #[must_use]
    pub const fn may_be_several(&self) -> bool {
        !matches!(self, Keys::None | Keys::At(_))
    }

    /// The indices of the keys.
    ///
    /// # Errors
    /// Redis's error when the keys cannot be determined from the arguments.
    pub fn find(&self, args: Args<'_>) -> Result<Vec<usize>, Fail> {
        let len = args.len();
        Ok(match *self {
            Keys::None => Vec::new(),
            Keys::At(index) => vec![index],
            Keys::Two(a, b) => vec![a, b],
            Keys::From(first) => (first..len).collect(),
            Keys::Every(first, step) => (first..len).step_by(step.max(1)).collect(),
            Keys::Until(first, without) => (first..len.saturating_sub(without)).collect(),
            Keys::Counted(at) => counted(args, at)?,
            Keys::CountedPairs => {
                let count = number::parse_int(args.at(1)).ok_or(errors::NOT_INT)?;
                let end = usize::try_from(count).ok().and_then(|n| n.checked_mul(2)?.checked_add(2));
                let end = end.filter(|end| *end <= len).ok_or(errors::SYNTAX)?;
                (2..end).step_by(2).collect()
            }
            Keys::StoreCounted => {
                let mut keys = counted(args, 2)?;
                keys.insert(0, 1);
                keys
            }
            Keys::Streams => {
                let first = after_streams(args);
                (first..first + (len - first) / 2).collect()
            }
            Keys::AndAfter(words) => {
                let is_word =
                    |i: usize| words.iter().any(|word| args.at(i).eq_ignore_ascii_case(word.as_bytes()));
                let after = (3..len).rev().find(|i| is_word(*i - 1));
                std::iter::once(1).chain(after).collect()
            }
            Keys::AndStored(options) => std::iter::once(1).chain(stored(args, options)).collect(),
        })
    }
}

/// The index after the word STREAMS. A group or consumer of that name is skipped, as the command itself does.
fn after_streams(args: Args<'_>) -> usize {
    let (mut index, len) = (1, args.len());
    while index < len {
        let word = args.at(index);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("STREAMS") {
            return index + 1;
        }
        index += if is("GROUP") { 3 } else { 1 + usize::from(is("COUNT") || is("BLOCK")) };
    }
    len
}

fn stored(args: Args<'_>, options: usize) -> Option<usize> {
    let (mut at, mut found) = (options, None);
    while at + 1 < args.len() {
        if args.at(at).eq_ignore_ascii_case(b"STORE") || args.at(at).eq_ignore_ascii_case(b"STOREDIST") {
            at += 1;
            found = Some(at);
        }
        at += 1;
    }
    found
}

fn counted(args: Args<'_>, at: usize) -> Result<Vec<usize>, Fail> {
    let count = number::parse_int(args.at(at)).ok_or(errors::NOT_INT)?;
    let count = usize::try_from(count).map_err(|_| errors::SYNTAX)?;
    if count > args.len().saturating_sub(at + 1) {
        return Err(errors::SYNTAX);
    }
    Ok((at + 1..at + 1 + count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;

    #[test]
    fn keys_are_found_at_any_position() {
        let streams = Keys::Streams;
        for (keys, line, found) in [
            (Keys::None, "PING", vec![]),
            (Keys::At(1), "GET k", vec![1]),
            (Keys::From(1), "DEL a b c", vec![1, 2, 3]),
            (Keys::Every(1, 2), "MSET a 1 b 2", vec![1, 3]),
            (Keys::Every(1, 3), "JSON.MSET a $ 1 b $ 2", vec![1, 4]),
            (Keys::Until(1, 1), "BLPOP a b 0", vec![1, 2]),
            (Keys::Counted(1), "LMPOP 2 a b LEFT", vec![2, 3]),
            (Keys::CountedPairs, "MSETEX 2 a 1 b 2 EX 3", vec![2, 4]),
            (Keys::StoreCounted, "ZUNIONSTORE d 2 a b WEIGHTS 1 2", vec![1, 3, 4]),
            (streams, "XREAD COUNT 1 STREAMS a b 0 0", vec![4, 5]),
            (streams, "XREADGROUP GROUP streams c STREAMS a >", vec![5]),
            (Keys::AndAfter(&["STORE"]), "SORT k BY w STORE d", vec![1, 5]),
            (Keys::AndAfter(&["STORE"]), "SORT k STORE x STORE d", vec![1, 5]),
            (Keys::AndStored(5), "GEORADIUSBYMEMBER k store 1 m", vec![1]),
            (Keys::AndStored(5), "GEORADIUSBYMEMBER k m 1 m STORE", vec![1]),
            (Keys::AndStored(5), "GEORADIUSBYMEMBER k m 1 m STORE store", vec![1, 6]),
            (Keys::AndStored(5), "GEORADIUSBYMEMBER k m 1 m STORE a ASC storedist b", vec![1, 9]),
        ] {
            let command = Command::new(line.split(' '));
            assert_eq!(keys.find(command.args()).unwrap(), found, "{line}");
        }
        let command = Command::new(["LMPOP", "3", "a", "LEFT"]);
        assert!(Keys::Counted(1).find(command.args()).is_err());
        assert!(Keys::CountedPairs.find(command.args()).is_err());
    }
}
