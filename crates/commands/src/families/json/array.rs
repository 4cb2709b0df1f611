//! `JSON.ARRAPPEND key path value [value ...]`, `JSON.ARRINSERT key path index value [value ...]`,
//! `JSON.ARRPOP key [path [index]]`, `JSON.ARRTRIM key path start stop`,
//! `JSON.ARRINDEX key path value [start [stop]]`

use std::collections::HashMap;

use serde_json::Value;

use super::document;
use super::edit::{self, Changed, Edit};
use super::path::Path;
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply};

const NOT_ARRAY: &str = "not an array";

/// The values from an index of the arguments on, and their size in bytes.
fn values(args: Args<'_>, first: usize) -> Result<(Vec<Value>, usize), Fail> {
    let values: Result<Vec<_>, _> = args.from(first).map(document::parse).collect();
    Ok((values?, args.from(first).map(<[u8]>::len).sum()))
}

/// Changes the arrays among the matches, each of which may grow by so many bytes.
fn change<T: Clone>(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    (path, growth_bytes): (Path, usize),
    change: impl Fn(&mut Vec<Value>) -> Changed<T>,
    to_reply: impl Fn(T) -> Reply,
) -> CommandResult {
    let mut edit = Edit::begin(ctx, args, path)?;
    let results = edit.each(growth_bytes, |value| match value {
        Value::Array(items) => change(items),
        _ => Ok(None),
    })?;
    let reply = edit.reply(results, NOT_ARRAY, to_reply)?;
    edit.finish(ctx, args)?;
    Ok(reply)
}

pub(super) fn json_arrappend(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let path = Path::read(args.at(2))?;
    let (new, bytes) = values(args, 3)?;
    let append = |items: &mut Vec<Value>| {
        items.extend_from_slice(&new);
        Ok(Some(items.len()))
    };
    change(ctx, args, (path, bytes), append, Reply::count)
}

pub(super) fn json_arrinsert(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (path, index) = (Path::read(args.at(2))?, args.int(3)?);
    let (new, bytes) = values(args, 4)?;
    let insert = |items: &mut Vec<Value>| {
        let at = if index < 0 { index.saturating_add_unsigned(items.len() as u64) } else { index };
        let at = usize::try_from(at).ok().filter(|at| *at <= items.len());
        let at = at.ok_or(Fail::fixed("ERR index out of bounds"))?;
        items.splice(at..at, new.iter().cloned());
        Ok(Some(items.len()))
    };
    change(ctx, args, (path, bytes), insert, Reply::count)
}

pub(super) fn json_arrpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    edit::at_most(args, 4, "json.arrpop")?;
    let path = edit::path_at(args, 2)?;
    let index = if args.len() > 3 { args.int(3)? } else { -1 };
    let pop = |items: &mut Vec<Value>| {
        Ok(Some(if items.is_empty() { None } else { Some(items.remove(nearest(index, items.len()))) }))
    };
    change(ctx, args, (path, 0), pop, |popped| {
        popped.map_or(Reply::Nil, |value: Value| Reply::text(value.to_string()))
    })
}

pub(super) fn json_arrtrim(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (path, start, stop) = (Path::read(args.at(2))?, args.int(3)?, args.int(4)?);
    let trim = |items: &mut Vec<Value>| {
        let len = items.len();
        let beyond = usize::try_from(start).is_ok_and(|start| start >= len);
        if beyond || nearest(start, len) > nearest(stop, len) {
            items.clear();
        } else {
            items.truncate(nearest(stop, len) + 1);
            items.drain(..nearest(start, len));
        }
        Ok(Some(items.len()))
    };
    change(ctx, args, (path, 0), trim, Reply::count)
}

/// The position of an index, or the nearest one. 0 for an empty array.
fn nearest(index: i64, len: usize) -> usize {
    let from_start = if index < 0 { index.saturating_add_unsigned(len as u64) } else { index };
    usize::try_from(from_start).unwrap_or(0).min(len.saturating_sub(1))
}

pub(super) fn json_arrindex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    edit::at_most(args, 6, "json.arrindex")?;
    let path = Path::read(args.at(2))?;
    let start = if args.len() > 4 { args.int(4)? } else { 0 };
    let stop = if args.len() > 5 { args.int(5)? } else { 0 };
    let tree = edit::load(ctx, args.at(1))?.ok_or_else(|| edit::no_path(&path))?;
    let wanted = document::parse(args.at(3))?;
    let values = path.values(&tree, edit::order(ctx))?;
    let index = |value: &Value| value.as_array().map(|items| index_of(items, &wanted, start, stop));
    if path.is_legacy() {
        let first = values.first().ok_or_else(|| edit::no_path(&path))?;
        let found = index(first).ok_or_else(|| edit::wrong_kind("array", document::kind(first)))?;
        return Ok(Reply::Int(found));
    }
    // The same long array may match repeatedly.
    let mut known = HashMap::new();
    let results = values.into_iter().map(|value| {
        let found = *known.entry(std::ptr::from_ref(value)).or_insert_with(|| index(value));
        found.map_or(Reply::Nil, Reply::Int)
    });
    Ok(Reply::Array(results.collect()))
}

/// The first position of a value from `start` up to but not including `stop`; 0 and values beyond the end mean the end.
fn index_of(items: &[Value], wanted: &Value, start: i64, stop: i64) -> i64 {
    let (len, start) = (items.len(), nearest(start, items.len()));
    let end = match stop {
        0 => len,
        _ if stop < 0 => usize::try_from(stop.saturating_add_unsigned(len as u64)).unwrap_or(0),
        _ => usize::try_from(stop).map_or(len, |stop| stop.min(len)),
    };
    let found =
        items.get(start..end).and_then(|items| items.iter().position(|item| document::same(item, wanted)));
    found.map_or(-1, |at| (start + at) as i64)
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::{expect, upstash};
    use crate::testing::Desk;

    const NO_KEY: &str = "-ERR could not perform this operation on a key that doesn't exist";
    const DOCUMENT: &str = r#"JSON.SET d $ {"a":[1,2,3],"n":{"a":[],"b":1}}"#;

    #[test]
    fn values_are_appended_and_inserted() {
        expect(&[
            ("JSON.ARRAPPEND d $ 1", NO_KEY),
            (DOCUMENT, "+OK"),
            (r#"JSON.ARRAPPEND d $..a 4 "x""#, "*2 :5 :2"),
            ("JSON.ARRAPPEND d $.n.b 4", "*1 $-1"),
            ("JSON.ARRAPPEND d a [1.0]", ":6"),
            ("JSON.ARRAPPEND d n.b 4", "-ERR Path '$.n.b' does not exist or not an array"),
            ("JSON.ARRAPPEND d $.a 1 x", "-ERR expected value at line 1 column 1"),
            ("JSON.ARRINSERT d $.a 0 0", "*1 :7"),
            ("JSON.ARRINSERT d $.a -1 9 8", "*1 :9"),
            ("JSON.ARRINSERT d $.n.a 2 7", "*1 :3"),
            ("JSON.ARRINSERT d n.a -3 6", ":4"),
            ("JSON.GET d", r#"$ {"a":[0,1,2,3,4,"x",9,8,[1.0]],"n":{"a":[6,4,"x",7],"b":1}}"#),
            ("JSON.ARRINSERT d $..a 5 1", "-ERR index out of bounds"),
            ("JSON.ARRINSERT d $..a -9223372036854775808 1", "-ERR index out of bounds"),
            ("JSON.ARRINSERT d $.a x 1", "-ERR value is not an integer or out of range"),
            ("JSON.ARRINSERT d zz 0 1", "-ERR Path '$.zz' does not exist or not an array"),
            ("JSON.GET d $..a", r#"$ [[0,1,2,3,4,"x",9,8,[1.0]],[6,4,"x",7]]"#),
        ]);
    }

    #[test]
    fn values_are_popped_from_either_end() {
        expect(&[
            ("JSON.ARRPOP d", NO_KEY),
            (DOCUMENT, "+OK"),
            ("JSON.ARRPOP d $..a 0", "*2 $ 1 $-1"),
            ("JSON.ARRPOP d $.n.*", "*2 $-1 $-1"),
            ("JSON.ARRPOP d a 100", "$ 3"),
            ("JSON.ARRPOP d a -100", "$ 2"),
            ("JSON.ARRPOP d a", "$-1"),
            ("JSON.ARRPOP d", "-ERR Path '$' does not exist or not an array"),
            ("JSON.ARRPOP d a x", "-ERR value is not an integer or out of range"),
            (r#"JSON.SET l $ [1,[2,"x"],{"a":[3]}]"#, "+OK"),
            ("JSON.ARRPOP l $ 1", r#"*1 $ [2,"x"]"#),
            (r#"JSON.SET l $ {"a":[[1,2,3],[4,5,6]]}"#, "+OK"),
            ("JSON.ARRPOP l $..* -1", "*9 $ [4,5] $ 3 $ 6 $-1 $-1 $-1 $-1 $-1 $-1"),
            ("JSON.GET l", r#"$ {"a":[[1,2]]}"#),
        ]);
    }

    #[test]
    fn arrays_are_trimmed() {
        for (start, stop, left) in [
            (1, 2, "[1,2]"),
            (0, -1, "[0,1,2,3]"),
            (-2, -1, "[2,3]"),
            (-100, 1, "[0,1]"),
            (2, 100, "[2,3]"),
            (4, 5, "[]"),
            (2, 1, "[]"),
            (i64::MIN, i64::MAX, "[0,1,2,3]"),
            (0, -100, "[0]"),
        ] {
            let len = if left == "[]" { 0 } else { left.split(',').count() };
            expect(&[
                ("JSON.SET d $ [0,1,2,3]", "+OK"),
                (&format!("JSON.ARRTRIM d $ {start} {stop}"), &format!("*1 :{len}")),
                ("JSON.GET d", &format!("$ {left}")),
            ]);
        }
        expect(&[
            ("JSON.ARRTRIM d $ 0 1", NO_KEY),
            (DOCUMENT, "+OK"),
            ("JSON.ARRTRIM d $..* 1 1", "*7 :1 $-1 $-1 $-1 $-1 :0 $-1"),
            ("JSON.ARRTRIM d n.b 0 1", "-ERR Path '$.n.b' does not exist or not an array"),
        ]);
    }

    #[test]
    fn values_are_found() {
        expect(&[
            ("JSON.ARRINDEX d $.a 1", "-ERR Path '$.a' does not exist"),
            (r#"JSON.SET d $ {"a":[1,"x",["a"],1.5,{"t":1},1],"i":1,"o":{"a":[0,1]},"e":[]}"#, "+OK"),
            ("JSON.ARRINDEX d $..a 1", "*2 :0 :1"),
            (r#"JSON.ARRINDEX d $.a "x""#, "*1 :1"),
            (r#"JSON.ARRINDEX d a ["a"]"#, ":2"),
            ("JSON.ARRINDEX d a 1.50", ":3"),
            (r#"JSON.ARRINDEX d a {"t":1}"#, ":4"),
            ("JSON.ARRINDEX d a 1.0", ":-1"),
            ("JSON.ARRINDEX d a 1 1", ":5"),
            ("JSON.ARRINDEX d a 1 1 0", ":5"),
            ("JSON.ARRINDEX d a 1 1 5", ":-1"),
            ("JSON.ARRINDEX d a 1 1 -1", ":-1"),
            ("JSON.ARRINDEX d a 1 -1", ":5"),
            ("JSON.ARRINDEX d a 1 -100 100", ":0"),
            ("JSON.ARRINDEX d a 1 100", ":5"),
            ("JSON.ARRINDEX d a 1 3 1", ":-1"),
            ("JSON.ARRINDEX d e 1", ":-1"),
            ("JSON.ARRINDEX d $.i 4", "*1 $-1"),
            ("JSON.ARRINDEX d i 4", "-WRONGTYPE wrong type of path value - expected array but found integer"),
            ("JSON.ARRINDEX d zz 4", "-ERR Path '$.zz' does not exist"),
            ("JSON.ARRINDEX d a x", "-ERR expected value at line 1 column 1"),
            ("JSON.ARRINDEX d a 1 0 0 0", "-ERR wrong number of arguments for 'json.arrindex' command"),
        ]);
    }

    #[test]
    fn upstash_returns_inner_matches_first() {
        upstash(&[
            (r#"JSON.SET d $ {"int":1,"array":[],"object":{"array":[0]}}"#, "+OK"),
            ("JSON.ARRINSERT d $..array 0 9", "*2 :2 :1"),
            ("JSON.GET d $..array", "$ [[9,0],[9]]"),
            ("JSON.ARRAPPEND d $..array 8", "*2 :3 :2"),
            ("JSON.ARRINDEX d $..array 8 0 0", "*2 :2 :1"),
            ("JSON.ARRPOP d $..array 1", "*2 $ 0 $ 8"),
            ("JSON.ARRTRIM d $..array 0 0", "*2 :1 :1"),
        ]);
    }

    #[test]
    fn a_no_op_leaves_the_version() {
        let mut desk = Desk::new();
        desk.run(DOCUMENT);
        let revision = desk.keys.revision();
        for line in [
            "JSON.ARRTRIM d $.a 0 -1",
            "JSON.ARRPOP d $.n.a",
            "JSON.ARRAPPEND d $.zz 1",
            "JSON.ARRINSERT d $..a 3 1",
            "JSON.TOGGLE d $..a",
            "JSON.CLEAR d $.n.a",
            "JSON.DEL d $.zz",
            "JSON.STRAPPEND d $.a \"\"",
            "JSON.MERGE d $ {}",
        ] {
            desk.run(line);
            assert_eq!(desk.keys.revision(), revision, "{line}");
        }
    }
}
