//! `GETDEL key`

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn getdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let Some(value) = ctx.keys.str(args.at(1), ctx.now)?.map(Reply::string) else {
        return Ok(Reply::Nil);
    };
    ctx.keys.delete(args.at(1), ctx.now)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_value_is_returned_and_deleted() {
        let mut desk = Desk::new();
        desk.expect(&[("SET k v", "+OK"), ("GETDEL k", "$1 v"), ("GETDEL k", "$-1")]);
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[("GETDEL s", "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
        assert!(desk.keys.exists(b"s", desk.now).unwrap());
    }
}
