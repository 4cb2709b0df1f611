//! `PFADD key [element [element ...]]`

use super::sketch::Sketch;
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn pfadd(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let changed = ctx.keys.update_str(args.at(1), ctx.now, |old| {
        let mut sketch = Sketch::of_value(old)?;
        let mut changed = old.is_none();
        for element in args.from(2) {
            changed |= sketch.add(element)?;
        }
        if !changed {
            return Ok((None, false));
        }
        sketch.make_stale();
        Ok::<_, Fail>((Some(sketch.to_bytes()), true))
    })?;
    Ok(Reply::yes(changed))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn adding_returns_whether_anything_changed() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("PFADD h", ":1"),
            ("PFADD h", ":0"),
            ("STRLEN h", ":18"),
            ("PFADD h a b c", ":1"),
            ("PFADD h a b c", ":0"),
            ("PFCOUNT h", ":3"),
        ]);
        assert_eq!(desk.keys.version(b"h", desk.now).unwrap().map(|version| version.0), Some(3));
    }

    /// What a real server has after the same commands: the number of elements, the length and a sum of the string, the count.
    const RECORDED: [(usize, usize, u64, &str); 7] = [
        (1, 21, 13_189_852_858_201_688_076, ":1"),
        (2, 24, 5_814_513_926_651_044_384, ":2"),
        (10, 48, 2_961_230_346_144_745_630, ":10"),
        (100, 285, 11_019_201_247_409_860_017, ":99"),
        (1000, 1897, 665_799_550_165_739_207, ":997"),
        (1500, 2722, 5_138_352_104_635_900_793, ":1500"),
        (3000, 12304, 15_181_112_578_608_792_590, ":3002"),
    ];

    #[test]
    fn the_string_is_the_one_that_redis_has() {
        let mut desk = Desk::new();
        let mut added = 0;
        for (elements, len, sum, count) in RECORDED {
            while added < elements {
                desk.run(&format!("PFADD h element:{added}"));
                added += 1;
            }
            let value = desk.keys.str(b"h", desk.now).unwrap().unwrap();
            let found =
                value.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            assert_eq!((value.len(), found), (len, sum), "{elements}");
            assert_eq!(desk.resp("PFCOUNT h"), count);
        }
    }

    #[test]
    fn errors_change_nothing() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("PFADD s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET k v", "+OK"),
            ("PFADD k a", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
            ("SET k HYLL\u{1}00000000000", "+OK"),
            ("PFADD k", ":0"),
            ("PFADD k a", "-INVALIDOBJ Corrupted HLL object detected"),
        ]);
    }
}
