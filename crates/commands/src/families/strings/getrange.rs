//! `GETRANGE key start end`
//! `SUBSTR key start end`

use keystead_model::Bytes;

use super::range;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn getrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (start, end) = (args.int(2)?, args.int(3)?);
    let part = match ctx.keys.str(args.at(1), ctx.now)? {
        // A long substring shares its bytes with the value.
        Some(value) if !range::is_backwards(start, end) => {
            value.to_bytes().slice(range::clamp(start, end, value.len()))
        }
        _ => Bytes::new(),
    };
    Ok(Reply::shared(part))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn parts() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SET k hello", "+OK"),
            ("GETRANGE k 0 -1", "$5 hello"),
            ("GETRANGE k -3 -2", "$2 ll"),
            ("GETRANGE k 0 -100", "$1 h"),
            ("GETRANGE k -100 -101", "$0"),
            ("GETRANGE k 3 1", "$0"),
            ("GETRANGE k 9 10", "$0"),
            ("SUBSTR k 1 9223372036854775807", "$4 ello"),
            ("GETRANGE n 0 1", "$0"),
            ("GETRANGE n x 1", "-ERR value is not an integer or out of range"),
        ]);
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("GETRANGE s 0 x", "-ERR value is not an integer or out of range"),
            ("GETRANGE s 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
