//! `EXISTS key [key ...]`, `TOUCH key [key ...]`: a key given twice counts twice. Every read marks the key as used.

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn exists(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut found = 0;
    for key in args.from(1) {
        found += usize::from(ctx.keys.exists(key, ctx.now)?);
    }
    Ok(Reply::count(found))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_key_named_twice_counts_twice() {
        let mut desk = Desk::new();
        desk.run("SADD a m");
        desk.expect(&[("EXISTS a b a", ":2"), ("TOUCH a b", ":1"), ("TOUCH b", ":0")]);
    }
}
