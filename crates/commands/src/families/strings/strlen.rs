//! `STRLEN key`

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn strlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::count(ctx.keys.str(args.at(1), ctx.now)?.map_or(0, |value| value.len())))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn lengths() {
        let mut desk = Desk::new();
        desk.expect(&[("STRLEN k", ":0"), ("SET k abc", "+OK"), ("STRLEN k", ":3")]);
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[("STRLEN s", "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
    }
}
