//! `JSON.SET key path value [NX | XX] [FORMAT STRING | JSON]`
//! `JSON.MERGE key path value [FORMAT STRING | JSON]`
//! `JSON.MSET key path value [key path value ...]`
//!
//! The expiration of the key stays, even if the root is set.

use std::collections::HashMap;

use serde_json::Value;

use super::edit::{self, NOT_ROOT};
use super::location::{self, Location};
use super::path::{Order, Path};
use super::{document, merge};
use crate::ctx::Dialect;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

/// The condition of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// Only if it does not exist.
    New,
    /// Only if it exists.
    Old,
}

/// What happens to an existing value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Replace,
    Merge,
}

pub(super) fn json_set(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(4);
    let mut condition = Condition::Always;
    while !cursor.is_done() {
        if condition == Condition::Always && cursor.accept("NX") {
            condition = Condition::New;
        } else if condition == Condition::Always && cursor.accept("XX") {
            condition = Condition::Old;
        } else if cursor.accept("FORMAT") {
            format(cursor.bytes()?)?;
        } else {
            return Err(errors::SYNTAX);
        }
    }
    put_one(ctx, args, condition, Manner::Replace)
}

pub(super) fn json_merge(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(4);
    while !cursor.is_done() {
        if !cursor.accept("FORMAT") {
            return Err(errors::SYNTAX);
        }
        format(cursor.bytes()?)?;
    }
    put_one(ctx, args, Condition::Always, Manner::Merge)
}

fn format(name: &[u8]) -> Result<(), Fail> {
    let known = name.eq_ignore_ascii_case(b"JSON") || name.eq_ignore_ascii_case(b"STRING");
    if known { Ok(()) } else { Err(Fail::fixed("ERR wrong format")) }
}

fn put_one(ctx: &mut Ctx<'_>, args: Args<'_>, condition: Condition, manner: Manner) -> CommandResult {
    let (key, path) = (args.at(1), Path::read(args.at(2))?);
    let before = ctx.keys.json(key, ctx.now)?.cloned();
    let value = document::parse(args.at(3))?;
    let rejected = if before.is_some() { condition == Condition::New } else { condition == Condition::Old };
    if rejected && (path.is_root() || before.is_none()) {
        return Ok(Reply::Nil);
    }
    // A value that is replaced as a whole is not parsed.
    let whole = path.is_root() && (manner == Manner::Replace || before.is_none());
    let tree = match &before {
        _ if whole => Some(value),
        None => return Err(NOT_ROOT),
        Some(before) => {
            let mut tree = document::parse(before)?;
            let how = (condition, manner);
            let put = put(&mut tree, &path, value, args.at(3).len(), how, edit::order(ctx))?;
            put.then_some(tree)
        }
    };
    if let Some(tree) = tree {
        let text = document::print(&tree)?;
        let merged_in_vain =
            manner == Manner::Merge && before.is_some_and(|before| *before == *text.as_bytes());
        if !merged_in_vain {
            edit::store_text(ctx, key, text)?;
        }
        return Ok(Reply::Ok);
    }
    // RedisJSON returns nil, Upstash an error.
    if condition == Condition::Always && ctx.dialect == Dialect::Upstash {
        return Err(edit::no_path(&path));
    }
    Ok(Reply::Nil)
}

pub(super) fn json_mset(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    if !(args.len() - 1).is_multiple_of(3) {
        return Err(errors::wrong_arity("json.mset"));
    }
    let order = edit::order(ctx);
    let mut trees: Vec<(&[u8], Value)> = Vec::new();
    let mut index = HashMap::new();
    for at in (1..args.len()).step_by(3) {
        let (key, path, value) =
            (args.at(at), Path::read(args.at(at + 1))?, document::parse(args.at(at + 2))?);
        let known = index.get(key).copied();
        if path.is_root() {
            if known.is_none() {
                ctx.keys.json(key, ctx.now)?;
            }
            let location = *index.entry(key).or_insert(trees.len());
            if location == trees.len() {
                trees.push((key, value));
            } else {
                trees[location].1 = value;
            }
            continue;
        }
        let location = match known {
            Some(location) => location,
            None => {
                trees.push((key, edit::load(ctx, key)?.ok_or(NOT_ROOT)?));
                index.insert(key, trees.len() - 1);
                trees.len() - 1
            }
        };
        let how = (Condition::Always, Manner::Replace);
        if !put(&mut trees[location].1, &path, value, args.at(at + 2).len(), how, order)? {
            return Err(edit::no_path(&path));
        }
    }
    // All or nothing: nothing is written before everything is known to fit.
    let texts: Result<Vec<_>, _> =
        trees.iter().map(|(key, tree)| Ok((*key, document::print(tree)?))).collect();
    for (key, text) in texts.map_err(|flaw: document::Flaw| Fail::from(flaw))? {
        edit::store_text(ctx, key, text)?;
    }
    Ok(Reply::Ok)
}

/// Writes a value at a path, and returns whether there was such a location.
fn put(
    tree: &mut Value,
    path: &Path,
    value: Value,
    bytes: usize,
    (condition, manner): (Condition, Manner),
    order: Order,
) -> Result<bool, Fail> {
    let locations: Vec<Location> =
        path.locations(tree, order)?.into_iter().map(|(location, _)| location).collect();
    if !locations.is_empty() {
        if condition == Condition::New {
            return Ok(false);
        }
        // Values inside a replaced value are removed with it; a value that is merged into stays.
        let locations = if manner == Manner::Replace { location::topmost(locations) } else { locations };
        edit::check_growth(locations.len(), bytes)?;
        replace(tree, &locations, value, manner);
        return Ok(true);
    }
    if condition == Condition::Old {
        return Ok(false);
    }
    add(tree, path, &value, bytes, order)
}

fn replace(tree: &mut Value, locations: &[Location], value: Value, manner: Manner) {
    let Some((last, others)) = locations.split_last() else { return };
    let put = |target: Option<&mut Value>, value: Value| match (target, manner) {
        (Some(target), Manner::Replace) => *target = value,
        (Some(target), Manner::Merge) => merge::merge_patch(target, value),
        (None, _) => {}
    };
    for location in others {
        put(location::at_mut(tree, location), value.clone());
    }
    put(location::at_mut(tree, last), value);
}

/// Adds a member that had no match. Elements are not added: an array has no gaps.
fn add(tree: &mut Value, path: &Path, value: &Value, bytes: usize, order: Order) -> Result<bool, Fail> {
    if !path.is_static() {
        return Err(Fail::fixed("ERR wrong static path"));
    }
    let Some((parent, name)) = path.split_name() else {
        return Err(Fail::fixed("ERR array index out of range"));
    };
    let locations: Vec<Location> =
        parent.locations(tree, order)?.into_iter().map(|(location, _)| location).collect();
    edit::check_growth(locations.len(), bytes)?;
    let mut added = false;
    for location in &locations {
        if let Some(Value::Object(members)) = location::at_mut(tree, location) {
            members.insert(name.to_owned(), value.clone());
            added = true;
        }
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::{expect, upstash};
    use crate::testing::Desk;

    #[test]
    fn a_document_is_put_whole_and_in_parts() {
        expect(&[
            (r#"JSON.SET d $.a 1"#, "-ERR new objects must be created at the root"),
            (r#"JSON.SET d $ {"a":{"b":1},"l":[1,2]} XX"#, "$-1"),
            (r#"JSON.SET d $ {"a":{"b":1},"l":[1,2]} NX"#, "+OK"),
            (r#"JSON.SET d . [] nx"#, "$-1"),
            (r#"JSON.SET d $.a.b 9007199254740993"#, "+OK"),
            (r#"JSON.SET d a.c "x" NX"#, "+OK"),
            (r#"JSON.SET d $.a.c "y" NX"#, "$-1"),
            (r#"JSON.SET d $.a.d 1.0 XX"#, "$-1"),
            (r#"JSON.SET d $.l[0] 1.0"#, "+OK"),
            (r#"JSON.SET d $.l[5] 1"#, "-ERR array index out of range"),
            (r#"JSON.SET d $.l[5] 1 XX"#, "$-1"),
            (r#"JSON.SET d $.x.y 1"#, "$-1"),
            (r#"JSON.SET d $.l.y 1"#, "$-1"),
            (r#"JSON.SET d $..zz 1"#, "-ERR wrong static path"),
            ("JSON.GET d", r#"$57 {"a":{"b":9007199254740993,"c":"x"},"l":[1.0,2]}"#),
            (r#"JSON.SET d $.l[*] null"#, "+OK"),
            (r#"JSON.SET d $..* 0"#, "+OK"),
            ("JSON.GET d", r#"$13 {"a":0,"l":0}"#),
            ("JSON.SET d $ {", "-ERR EOF while parsing an object at line 1 column 1"),
            ("JSON.SET d $ 1 NX XX", "-ERR syntax error"),
            ("JSON.SET d $ 1 FORMAT BSON", "-ERR wrong format"),
            ("JSON.SET d $ 1 FORMAT", "-ERR syntax error"),
            (
                "JSON.SET d $[ 1",
                "-ERR Error occurred on position 2, expected an index, a name in quotes, * or ?",
            ),
            ("SET s v", "+OK"),
            ("JSON.SET s $ 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("JSON.SET s $.a 1 XX", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("JSON.SET d $ 1 FORMAT JSON", "+OK"),
            ("JSON.GET d", "$1 1"),
        ]);
    }

    #[test]
    fn the_expiry_stays() {
        expect(&[
            (r#"JSON.SET d $ {"a":1}"#, "+OK"),
            ("EXPIRE d 100", ":1"),
            ("JSON.SET d $.a 2", "+OK"),
            ("TTL d", ":100"),
            ("JSON.SET d $ {}", "+OK"),
            ("TTL d", ":100"),
            (r#"JSON.MERGE d $ {"b":2}"#, "+OK"),
            ("JSON.MSET d $ {}", "+OK"),
            ("TTL d", ":100"),
        ]);
    }

    #[test]
    fn an_error_leaves_the_version() {
        let mut desk = Desk::new();
        desk.run(r#"JSON.SET d $ {"a":1}"#);
        let revision = desk.keys.revision();
        for line in [
            "JSON.SET d $ 1 NX",
            "JSON.SET d $.a 1 NX",
            "JSON.SET d $.b 1 XX",
            "JSON.SET d $.x.y 1",
            "JSON.MERGE d $.x.y 1",
            "JSON.MSET d $.a 2 e $.b 1",
            "JSON.MSET d $.a 2 d $.x.y 1",
            "JSON.MSET d $.a 2 e $ [",
        ] {
            desk.run(line);
            assert_eq!(desk.keys.revision(), revision, "{line}");
        }
    }

    #[test]
    fn merging_follows_rfc_7396_at_each_match() {
        expect(&[
            (r#"JSON.MERGE d $.a 1"#, "-ERR new objects must be created at the root"),
            (r#"JSON.MERGE d $ {"f1":{"a":1},"f2":{"a":2}}"#, "+OK"),
            (r#"JSON.MERGE d $ {"f1":null,"f2":{"a":3,"b":4},"f3":[2,4]}"#, "+OK"),
            ("JSON.GET d", r#"$32 {"f2":{"a":3,"b":4},"f3":[2,4]}"#),
            (r#"JSON.MERGE d $.f4 8"#, "+OK"),
            (r#"JSON.MERGE d $.* {"z":1}"#, "+OK"),
            ("JSON.GET d", r#"$55 {"f2":{"a":3,"b":4,"z":1},"f3":{"z":1},"f4":{"z":1}}"#),
            (r#"JSON.MERGE d $.f2 null"#, "+OK"),
            ("JSON.GET d .f2", "$4 null"),
            (r#"JSON.MERGE d $.x.y 1"#, "$-1"),
            (r#"JSON.MERGE d $ 1 NX"#, "-ERR syntax error"),
        ]);
    }

    #[test]
    fn several_keys_are_put_together_or_not_at_all() {
        expect(&[
            (r#"JSON.MSET a $ {"x":1} b . [1] a $.y 2 b [0] 3"#, "+OK"),
            ("JSON.MGET a b $", r#"*2 $15 [{"x":1,"y":2}] $5 [[3]]"#),
            (r#"JSON.MSET a $.x 9 c $.y 1"#, "-ERR new objects must be created at the root"),
            (r#"JSON.MSET a $.x 9 a $.q.r 1"#, "-ERR Path '$.q.r' does not exist"),
            ("JSON.GET a .x", "$1 1"),
            ("JSON.MSET a $ 1 b", "-ERR wrong number of arguments for 'json.mset' command"),
            ("SET s v", "+OK"),
            ("JSON.MSET a $ 1 s $ 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("JSON.GET a .x", "$1 1"),
        ]);
    }

    #[test]
    fn upstash_rejects_an_impossible_location() {
        upstash(&[
            (r#"JSON.SET d $ {"int":1}"#, "+OK"),
            (r#"JSON.SET d $.nonexisting.str "test""#, "-ERR Path '$.nonexisting.str' does not exist"),
            (r#"JSON.SET d $.int 2 NX"#, "$-1"),
            (r#"JSON.SET d $.x.y 2 XX"#, "$-1"),
        ]);
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let mut desk = Desk::new();
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        desk.run_args(&["JSON.SET", "d", "$", &deep]);
        let revision = desk.keys.revision();
        let path = format!("${}", "[0]".repeat(99));
        desk.run_args(&["JSON.ARRAPPEND", "d", &path, "1"]);
        assert!(desk.keys.revision() > revision);
        let revision = desk.keys.revision();
        let path = format!("{path}[0]");
        let rejected = desk.run_args(&["JSON.SET", "d", &path, &deep]);
        assert_eq!(crate::testing::shown(&rejected), "-ERR recursion limit exceeded");
        let many = format!("[{}1]", "1,".repeat(10_000));
        desk.run_args(&["JSON.SET", "e", "$", &many]);
        let large = format!("\"{}\"", "x".repeat(10_000));
        let rejected = desk.run_args(&["JSON.SET", "e", "$[*]", &large]);
        assert_eq!(crate::testing::shown(&rejected), "-ERR document exceeds maximum allowed size");
        assert_eq!(desk.keys.revision(), revision.next());
    }
}
