//! `BITCOUNT key [start end [BYTE | BIT]]`

use crate::errors;
use crate::families::strings::range;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn bitcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let Some(value) = ctx.keys.str(args.at(1), ctx.now)? else {
        return Ok(Reply::Int(0));
    };
    if args.len() == 2 {
        return Ok(Reply::count(count_ones(value)));
    }
    if !matches!(args.len(), 4 | 5) {
        return Err(errors::SYNTAX);
    }
    let (start, end) = (args.int(2)?, args.int(3)?);
    if range::is_backwards(start, end) {
        return Ok(Reply::Int(0));
    }
    let in_bits = match args.get(4) {
        None => false,
        Some(unit) => is_bit_unit(unit).ok_or(errors::SYNTAX)?,
    };
    if !in_bits {
        return Ok(Reply::count(count_ones(&value[range::clamp(start, end, value.len())])));
    }
    let bits = range::clamp(start, end, value.len() * 8);
    if bits.is_empty() {
        return Ok(Reply::Int(0));
    }
    // Whole bytes, without the bits of the first and the last that are outside the range.
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let before = value[first] & !(0xff >> (bits.start % 8));
    let behind = value[last] & (0x7f >> ((bits.end - 1) % 8));
    let outside = before.count_ones() + behind.count_ones();
    Ok(Reply::count(count_ones(&value[first..=last]) - outside as usize))
}

/// Whether a range is counted in bits (BIT) and not in bytes (BYTE).
pub(super) fn is_bit_unit(unit: &[u8]) -> Option<bool> {
    if unit.eq_ignore_ascii_case(b"BIT") {
        Some(true)
    } else {
        unit.eq_ignore_ascii_case(b"BYTE").then_some(false)
    }
}

fn count_ones(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: usize = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize).sum();
    in_words + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn bits_are_counted_in_bytes_or_bits() {
        Desk::new().expect(&[
            ("SET k foobar", "+OK"),
            ("BITCOUNT k", ":26"),
            ("BITCOUNT k 0 0", ":4"),
            ("BITCOUNT k 1 1", ":6"),
            ("BITCOUNT k 1 1 BYTE", ":6"),
            ("BITCOUNT k 5 30 BIT", ":17"),
            ("BITCOUNT k 1 2 bit", ":2"),
            ("BITCOUNT k 0 -1 BIT", ":26"),
            ("BITCOUNT k -2 -3", ":0"),
            ("BITCOUNT k -200 -300 FOO", ":0"),
            ("BITCOUNT k 0 -300", ":4"),
            ("BITCOUNT k 9 10 BIT", ":2"),
            ("BITCOUNT k 48 100 BIT", ":0"),
            ("BITCOUNT none 0 x FOO BAR", ":0"),
            ("SET e ''", "+OK"),
            ("BITCOUNT e 0 -1 BIT", ":0"),
        ]);
    }

    #[test]
    fn errors() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("BITCOUNT s x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET k v", "+OK"),
            ("BITCOUNT k 0", "-ERR syntax error"),
            ("BITCOUNT k 0 x FOO", "-ERR value is not an integer or out of range"),
            ("BITCOUNT k 0 1 FOO", "-ERR syntax error"),
            ("BITCOUNT k x 1 BIT BIT", "-ERR syntax error"),
        ]);
    }
}
