//! `RANDOMKEY`

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn randomkey(ctx: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    let key = ctx.keys.random_key(ctx.random.next(), ctx.now)?;
    Ok(key.map_or(Reply::Nil, Reply::shared))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_random_key_exists() {
        let mut desk = Desk::new();
        desk.expect(&[("RANDOMKEY", "$-1"), ("SADD a m", ":1"), ("RANDOMKEY", "$1 a")]);
    }
}
