//! `SETRANGE key offset value`

use keystead_model::Bytes;

use crate::bounds::STRING_BYTES_MAX;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn setrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let offset = usize::try_from(args.int(2)?).map_err(|_| errors::OFFSET_OUT_OF_RANGE)?;
    let part = args.at(3);
    let len = ctx.keys.update_str(args.at(1), ctx.now, |old| {
        let old = old.map_or(&[][..], |old| old);
        if part.is_empty() {
            return Ok((None, old.len()));
        }
        let end = offset.saturating_add(part.len());
        if end > STRING_BYTES_MAX {
            return Err(errors::STRING_TOO_LONG);
        }
        let new = overwritten(old, offset, part);
        let len = new.len();
        Ok::<_, Fail>((Some(Bytes::from(new)), len))
    })?;
    Ok(Reply::count(len))
}

/// A copy with `part` at `offset`, and zeros in the gap before it.
fn overwritten(old: &[u8], offset: usize, part: &[u8]) -> Vec<u8> {
    let end = offset + part.len();
    let mut new = Vec::with_capacity(old.len().max(end));
    new.extend_from_slice(&old[..old.len().min(offset)]);
    new.resize(offset, 0);
    new.extend_from_slice(part);
    new.extend_from_slice(old.get(end..).unwrap_or_default());
    new
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn parts_are_overwritten_and_gaps_are_zeros() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SETRANGE k 5 ''", ":0"),
            ("GET k", "$-1"),
            ("SETRANGE k 2 ab", ":4"),
            ("GET k", "$4 \0\0ab"),
            ("SETRANGE k 1 xyz", ":4"),
            ("SETRANGE k 0 w", ":4"),
            ("GET k", "$4 wxyz"),
            ("SETRANGE k 3 01", ":5"),
            ("SETRANGE k 6 !", ":7"),
            ("GET k", "$7 wxy01\0!"),
            ("SETRANGE k 536870911 ''", ":7"),
        ]);
    }

    #[test]
    fn errors() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("SETRANGE s -1 x", "-ERR offset is out of range"),
            ("SETRANGE s x x", "-ERR value is not an integer or out of range"),
            ("SETRANGE s 0 x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SETRANGE k 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
            (
                "SETRANGE k 9223372036854775807 x",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            ),
        ]);
    }
}
