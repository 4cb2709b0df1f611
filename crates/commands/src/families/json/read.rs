//! `JSON.TYPE key [path]`, `JSON.STRLEN key [path]`, `JSON.ARRLEN key [path]`, `JSON.OBJLEN key [path]`,
//! `JSON.OBJKEYS key [path]`, `JSON.RESP key [path]`
//!
//! One element per match, nil for values of other types. A legacy path has a single reply; what it is if the key or match is
//! absent or the value is of another type differs by command, as in RedisJSON.

use serde_json::Value;

use super::path::Path;
use super::{document, edit};
use crate::bounds::JSON_MATCHES_MAX;
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply};

/// The document, with a path to read from it.
struct View {
    /// `None`: the key does not exist.
    tree: Option<Value>,
    path: Path,
}

fn view(ctx: &mut Ctx<'_>, args: Args<'_>, name: &str) -> Result<View, Fail> {
    edit::at_most(args, 3, name)?;
    let path = edit::path_at(args, 2)?;
    Ok(View { tree: edit::load(ctx, args.at(1))?, path })
}

/// One element per match.
fn each(ctx: &Ctx<'_>, tree: &Value, path: &Path, result: impl Fn(&Value) -> Option<Reply>) -> CommandResult {
    let values = path.values(tree, edit::order(ctx))?;
    Ok(Reply::Array(values.into_iter().map(|value| result(value).unwrap_or(Reply::Nil)).collect()))
}

fn first<'a>(ctx: &Ctx<'_>, tree: &'a Value, path: &'a Path) -> Result<Option<&'a Value>, Fail> {
    Ok(path.values(tree, edit::order(ctx))?.first().copied())
}

pub(super) fn json_type(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let View { tree, path } = view(ctx, args, "json.type")?;
    let Some(tree) = tree else { return Ok(Reply::Nil) };
    let kind = |value: &Value| Reply::text(document::kind(value));
    if path.is_legacy() {
        return Ok(first(ctx, &tree, &path)?.map_or(Reply::Nil, kind));
    }
    each(ctx, &tree, &path, |value| Some(kind(value)))
}

pub(super) fn json_strlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let View { tree, path } = view(ctx, args, "json.strlen")?;
    let length = |value: &Value| value.as_str().map(|text| Reply::count(text.len()));
    match tree {
        None if path.is_legacy() => Ok(Reply::Nil),
        None => Err(edit::NO_DOCUMENT),
        Some(tree) if path.is_legacy() => {
            let value = first(ctx, &tree, &path)?.ok_or_else(|| edit::no_path(&path))?;
            length(value).ok_or_else(|| edit::wrong_kind("string", document::kind(value)))
        }
        Some(tree) => each(ctx, &tree, &path, length),
    }
}

pub(super) fn json_arrlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let View { tree, path } = view(ctx, args, "json.arrlen")?;
    let length = |value: &Value| value.as_array().map(|items| Reply::count(items.len()));
    match tree {
        None if path.is_legacy() => Ok(Reply::Nil),
        None => Err(edit::NO_DOCUMENT),
        Some(tree) if path.is_legacy() => {
            let value = first(ctx, &tree, &path)?.ok_or_else(|| edit::no_path(&path))?;
            length(value).ok_or_else(|| edit::no_path_or(&path, "not an array"))
        }
        Some(tree) => each(ctx, &tree, &path, length),
    }
}

pub(super) fn json_objlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let View { tree, path } = view(ctx, args, "json.objlen")?;
    let length = |value: &Value| value.as_object().map(|members| Reply::count(members.len()));
    match tree {
        None if path.is_legacy() => Ok(Reply::Nil),
        None => Err(edit::no_path_or(&path, "not an object")),
        Some(tree) if path.is_legacy() => {
            let Some(value) = first(ctx, &tree, &path)? else { return Ok(Reply::Nil) };
            length(value).ok_or_else(|| edit::wrong_kind("object", document::kind(value)))
        }
        Some(tree) => each(ctx, &tree, &path, length),
    }
}

pub(super) fn json_objkeys(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let View { tree, path } = view(ctx, args, "json.objkeys")?;
    let names = |value: &Value| value.as_object().map(|members| Reply::bulks(members.keys()));
    match tree {
        None if path.is_legacy() => Ok(Reply::Nil),
        None => Err(edit::NO_DOCUMENT),
        Some(tree) if path.is_legacy() => {
            let Some(value) = first(ctx, &tree, &path)? else { return Ok(Reply::Nil) };
            names(value).ok_or_else(|| edit::no_path_or(&path, "not an object"))
        }
        Some(tree) => {
            let (values, mut left) = (path.values(&tree, edit::order(ctx))?, JSON_MATCHES_MAX);
            values
                .iter()
                .try_for_each(|value| take(&mut left, value.as_object().map_or(0, serde_json::Map::len)))?;
            Ok(Reply::Array(values.into_iter().map(|value| names(value).unwrap_or(Reply::Nil)).collect()))
        }
    }
}

pub(super) fn json_resp(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let View { tree, path } = view(ctx, args, "json.resp")?;
    let Some(tree) = tree else { return Ok(Reply::Nil) };
    let mut left = JSON_MATCHES_MAX;
    if path.is_legacy() {
        return in_resp(first(ctx, &tree, &path)?.ok_or_else(|| edit::no_path(&path))?, &mut left);
    }
    let values = path.values(&tree, edit::order(ctx))?;
    let replies: Result<_, _> = values.into_iter().map(|value| in_resp(value, &mut left)).collect();
    Ok(Reply::Array(replies?))
}

/// Counts parts of a reply. The same large value may match repeatedly.
fn take(left: &mut usize, parts: usize) -> Result<(), Fail> {
    *left = left.checked_sub(parts).ok_or(super::path::PathFlaw::TooMany)?;
    Ok(())
}

/// A value as RESP types: a container is an array that begins with its bracket.
fn in_resp(value: &Value, left: &mut usize) -> CommandResult {
    take(left, 1)?;
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Bool(true) => Reply::status("true"),
        Value::Bool(false) => Reply::status("false"),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Reply::Number(number.as_str().to_owned()), Reply::Int)
        }
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Array(items) => {
            let mut replies = vec![Reply::status("[")];
            for item in items {
                replies.push(in_resp(item, left)?);
            }
            Reply::Array(replies)
        }
        Value::Object(members) => {
            let mut replies = vec![Reply::status("{")];
            for (name, member) in members {
                replies.push(Reply::bulk(name.as_bytes()));
                replies.push(in_resp(member, left)?);
            }
            Reply::Array(replies)
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::{expect, upstash};
    use crate::testing::Desk;

    const DOCUMENT: &str =
        r#"JSON.SET d $ {"a":"é","n":{"a":[1,2.5,18446744073709551616],"b":{}},"t":[true,null,-1]}"#;
    const NO_KEY: &str = "-ERR could not perform this operation on a key that doesn't exist";

    #[test]
    fn types_and_lengths_are_returned() {
        expect(&[
            (DOCUMENT, "+OK"),
            ("JSON.TYPE d", "$ object"),
            ("JSON.TYPE d $..a", "*2 $ string $ array"),
            ("JSON.TYPE d $.n.a[*]", "*3 $ integer $ number $ integer"),
            ("JSON.TYPE d $.t[*]", "*3 $ boolean $ null $ integer"),
            ("JSON.TYPE d zz", "$-1"),
            ("JSON.TYPE d $.zz", "*0"),
            ("JSON.TYPE e", "$-1"),
            ("JSON.TYPE e $", "$-1"),
            ("JSON.STRLEN d $..a", "*2 :2 $-1"),
            ("JSON.STRLEN d a", ":2"),
            ("JSON.STRLEN d", "-WRONGTYPE wrong type of path value - expected string but found object"),
            ("JSON.STRLEN d zz", "-ERR Path '$.zz' does not exist"),
            ("JSON.STRLEN e a", "$-1"),
            ("JSON.STRLEN e $.a", NO_KEY),
            ("JSON.ARRLEN d $..a", "*2 $-1 :3"),
            ("JSON.ARRLEN d t", ":3"),
            ("JSON.ARRLEN d", "-ERR Path '$' does not exist or not an array"),
            ("JSON.ARRLEN d zz", "-ERR Path '$.zz' does not exist"),
            ("JSON.ARRLEN e", "$-1"),
            ("JSON.ARRLEN e $", NO_KEY),
            ("JSON.OBJLEN d", ":3"),
            ("JSON.OBJLEN d $.*", "*3 $-1 :2 $-1"),
            ("JSON.OBJLEN d t", "-WRONGTYPE wrong type of path value - expected object but found array"),
            ("JSON.OBJLEN d zz", "$-1"),
            ("JSON.OBJLEN e", "$-1"),
            ("JSON.OBJLEN e $", "-ERR Path '$' does not exist or not an object"),
            ("JSON.OBJKEYS d", "*3 $ a $ n $ t"),
            ("JSON.OBJKEYS d $.*", "*3 $-1 *2 $ a $ b $-1"),
            ("JSON.OBJKEYS d t", "-ERR Path '$.t' does not exist or not an object"),
            ("JSON.OBJKEYS d zz", "$-1"),
            ("JSON.OBJKEYS e", "$-1"),
            ("JSON.OBJKEYS e $", NO_KEY),
            ("JSON.TYPE d $ x", "-ERR wrong number of arguments for 'json.type' command"),
        ]);
    }

    #[test]
    fn values_are_returned_as_resp_types() {
        expect(&[
            (DOCUMENT, "+OK"),
            ("JSON.RESP e", "$-1"),
            ("JSON.RESP d $.n", "*1 *5 +{ $ a *4 +[ :1 $ 2.5 $ 18446744073709551616 $ b *1 +{"),
            ("JSON.RESP d t", "*4 +[ +true $-1 :-1"),
            ("JSON.RESP d a", "$ é"),
            ("JSON.RESP d zz", "-ERR Path '$.zz' does not exist"),
            ("JSON.RESP d $.zz", "*0"),
        ]);
    }

    #[test]
    fn upstash_returns_inner_matches_first() {
        upstash(&[
            (r#"JSON.SET d $ {"a":[3],"nested":{"a":{"b":2,"c":1}}}"#, "+OK"),
            ("JSON.OBJLEN d $..a", "*2 :2 $-1"),
            ("JSON.ARRLEN d $..a", "*2 $-1 :1"),
            ("JSON.TYPE d $..a", "*2 $ object $ array"),
            ("JSON.OBJKEYS d $..a", "*2 *2 $ b $ c $-1"),
        ]);
    }

    #[test]
    fn a_repeated_value_is_bounded() {
        let mut desk = Desk::new();
        let names: Vec<_> = (0..1000).map(|n| format!("\"{n}\":0")).collect();
        desk.run_args(&["JSON.SET", "d", "$", &format!("[{{{}}}]", names.join(","))]);
        let path = format!("$[{}0]", "0,".repeat(1100));
        for command in ["JSON.OBJKEYS", "JSON.RESP"] {
            let rejected = desk.run_args(&[command, "d", &path]);
            assert_eq!(crate::testing::shown(&rejected), "-ERR path selects too many values");
        }
    }
}
