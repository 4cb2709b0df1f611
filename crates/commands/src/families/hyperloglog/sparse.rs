//! Registers as runs. It touches nothing.
//!
//! | Bytes                 | A run of                                   |
//! |-----------------------|--------------------------------------------|
//! | `00llllll`            | `l + 1` zeros                              |
//! | `01llllll` `llllllll` | `l + 1` zeros                              |
//! | `1vvvvvll`            | `l + 1` registers whose value is `v + 1`   |
//!
//! All functions take the bytes after the header. Invariant: after a change the bytes are those that Redis would have;
//! which runs are merged is part of the format.

use std::borrow::Cow;
use std::ops::Range;

use super::REGISTERS;

/// The highest value that a run can have.
const VALUE_MAX: u8 = 32;
/// The longest run of a value.
const VALUE_RUN_MAX: usize = 4;
/// The longest run of zeros in one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// How many runs are examined for merging, from the one before the change on.
const JOIN_STEPS: usize = 5;

/// Some registers of the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    value: u8,
    len: usize,
}

/// The result of raising a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// It was at least as high already.
    No,
    Yes,
    /// Runs cannot represent it, or not in so many bytes.
    TooMuch,
    /// The runs end before it.
    Corrupt,
}

/// All registers zero.
pub(super) fn empty() -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, Run { value: 0, len: REGISTERS });
    bytes
}

/// Raises a register to `value` if it is lower, in at most `bytes_max` bytes.
pub(super) fn raise(bytes: &mut Cow<'_, [u8]>, index: usize, value: u8, bytes_max: usize) -> Raised {
    if value > VALUE_MAX {
        return Raised::TooMuch;
    }
    let Some(found) = find(bytes, index) else { return Raised::Corrupt };
    if found.run.value >= value {
        return Raised::No;
    }
    let mut parts = Vec::with_capacity(5);
    let before = index - found.first;
    let behind = found.run.len - before - 1;
    push(&mut parts, Run { len: before, ..found.run });
    push(&mut parts, Run { value, len: 1 });
    push(&mut parts, Run { len: behind, ..found.run });
    if parts.len() > found.at.len() && bytes.len() + parts.len() - found.at.len() > bytes_max {
        return Raised::TooMuch;
    }
    let bytes = bytes.to_mut();
    bytes.splice(found.at, parts);
    join(bytes, found.before);
    Raised::Yes
}

/// Visits the runs of registers that are not zero: the first register, the value, the length. `None` if the runs do not cover all
/// registers.
pub(super) fn each(bytes: &[u8], mut emit: impl FnMut(usize, u8, usize)) -> Option<()> {
    let (mut at, mut first) = (0, 0);
    while let Some((run, size)) = decode(bytes, at) {
        if first + run.len > REGISTERS {
            return None;
        }
        if run.value > 0 {
            emit(first, run.value, run.len);
        }
        (at, first) = (at + size, first + run.len);
    }
    (first == REGISTERS).then_some(())
}

/// A run that holds a certain register.
struct Found {
    run: Run,
    /// Its bytes.
    at: Range<usize>,
    /// Its first register.
    first: usize,
    /// Where the previous run begins; its own start, if it is the first.
    before: usize,
}

fn find(bytes: &[u8], index: usize) -> Option<Found> {
    let (mut before, mut at, mut first) = (0, 0, 0);
    loop {
        let (run, size) = decode(bytes, at)?;
        if index < first + run.len {
            // A run of two bytes may have lost the second.
            let end = (at + size <= bytes.len()).then_some(at + size)?;
            return Some(Found { run, at: at..end, first, before });
        }
        (before, at, first) = (at, at + size, first + run.len);
    }
}

/// Merges runs of the same value, a few of them from `at` on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOIN_STEPS {
        let Some((run, size)) = decode(bytes, at) else { return };
        if let Some((next, _)) = decode(bytes, at + size)
            && run.value > 0
            && next.value == run.value
            && run.len + next.len <= VALUE_RUN_MAX
        {
            bytes[at] = value_run(Run { len: run.len + next.len, ..run });
            bytes.remove(at + 1);
        } else {
            at += size;
        }
    }
}

/// The run at a byte, and its length in bytes.
fn decode(bytes: &[u8], at: usize) -> Option<(Run, usize)> {
    let byte = *bytes.get(at)?;
    let low = usize::from(byte & 0x3f);
    Some(match byte >> 6 {
        0 => (Run { value: 0, len: low + 1 }, 1),
        1 => {
            let next = usize::from(bytes.get(at + 1).copied().unwrap_or(0));
            (Run { value: 0, len: (low << 8 | next) + 1 }, 2)
        }
        _ => (Run { value: (byte >> 2 & 0x1f) + 1, len: usize::from(byte & 3) + 1 }, 1),
    })
}

/// Appends a run, if it is not empty. It must not exceed the length of its kind.
fn push(bytes: &mut Vec<u8>, run: Run) {
    match run {
        Run { len: 0, .. } => {}
        Run { value: 0, len } if len <= SHORT_ZEROS_MAX => bytes.push((len - 1) as u8),
        Run { value: 0, len } => bytes.extend([0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
        run => bytes.push(value_run(run)),
    }
}

fn value_run(run: Run) -> u8 {
    0x80 | run.value.wrapping_sub(1) << 2 | (run.len.wrapping_sub(1) & 3) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(bytes: &mut Vec<u8>, index: usize, value: u8) -> Raised {
        let mut cow = Cow::Borrowed(&bytes[..]);
        let raised = raise(&mut cow, index, value, 3000);
        *bytes = cow.into_owned();
        raised
    }

    #[test]
    fn a_run_is_split_where_a_register_rises() {
        let mut bytes = empty();
        assert_eq!(bytes, [0x7f, 0xff]);
        for (index, value, result) in [
            (100, 3, vec![0x40, 99, 0x88, 0x7f, 0x9a]),
            (101, 3, vec![0x40, 99, 0x89, 0x7f, 0x99]),
            (0, 32, vec![0xfc, 0x40, 98, 0x89, 0x7f, 0x99]),
            (98, 1, vec![0xfc, 0x40, 96, 0x80, 0, 0x89, 0x7f, 0x99]),
            (99, 3, vec![0xfc, 0x40, 96, 0x80, 0x8a, 0x7f, 0x99]),
            (16383, 1, vec![0xfc, 0x40, 96, 0x80, 0x8a, 0x7f, 0x98, 0x80]),
        ] {
            assert_eq!(raised(&mut bytes, index, value), Raised::Yes);
            assert_eq!(bytes, result, "{index}");
            assert_eq!(raised(&mut bytes, index, value), Raised::No);
        }
        let mut runs = Vec::new();
        assert!(each(&bytes, |first, value, len| runs.push((first, value, len))).is_some());
        assert_eq!(runs, [(0, 32, 1), (98, 1, 1), (99, 3, 3), (16383, 1, 1)]);
    }

    #[test]
    fn overflow_and_corruption_are_reported_and_leave_the_bytes() {
        let mut bytes = empty();
        assert_eq!(raised(&mut bytes, 5, 33), Raised::TooMuch);
        assert_eq!(raise(&mut Cow::Borrowed(&bytes), 5, 3, 3), Raised::TooMuch);
        assert_eq!(bytes, empty());
        for corrupt in [&[][..], &[0x00], &[0x7f], &[0x40]] {
            assert_eq!(raise(&mut Cow::Borrowed(corrupt), 5, 3, 3000), Raised::Corrupt);
            assert!(each(corrupt, |_, _, _| {}).is_none());
        }
        assert!(each(&[0x7f, 0xff, 0x00], |_, _, _| {}).is_none());
    }
}
