//! `JSON.GET key [INDENT indent] [NEWLINE newline] [SPACE space] [path [path ...]]`
//! `JSON.MGET key [key ...] path`
//!
//! The whole document in its stored form is returned without parsing.

use std::collections::HashSet;

use keystead_model::Bytes;
use keystead_model::keyspace::Miss;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::path::{Order, Path};
use super::print::{Layout, text};
use super::{document, edit};
use crate::errors::{self, Fail};
use crate::meter;
use crate::{Args, CommandResult, Ctx, Reply};

/// What a path selects: all matches, or the first of them for a legacy path.
enum Selected<'a> {
    All(Vec<&'a Value>),
    First(&'a Value),
}

impl Serialize for Selected<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Selected::All(values) => values.serialize(serializer),
            Selected::First(value) => value.serialize(serializer),
        }
    }
}

/// What several paths select, keyed by path.
struct ByPath<'a>(Vec<(&'a str, Selected<'a>)>);

impl Serialize for ByPath<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(path, selected)| (path, selected)))
    }
}

pub(super) fn json_get(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (layout, paths) = options(args)?;
    let order = edit::order(ctx);
    let Some(stored) = ctx.keys.json(args.at(1), ctx.now)? else { return Ok(Reply::Nil) };
    let compact = layout.indent.is_empty() && layout.newline.is_empty() && layout.space.is_empty();
    if let ([(_, path)], true) = (&*paths, compact)
        && path.is_root()
    {
        return Ok(Reply::shared(whole(stored, path)));
    }
    let tree = document::parse(stored)?;
    let text = match &*paths {
        [(_, path)] => {
            let selected =
                select(path, path.is_legacy(), &tree, order)?.ok_or_else(|| edit::no_path(path))?;
            text(&selected, layout)?
        }
        _ => text(&by_path(&paths, &tree, order)?, layout)?,
    };
    Ok(Reply::shared(Bytes::from(text)))
}

pub(super) fn json_mget(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let last = args.len() - 1;
    let path = Path::read(args.at(last))?;
    let order = edit::order(ctx);
    let mut replies = Vec::with_capacity(last - 1);
    for key in args.from(1).take(last - 1) {
        let stored = match ctx.keys.json(key, ctx.now) {
            Ok(Some(stored)) => stored,
            Ok(None) | Err(Miss::WrongType(_)) => {
                replies.push(Reply::Nil);
                continue;
            }
            Err(miss) => return Err(miss.into()),
        };
        if path.is_root() {
            replies.push(Reply::shared(whole(stored, &path)));
            continue;
        }
        let tree = document::parse(stored)?;
        let selected = select(&path, path.is_legacy(), &tree, order)?;
        let shown = selected.map(|selected| text(&selected, Layout::default())).transpose()?;
        replies.push(shown.map_or(Reply::Nil, |text| Reply::shared(Bytes::from(text))));
    }
    Ok(Reply::Array(replies))
}

/// The stored text in the form of the root path.
fn whole(stored: &Bytes, path: &Path) -> Bytes {
    if path.is_legacy() { stored.clone() } else { Bytes::concat_slices(&[b"[", stored, b"]"]) }
}

/// Paths, each with its original text.
type Paths<'a> = Vec<(&'a str, Path)>;

/// The options and the paths: the root if there is none.
fn options(args: Args<'_>) -> Result<(Layout<'_>, Paths<'_>), Fail> {
    let (mut layout, mut paths) = (Layout::default(), Vec::new());
    let mut cursor = args.cursor(2);
    while let Some(argument) = cursor.peek() {
        let slot = if cursor.accept("INDENT") {
            &mut layout.indent
        } else if cursor.accept("NEWLINE") {
            &mut layout.newline
        } else if cursor.accept("SPACE") {
            &mut layout.space
        } else if cursor.accept("NOESCAPE") {
            continue;
        } else if cursor.accept("FORMAT") {
            return Err(Fail::fixed("ERR FORMAT argument is not supported on RESP2"));
        } else {
            cursor.next();
            let path = Path::read(argument)?;
            paths.push((std::str::from_utf8(argument).unwrap_or_default(), path));
            continue;
        };
        *slot = cursor.next().ok_or_else(|| errors::wrong_arity("json.get"))?;
        if std::str::from_utf8(slot).is_err() {
            return Err(Fail::fixed("ERR indents, line ends and spaces are UTF-8"));
        }
    }
    if paths.is_empty() {
        paths.push((".", Path::root()));
    }
    Ok((layout, paths))
}

/// Several paths are legacy only if all of them are.
fn by_path<'a>(paths: &'a [(&'a str, Path)], tree: &'a Value, order: Order) -> Result<ByPath<'a>, Fail> {
    let legacy = paths.iter().all(|(_, path)| path.is_legacy());
    let (mut found, mut named) = (Vec::with_capacity(paths.len()), HashSet::new());
    for (name, path) in paths {
        if meter::is_exceeded() {
            break;
        }
        if !named.insert(*name) {
            continue;
        }
        let selected = select(path, legacy, tree, order)?;
        let selected = selected.ok_or_else(|| Fail::text(format!("ERR Path '{name}' does not exist")))?;
        found.push((*name, selected));
    }
    Ok(ByPath(found))
}

fn select<'a>(
    path: &'a Path,
    legacy: bool,
    tree: &'a Value,
    order: Order,
) -> Result<Option<Selected<'a>>, Fail> {
    let values = path.values(tree, order)?;
    // The matches of all paths are held until they are written.
    meter::copied(size_of_val(&*values));
    Ok(if legacy { values.first().map(|value| Selected::First(value)) } else { Some(Selected::All(values)) })
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::{expect, upstash};
    use crate::testing::Desk;

    #[test]
    fn matches_are_returned_as_text() {
        expect(&[
            ("JSON.GET d", "$-1"),
            ("JSON.GET d $.a", "$-1"),
            (r#"JSON.SET d $ {"a":2,"b":3,"nested":{"a":4,"b":null}}"#, "+OK"),
            ("JSON.GET d", r#"$ {"a":2,"b":3,"nested":{"a":4,"b":null}}"#),
            ("JSON.GET d $", r#"$ [{"a":2,"b":3,"nested":{"a":4,"b":null}}]"#),
            ("JSON.GET d .", r#"$ {"a":2,"b":3,"nested":{"a":4,"b":null}}"#),
            ("JSON.GET d $..b", "$ [3,null]"),
            ("JSON.GET d ..b", "$ 3"),
            ("JSON.GET d nested.a", "$ 4"),
            ("JSON.GET d $.zz", "$ []"),
            ("JSON.GET d zz", "-ERR Path '$.zz' does not exist"),
            ("JSON.GET d $..a $..b", r#"$ {"$..a":[2,4],"$..b":[3,null]}"#),
            ("JSON.GET d a .b a", r#"$ {"a":2,".b":3}"#),
            ("JSON.GET d a $.b", r#"$ {"a":[2],"$.b":[3]}"#),
            ("JSON.GET d a .zz", "-ERR Path '.zz' does not exist"),
            ("JSON.GET d a $.zz", r#"$ {"a":[2],"$.zz":[]}"#),
            (
                "JSON.GET d $[",
                "-ERR Error occurred on position 2, expected an index, a name in quotes, * or ?",
            ),
            ("JSON.GET d INDENT", "-ERR wrong number of arguments for 'json.get' command"),
            ("JSON.GET d FORMAT STRING", "-ERR FORMAT argument is not supported on RESP2"),
            ("JSON.GET d noescape nested", r#"$ {"a":4,"b":null}"#),
            ("JSON.GET d INDENT -- NEWLINE | SPACE + nested", r#"$ {|--"a":+4,|--"b":+null|}"#),
            ("JSON.GET d SPACE + $.nested", r#"$ [{"a":+4,"b":+null}]"#),
            ("SET s v", "+OK"),
            ("JSON.GET s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("TYPE d", "+ReJSON-RL"),
        ]);
    }

    #[test]
    fn several_documents_are_returned() {
        expect(&[
            (r#"JSON.MSET a $ {"x":1,"n":{"x":2}} b $ {"y":[1.0]}"#, "+OK"),
            ("SET s v", "+OK"),
            ("JSON.MGET a b s none $..x", r#"*4 $ [1,2] $ [] $-1 $-1"#),
            ("JSON.MGET a b s none x", r#"*4 $ 1 $-1 $-1 $-1"#),
            ("JSON.MGET a b $", r#"*2 $ [{"x":1,"n":{"x":2}}] $ [{"y":[1.0]}]"#),
            (
                "JSON.MGET a $[",
                "-ERR Error occurred on position 2, expected an index, a name in quotes, * or ?",
            ),
            ("JSON.MGET a", "-ERR wrong number of arguments for 'json.mget' command"),
        ]);
    }

    #[test]
    fn upstash_finds_inner_matches_first() {
        upstash(&[
            (r#"JSON.SET d $ {"a":2,"b":3,"nested":{"a":4,"b":null}}"#, "+OK"),
            ("JSON.GET d $..b", "$ [null,3]"),
            ("JSON.GET d $..a $..b", r#"$ {"$..a":[4,2],"$..b":[null,3]}"#),
            ("JSON.MGET d $..a", "*1 $ [4,2]"),
            ("TYPE d", "+json"),
            ("SCAN 0 TYPE json", "*2 $ 0 *1 $ d"),
        ]);
    }

    #[test]
    fn the_reply_is_bounded() {
        let mut desk = Desk::new();
        let deep = format!("{}\"{}\"{}", "[".repeat(120), "x".repeat(5_000_000), "]".repeat(120));
        desk.run_args(&["JSON.SET", "d", "$", &deep]);
        let rejected = desk.run("JSON.GET d $..*");
        assert_eq!(
            crate::testing::shown(&rejected),
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"
        );
    }
}
