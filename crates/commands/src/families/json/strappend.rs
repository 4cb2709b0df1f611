//! `JSON.STRAPPEND key [path] value`

use serde_json::Value;

use super::document;
use super::edit::{self, Edit};
use super::path::Path;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn json_strappend(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    edit::at_most(args, 4, "json.strappend")?;
    let (path, text) =
        if args.len() == 4 { (Path::read(args.at(2))?, args.at(3)) } else { (Path::root(), args.at(2)) };
    let more = match document::parse(text)? {
        Value::String(more) => more,
        _ => return Err(edit::wrong_kind("string", &String::from_utf8_lossy(text))),
    };
    let mut edit = Edit::begin(ctx, args, path)?;
    let results = edit.each(more.len(), |value| {
        let Value::String(text) = value else { return Ok(None) };
        text.push_str(&more);
        Ok(Some(text.len()))
    })?;
    let reply = edit.reply(results, "not a string", Reply::count)?;
    edit.finish(ctx, args)?;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::{expect, upstash};

    #[test]
    fn strings_are_appended() {
        expect(&[
            (r#"JSON.STRAPPEND d "x""#, "-ERR could not perform this operation on a key that doesn't exist"),
            (r#"JSON.SET d $ {"a":"foo","n":{"a":"hello"},"m":{"a":31}}"#, "+OK"),
            (r#"JSON.STRAPPEND d $..a "baz""#, "*3 :6 :8 $-1"),
            (r#"JSON.STRAPPEND d n.a "é""#, ":10"),
            (r#"JSON.STRAPPEND d "x""#, "-ERR Path '$' does not exist or not a string"),
            (
                r#"JSON.STRAPPEND d $.a 1"#,
                "-WRONGTYPE wrong type of path value - expected string but found 1",
            ),
            (r#"JSON.STRAPPEND d $.a x"#, "-ERR expected value at line 1 column 1"),
            (r#"JSON.STRAPPEND d $.a "x" y"#, "-ERR wrong number of arguments for 'json.strappend' command"),
            ("JSON.GET d", r#"$ {"a":"foobaz","n":{"a":"hellobazé"},"m":{"a":31}}"#),
            (r#"JSON.SET s $ "a""#, "+OK"),
            (r#"JSON.STRAPPEND s "b""#, ":2"),
            ("JSON.GET s", r#"$ "ab""#),
        ]);
        upstash(&[
            (r#"JSON.SET d $ {"str":"test","obj":{"str":"test_1"}}"#, "+OK"),
            (r#"JSON.STRAPPEND d $..str "_append""#, "*2 :13 :11"),
        ]);
    }
}
