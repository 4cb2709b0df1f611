//! `BITPOS key bit [start [end [BYTE | BIT]]]`

use std::borrow::Cow;
use std::ops::Range;

use super::bitcount::is_bit_unit;
use crate::errors::{self, Fail};
use crate::families::strings::range;
use crate::{Args, CommandResult, Ctx, Reply};

const BAD_BIT: Fail = Fail::Text(Cow::Borrowed("ERR The bit argument must be 1 or 0."));
const NOWHERE: Reply = Reply::Int(-1);

pub(super) fn bitpos(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let bit = match args.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(BAD_BIT),
    };
    let Some(value) = ctx.keys.str(args.at(1), ctx.now)? else {
        // All bits are clear, and zeros follow without end.
        return Ok(if bit { NOWHERE } else { Reply::Int(0) });
    };
    let bits = requested_bits(args, value.len())?;
    if bits.is_empty() {
        return Ok(NOWHERE);
    }
    Ok(match find(value, bit, bits) {
        Some(place) => Reply::count(place),
        // Zeros follow the end, unless an end was given.
        None if !bit && args.len() < 5 => Reply::count(value.len() * 8),
        None => NOWHERE,
    })
}

fn requested_bits(args: Args<'_>, len: usize) -> Result<Range<usize>, Fail> {
    if args.len() > 6 {
        return Err(errors::SYNTAX);
    }
    let start = if args.len() > 3 { args.int(3)? } else { 0 };
    let in_bits = match args.get(5) {
        None => false,
        Some(unit) => is_bit_unit(unit).ok_or(errors::SYNTAX)?,
    };
    let end = if args.len() > 4 { args.int(4)? } else { -1 };
    if in_bits {
        return Ok(range::clamp(start, end, len * 8));
    }
    let bytes = range::clamp(start, end, len);
    Ok(bytes.start * 8..bytes.end * 8)
}

/// The first such bit in a range that is not empty.
fn find(value: &[u8], bit: bool, bits: Range<usize>) -> Option<usize> {
    // A byte, with ones at the wanted bits.
    let sought = |index: usize| if bit { value[index] } else { !value[index] };
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let head = sought(first) & (0xff >> (bits.start % 8));
    let (index, byte) = if head != 0 {
        (first, head)
    } else {
        let behind = first + 1..last + 1;
        let index = behind.start + first_other(&value[behind], if bit { 0 } else { 0xff })?;
        (index, sought(index))
    };
    let place = index * 8 + byte.leading_zeros() as usize;
    (place < bits.end).then_some(place)
}

/// The first byte with a wanted bit.
fn first_other(bytes: &[u8], skip: u8) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let skipped = words.iter().take_while(|word| **word == [skip; 8]).count() * 8;
    Some(skipped + bytes[skipped..].iter().position(|byte| *byte != skip)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn the_first_is_found_in_bytes_and_bits() {
        let mut desk = Desk::new();
        desk.run_args(&[&b"SET"[..], b"k", b"\xff\xf0\x00"]);
        desk.run_args(&[&b"SET"[..], b"ones", b"\xff\xff"]);
        desk.run_args(&[&b"SET"[..], b"zeros", b"\0\0"]);
        desk.expect(&[
            ("BITPOS k 0", ":12"),
            ("BITPOS k 1", ":0"),
            ("BITPOS k 1 2", ":-1"),
            ("BITPOS k 0 2", ":16"),
            ("BITPOS k 1 7 15 BIT", ":7"),
            ("BITPOS k 0 7 11 BIT", ":-1"),
            ("BITPOS k 0 -12 -1 BIT", ":12"),
            ("BITPOS ones 0", ":16"),
            ("BITPOS ones 0 1", ":16"),
            ("BITPOS ones 0 0 -1", ":-1"),
            ("BITPOS ones 0 2", ":-1"),
            ("BITPOS zeros 1", ":-1"),
            ("BITPOS none 0 x FOO", ":0"),
            ("BITPOS none 1", ":-1"),
            ("SET e ''", "+OK"),
            ("BITPOS e 0", ":-1"),
            ("BITPOS e 0 0", ":-1"),
        ]);
    }

    #[test]
    fn the_result_agrees_with_a_bitwise_search() {
        let mut value = [0u8; 30];
        value[20] = 0x10;
        for flip in [0, 0xff] {
            for start in 0..240 {
                for end in start + 1..=240 {
                    let value = value.map(|byte| byte ^ flip);
                    let is_set = |at: &usize| (value[at / 8] << (at % 8)) & 0x80 != 0;
                    let bit = flip == 0;
                    let slow = (start..end).find(|at| is_set(at) == bit);
                    assert_eq!(find(&value, bit, start..end), slow, "{start}..{end}");
                }
            }
        }
    }

    #[test]
    fn errors() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("BITPOS s x", "-ERR value is not an integer or out of range"),
            ("BITPOS s 2", "-ERR The bit argument must be 1 or 0."),
            ("BITPOS s 1 x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET k v", "+OK"),
            ("BITPOS k 1 x 0 FOO", "-ERR value is not an integer or out of range"),
            ("BITPOS k 1 0 x FOO", "-ERR syntax error"),
            ("BITPOS k 1 0 x BIT", "-ERR value is not an integer or out of range"),
            ("BITPOS k 1 x 0 BIT BIT", "-ERR syntax error"),
        ]);
    }
}
