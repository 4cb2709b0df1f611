//! `JSON.DEBUG MEMORY key [path]`, `JSON.DEBUG HELP`

use super::edit;
use super::print::{Layout, text};
use crate::bounds::STRING_BYTES_MAX;
use crate::errors;
use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{NONE, READ};
use crate::{Args, CommandResult, Ctx, Reply, help};

pub(super) const TABLE: &[Spec] = &[
    Spec::data("json.debug|memory", -3, READ, Keys::At(2), memory).doc(
        "key [path]",
        "Returns the length of the JSON text of the values at a path in bytes.",
        "1.0.0",
    ),
    Spec::conn("json.debug|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of JSON.DEBUG.",
        "1.0.0",
    ),
];

/// A document is stored as text, so its length is the memory it uses.
fn memory(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    edit::at_most(args, 4, "json.debug|memory")?;
    let path = edit::path_at(args, 3)?;
    let Some(tree) = edit::load(ctx, args.at(2))? else {
        return Ok(if path.is_legacy() { Reply::Int(0) } else { Reply::Array(Vec::new()) });
    };
    let values = path.values(&tree, edit::order(ctx))?;
    if path.is_legacy() {
        let first = values.first().ok_or_else(|| edit::no_path(&path))?;
        return Ok(Reply::count(text(first, Layout::default())?.len()));
    }
    let mut left_bytes = STRING_BYTES_MAX;
    let mut replies = Vec::with_capacity(values.len());
    for value in values {
        let bytes = text(value, Layout::default())?.len();
        left_bytes = left_bytes.checked_sub(bytes).ok_or(errors::STRING_TOO_LONG)?;
        replies.push(Reply::count(bytes));
    }
    Ok(Reply::Array(replies))
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::expect;

    #[test]
    fn the_bytes_of_texts_are_returned() {
        expect(&[
            ("JSON.DEBUG MEMORY d", ":0"),
            ("JSON.DEBUG MEMORY d $", "*0"),
            (r#"JSON.SET d $ {"a":[1,2],"b":"xy"}"#, "+OK"),
            ("JSON.DEBUG MEMORY d", ":20"),
            ("JSON.DEBUG MEMORY d $.*", "*2 :5 :4"),
            ("JSON.DEBUG MEMORY d zz", "-ERR Path '$.zz' does not exist"),
            ("JSON.DEBUG NOTHING d", "-ERR unknown subcommand 'NOTHING'. Try JSON.DEBUG HELP."),
        ]);
    }
}
