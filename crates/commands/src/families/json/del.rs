//! `JSON.DEL key [path]`, `JSON.FORGET key [path]`. Deleting the root deletes the key; a root that becomes empty stays.

use super::edit::{self, Edit};
use super::location;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn json_del(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    edit::at_most(args, 3, "json.del")?;
    let path = edit::path_at(args, 2)?;
    if ctx.keys.json(args.at(1), ctx.now)?.is_none() {
        return Ok(Reply::Int(0));
    }
    if path.is_root() {
        ctx.keys.delete(args.at(1), ctx.now)?;
        return Ok(Reply::Int(1));
    }
    let mut edit = Edit::begin(ctx, args, path)?;
    let locations = edit.locations()?;
    let removed = location::remove_all(&mut edit.tree, locations);
    edit.finish(ctx, args)?;
    Ok(Reply::count(removed))
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::expect;

    #[test]
    fn matches_go_and_are_counted_once() {
        expect(&[
            ("JSON.DEL d", ":0"),
            (r#"JSON.SET d $ {"a":1,"nested":{"a":{"a":2},"b":3},"l":[0,1,2,3]}"#, "+OK"),
            ("JSON.DEL d $..a", ":2"),
            ("JSON.DEL d $.l[0,2,0]", ":2"),
            ("JSON.GET d", r#"$ {"nested":{"b":3},"l":[1,3]}"#),
            ("JSON.DEL d $.zz", ":0"),
            ("JSON.FORGET d .nested.b", ":1"),
            ("JSON.DEL d $.*", ":2"),
            ("JSON.GET d", "$ {}"),
            ("JSON.DEL d $", ":1"),
            ("EXISTS d", ":0"),
            ("JSON.SET d $ 1", "+OK"),
            ("JSON.FORGET d", ":1"),
            ("JSON.DEL d $ x", "-ERR wrong number of arguments for 'json.del' command"),
            ("SET s v", "+OK"),
            ("JSON.DEL s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
