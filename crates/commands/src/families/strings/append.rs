//! `APPEND key value`

use keystead_model::Bytes;

use crate::bounds::STRING_BYTES_MAX;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn append(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let more = args.at(2);
    let len = ctx.keys.update_str(args.at(1), ctx.now, |old| {
        let Some(old) = old else { return Ok((Some(Bytes::from(more)), more.len())) };
        let len = old.len() + more.len();
        if len > STRING_BYTES_MAX {
            return Err(errors::STRING_TOO_LONG);
        }
        Ok::<_, Fail>((Some(Bytes::concat_slices(&[old, more])), len))
    })?;
    Ok(Reply::count(len))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_string_grows() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("APPEND k ab", ":2"),
            ("APPEND k cd", ":4"),
            ("GET k", "$4 abcd"),
            ("APPEND k 01234567890123456789", ":24"),
            ("GET k", "$24 abcd01234567890123456789"),
            ("APPEND e ''", ":0"),
            ("GET e", "$0"),
        ]);
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[("APPEND s v", "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
    }
}
