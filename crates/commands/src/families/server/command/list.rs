//! `COMMAND COUNT`
//! `COMMAND LIST [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]`

use super::about;
use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult};
use crate::glob;
use crate::reply::Reply;
use crate::table;

pub(super) fn count(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::count(table::all().count()))
}

pub(super) fn list(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let names = table::all().flat_map(|spec| {
        std::iter::once(spec.full_name).chain(spec.subcommands().iter().map(|sub| sub.full_name))
    });
    if args.len() == 2 {
        return Ok(Reply::bulks(names));
    }
    let mut options = args.cursor(2);
    if args.len() != 5 || !options.accept("FILTERBY") {
        return Err(errors::SYNTAX);
    }
    let (by, value) = (options.bytes()?.to_ascii_lowercase(), options.bytes()?);
    let small = value.to_ascii_lowercase();
    Ok(match by.as_slice() {
        b"module" => Reply::Array(Vec::new()),
        b"aclcat" => Reply::bulks(about::in_category(&String::from_utf8_lossy(&small))),
        b"pattern" => Reply::bulks(names.filter(|name| glob::matches(&small, name.as_bytes()))),
        _ => return Err(errors::SYNTAX),
    })
}

#[cfg(test)]
mod tests {
    use crate::table;
    use crate::testing::Desk;

    #[test]
    fn commands_are_listed() {
        let mut desk = Desk::new();
        let all = table::all().count();
        assert_eq!(desk.resp("COMMAND COUNT"), format!(":{all}"));
        let list = desk.resp("COMMAND LIST");
        assert!(list.contains("$6 client ") && list.contains("$9 client|id "));
        desk.expect(&[
            ("COMMAND LIST FILTERBY MODULE x", "*0"),
            ("COMMAND LIST FILTERBY ACLCAT nope", "*0"),
            (
                "COMMAND LIST FILTERBY ACLCAT Transaction",
                "*5 $5 multi $4 exec $7 discard $5 watch $7 unwatch",
            ),
            ("COMMAND LIST FILTERBY PATTERN *WATCH", "*2 $5 watch $7 unwatch"),
            ("COMMAND LIST FILTERBY PATTERN client|i*", "*2 $9 client|id $11 client|info"),
            ("COMMAND LIST FILTERBY foo x", "-ERR syntax error"),
            ("COMMAND LIST FILTERBY", "-ERR syntax error"),
            ("COMMAND LIST x", "-ERR syntax error"),
        ]);
    }
}
