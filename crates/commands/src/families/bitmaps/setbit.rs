//! `SETBIT key offset value`
//! `GETBIT key offset`

use std::borrow::Cow;

use keystead_model::Bytes;

use super::offset;
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply};

const BAD_BIT: Fail = Fail::Text(Cow::Borrowed("ERR bit is not an integer or out of range"));

pub(super) fn setbit(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let offset = offset::parse(args.at(2))?;
    let on = match args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(BAD_BIT),
    };
    let (byte, mask) = place(offset);
    let before = ctx.keys.update_str(args.at(1), ctx.now, |old| {
        let old = old.map_or(&[][..], |old| old);
        let before = old.get(byte).map(|old| old & mask != 0);
        if before == Some(on) {
            return Ok::<_, Fail>((None, on));
        }
        let mut new = Vec::with_capacity(old.len().max(byte + 1));
        new.extend_from_slice(old);
        if new.len() <= byte {
            new.resize(byte + 1, 0);
        }
        if on {
            new[byte] |= mask;
        } else {
            new[byte] &= !mask;
        }
        Ok((Some(Bytes::from(new)), before.unwrap_or(false)))
    })?;
    Ok(Reply::yes(before))
}

pub(super) fn getbit(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (byte, mask) = place(offset::parse(args.at(2))?);
    let value = ctx.keys.str(args.at(1), ctx.now)?;
    let set = value.and_then(|value| value.get(byte)).is_some_and(|value| value & mask != 0);
    Ok(Reply::yes(set))
}

/// The byte of a bit, and the bit in it.
fn place(offset: usize) -> (usize, u8) {
    (offset / 8, 0x80 >> (offset % 8))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn bits_are_counted_from_the_highest() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SETBIT k 1 1", ":0"),
            ("GET k", "$1 @"),
            ("SETBIT k 1 1", ":1"),
            ("SETBIT k 2 1", ":0"),
            ("SETBIT k 2 0", ":1"),
            ("GETBIT k 1", ":1"),
            ("GETBIT k 2", ":0"),
            ("GETBIT k 4294967295", ":0"),
            ("SETBIT k 23 0", ":0"),
            ("GET k", "$3 @\0\0"),
            ("GETBIT none 0", ":0"),
            ("SETBIT new 0 0", ":0"),
            ("GET new", "$1 \0"),
        ]);
        assert_eq!(
            desk.keys.version(b"k", desk.now).unwrap().map(|version| version.0),
            Some(4),
            "what stays is not written"
        );
    }

    #[test]
    fn errors() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        let bad_offset = "-ERR bit offset is not an integer or out of range";
        let bad_bit = "-ERR bit is not an integer or out of range";
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        desk.expect(&[
            ("SETBIT s -1 2", bad_offset),
            ("SETBIT s 4294967296 1", bad_offset),
            ("SETBIT s x 1", bad_offset),
            ("SETBIT s #1 1", bad_offset),
            ("SETBIT s 0 2", bad_bit),
            ("SETBIT s 0 01", bad_bit),
            ("SETBIT s 4294967295 1", wrong_type),
            ("GETBIT s 4294967296", bad_offset),
            ("GETBIT s 0", wrong_type),
        ]);
    }
}
