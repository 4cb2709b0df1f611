//! `PFMERGE destkey [sourcekey [sourcekey ...]]`

use super::REGISTERS;
use super::sketch::Sketch;
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn pfmerge(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut registers = [0; REGISTERS];
    let mut any_dense = false;
    for key in args.from(1) {
        if let Some(value) = ctx.keys.str(key, ctx.now)? {
            let sketch = Sketch::of(value)?;
            any_dense |= sketch.is_dense();
            sketch.merge_into(&mut registers)?;
        }
    }
    ctx.keys.update_str(args.at(1), ctx.now, |old| {
        let mut sketch = Sketch::of_value(old)?;
        if any_dense {
            sketch.make_dense()?;
        }
        for (index, value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            sketch.raise(index, *value)?;
        }
        sketch.make_stale();
        Ok::<_, Fail>((Some(sketch.to_bytes()), ()))
    })?;
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_merge_counts_every_element_once_and_keeps_the_expiry() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("PFADD a 1 2 3", ":1"),
            ("PFADD b 3 4", ":1"),
            ("PFMERGE d", "+OK"),
            ("STRLEN d", ":18"),
            ("PFMERGE d a b none", "+OK"),
            ("PFCOUNT d", ":4"),
            ("PFMERGE a b", "+OK"),
            ("PFCOUNT a", ":4"),
        ]);
        desk.run("GETEX d PX 10");
        desk.expect(&[("PFMERGE d a", "+OK")]);
        desk.now.0 += 10;
        desk.expect(&[("PFCOUNT d", ":0")]);
    }

    #[test]
    fn errors_change_nothing() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("PFADD a 1", ":1"),
            ("PFMERGE d a s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET k v", "+OK"),
            ("PFMERGE d a k", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
            ("PFMERGE k a", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
            ("SET k HYLL\u{1}00000000000", "+OK"),
            ("PFMERGE d a k", "-INVALIDOBJ Corrupted HLL object detected"),
            ("GET d", "$-1"),
        ]);
    }
}
