//! `INCRBYFLOAT key increment`

use keystead_model::Bytes;

use crate::errors::Fail;
use crate::number;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn incrbyfloat(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let sum = ctx.keys.update_str(args.at(1), ctx.now, |old| {
        let old = old.map_or(&b"0"[..], |old| old);
        let sum = Bytes::from(number::add_long_double(old, args.at(2))?.as_bytes());
        Ok::<_, Fail>((Some(sum.clone()), sum))
    })?;
    Ok(Reply::shared(sum))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn sums_and_errors() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("INCRBYFLOAT k 10.50", "$4 10.5"),
            ("INCRBYFLOAT k 0.1", "$4 10.6"),
            ("INCRBYFLOAT k -1.06e1", "$1 0"),
            ("GET k", "$1 0"),
            ("INCRBYFLOAT s x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("INCRBYFLOAT k x", "-ERR value is not a valid float"),
            ("INCRBYFLOAT k inf", "-ERR increment would produce NaN or Infinity"),
            ("INCRBYFLOAT k nan", "-ERR value is not a valid float"),
            ("SET k abc", "+OK"),
            ("INCRBYFLOAT k 1", "-ERR value is not a valid float"),
        ]);
    }
}
