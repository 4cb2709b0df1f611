//! `PFCOUNT key [key ...]`
//!
//! The cardinality of one key is cached in its header, as in Redis: this read command may change the string.

use super::REGISTERS;
use super::sketch::{Sketch, cardinality_of};
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn pfcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let count = if args.len() == 2 { count_one(ctx, args.at(1))? } else { count_all(ctx, args)? };
    Ok(Reply::Int(count as i64))
}

fn count_one(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<u64, Fail> {
    ctx.keys.update_str(key, ctx.now, |old| {
        let Some(old) = old else { return Ok((None, 0)) };
        let mut sketch = Sketch::of(old)?;
        if let Some(count) = sketch.cached() {
            return Ok((None, count));
        }
        let count = sketch.cardinality()?;
        sketch.cache(count);
        Ok((Some(sketch.to_bytes()), count))
    })
}

fn count_all(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<u64, Fail> {
    let mut registers = [0; REGISTERS];
    for key in args.from(1) {
        if let Some(value) = ctx.keys.str(key, ctx.now)? {
            Sketch::of(value)?.merge_into(&mut registers)?;
        }
    }
    Ok(cardinality_of(&registers))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn counts_of_one_and_of_several() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("PFCOUNT h", ":0"),
            ("PFADD h a b c", ":1"),
            ("PFADD i c d", ":1"),
            ("PFCOUNT h", ":3"),
            ("PFCOUNT h", ":3"),
            ("PFCOUNT h i none", ":4"),
            ("PFCOUNT i h", ":4"),
        ]);
        let versions = [&b"h"[..], b"i"].map(|key| desk.keys.version(key, desk.now).unwrap());
        let versions = versions.map(|version| version.map(|version| version.0));
        assert_eq!(versions, [Some(2), Some(1)], "only the count of one key is cached, once");
    }

    #[test]
    fn errors() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("PFCOUNT s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET k v", "+OK"),
            ("PFCOUNT none k", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
            ("SET k HYLL\u{1}00000000000", "+OK"),
            ("PFCOUNT k", ":3472328296227680304"),
            ("PFCOUNT k none", "-INVALIDOBJ Corrupted HLL object detected"),
        ]);
    }
}
