//! `DEL key [key ...]`, `UNLINK key [key ...]`

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn del(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut deleted = 0;
    for key in args.from(1) {
        deleted += usize::from(ctx.keys.delete(key, ctx.now)?);
    }
    Ok(Reply::count(deleted))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn del_and_unlink_count_existing_keys() {
        let mut desk = Desk::new();
        desk.run("HSET a f v");
        desk.run("SADD b m");
        desk.expect(&[
            ("DEL a b a c", ":2"),
            ("EXISTS a b", ":0"),
            ("HSET a f v", ":1"),
            ("UNLINK a x", ":1"),
            ("DEL a", ":0"),
            ("DEL", "-ERR wrong number of arguments for 'del' command"),
            ("UNLINK", "-ERR wrong number of arguments for 'unlink' command"),
        ]);
        Desk::upstash().expect(&[
            ("DEL", ":0"),
            ("UNLINK", ":0"),
            ("EXISTS", "-ERR wrong number of arguments for 'exists' command"),
        ]);
    }
}
