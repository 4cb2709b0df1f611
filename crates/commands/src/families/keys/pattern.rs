//! `KEYS pattern`

use crate::{Args, CommandResult, Ctx, Reply, glob};

pub(super) fn keys(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let pattern = args.at(1);
    let everything = pattern == b"*";
    let mut found = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = ctx.keys.scan(cursor, usize::MAX, ctx.now, |key, _| {
            if everything || glob::matches(pattern, key) {
                found.push(Reply::shared(key.clone()));
            }
        })?;
        if cursor == 0 {
            return Ok(Reply::Array(found));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn keys_are_found_by_pattern() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("KEYS *", "*0"),
            ("SADD one m", ":1"),
            ("SADD two m", ":1"),
            ("KEYS *", "*2 $3 one $3 two"),
            ("KEYS t*", "*1 $3 two"),
            ("KEYS x", "*0"),
        ]);
    }
}
