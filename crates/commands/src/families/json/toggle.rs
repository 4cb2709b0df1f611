//! `JSON.TOGGLE key path`, `JSON.CLEAR key [path]`

use serde_json::Value;

use super::edit::{self, Edit};
use super::location;
use super::path::Path;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn json_toggle(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut edit = Edit::begin(ctx, args, Path::read(args.at(2))?)?;
    let results = edit.each(0, |value| {
        let Value::Bool(yes) = value else { return Ok(None) };
        *yes = !*yes;
        Ok(Some(*yes))
    })?;
    let legacy = edit.path.is_legacy();
    let reply = edit.reply(results, "not a bool", |yes| {
        if legacy { Reply::text(yes.to_string()) } else { Reply::yes(yes) }
    })?;
    edit.finish(ctx, args)?;
    Ok(reply)
}

/// Containers become empty and numbers 0. Values that are empty or 0 already do not count, nor do values inside a cleared one.
pub(super) fn json_clear(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    edit::at_most(args, 3, "json.clear")?;
    let mut edit = Edit::begin(ctx, args, edit::path_at(args, 2)?)?;
    let locations = edit.locations()?;
    let mut cleared = 0;
    for location in location::topmost(locations) {
        let changed = location::at_mut(&mut edit.tree, &location).is_some_and(clear);
        cleared += usize::from(changed);
    }
    edit.finish(ctx, args)?;
    Ok(Reply::count(cleared))
}

fn clear(value: &mut Value) -> bool {
    match value {
        Value::Array(items) if !items.is_empty() => items.clear(),
        Value::Object(members) if !members.is_empty() => members.clear(),
        Value::Number(number) if number.as_f64() != Some(0.0) => *number = 0.into(),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::{expect, upstash};

    const NO_KEY: &str = "-ERR could not perform this operation on a key that doesn't exist";

    #[test]
    fn booleans_are_inverted() {
        expect(&[
            ("JSON.TOGGLE d $", NO_KEY),
            (r#"JSON.SET d $ {"t":true,"n":{"t":false,"x":1}}"#, "+OK"),
            ("JSON.TOGGLE d $..t", "*2 :0 :1"),
            ("JSON.TOGGLE d $.n.*", "*2 :0 $-1"),
            ("JSON.TOGGLE d t", "$ true"),
            ("JSON.TOGGLE d n.x", "-ERR Path '$.n.x' does not exist or not a bool"),
            ("JSON.TOGGLE d $.zz", "*0"),
            ("JSON.GET d", r#"$ {"t":true,"n":{"t":false,"x":1}}"#),
        ]);
        upstash(&[
            (r#"JSON.SET d $ {"bool":true,"obj":{"bool":false}}"#, "+OK"),
            ("JSON.TOGGLE d $..bool", "*2 :1 :0"),
        ]);
    }

    #[test]
    fn containers_and_numbers_are_cleared() {
        expect(&[
            ("JSON.CLEAR d", NO_KEY),
            (
                r#"JSON.SET d $ {"o":{"a":1},"l":[1,2],"s":"x","b":true,"i":42,"f":3.14,"z":0,"e":[],"n":0.0}"#,
                "+OK",
            ),
            ("JSON.CLEAR d $.*", ":4"),
            ("JSON.GET d", r#"$ {"o":{},"l":[],"s":"x","b":true,"i":0,"f":0,"z":0,"e":[],"n":0.0}"#),
            ("JSON.CLEAR d $.*", ":0"),
            ("JSON.CLEAR d $.zz", ":0"),
            (r#"JSON.SET d $ {"a":{"b":1},"c":2}"#, "+OK"),
            ("JSON.CLEAR d $..*", ":2"),
            ("JSON.CLEAR d", ":1"),
            ("JSON.GET d", "$ {}"),
            ("JSON.CLEAR d $ x", "-ERR wrong number of arguments for 'json.clear' command"),
        ]);
    }
}
