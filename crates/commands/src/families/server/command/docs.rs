//! `COMMAND DOCS [command-name [command-name ...]]`

use super::about::{self, Entry};
use super::syntax::{self, Argument, Form};
use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn docs(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let wanted: Vec<Entry> = match args.len() {
        2 => about::entries().collect(),
        _ => args.from(2).filter_map(about::find).collect(),
    };
    Ok(Reply::Map(wanted.into_iter().map(entry).collect()))
}

fn entry(about: Entry) -> (Reply, Reply) {
    let spec = about.spec;
    let mut fields = vec![
        (text("summary"), text(spec.summary)),
        (text("since"), text(spec.since)),
        (text("group"), text(about.group)),
    ];
    let parsed = syntax::parse(spec.syntax);
    if !parsed.is_empty() {
        fields.push((text("arguments"), arguments(&parsed)));
    }
    if !spec.subcommands().is_empty() {
        fields.push((text("subcommands"), Reply::Map(about.within().map(entry).collect())));
    }
    (text(spec.full_name), Reply::Map(fields))
}

fn arguments(parsed: &[Argument]) -> Reply {
    Reply::Array(parsed.iter().map(argument).collect())
}

fn argument(argument: &Argument) -> Reply {
    let (kind, parts): (_, &[Argument]) = match &argument.form {
        Form::Word => ("string", &[]),
        Form::Key => ("key", &[]),
        Form::Integer => ("integer", &[]),
        Form::Token => ("pure-token", &[]),
        Form::OneOf(parts) => ("oneof", parts),
        Form::Block(parts) => ("block", parts),
    };
    let mut fields = vec![(text("name"), Reply::text(argument.name.as_str())), (text("type"), text(kind))];
    if parts.is_empty() && argument.form != Form::Token {
        fields.push((text("display_text"), Reply::text(argument.name.as_str())));
    }
    if let Some(token) = &argument.token {
        fields.push((text("token"), Reply::text(token.as_str())));
    }
    let flags = [(argument.optional, "optional"), (argument.multiple, "multiple")];
    let flags: Vec<_> = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| Reply::status(flag)).collect();
    if !flags.is_empty() {
        fields.push((text("flags"), Reply::Set(flags)));
    }
    if !parts.is_empty() {
        fields.push((text("arguments"), arguments(parts)));
    }
    Reply::Map(fields)
}

fn text(text: &str) -> Reply {
    Reply::bulk(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use crate::table;
    use crate::testing::Desk;

    #[test]
    fn commands_are_documented() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("COMMAND DOCS nope", "*0"),
            (
                "COMMAND DOCS echo nope",
                "*2 $4 echo *8 $7 summary $20 Returns the message. $5 since $5 1.0.0 $5 group $10 connection $9 arguments *1 *6 $4 name $7 message $4 type $6 string $12 display_text $7 message",
            ),
        ]);
        assert!(desk.resp("COMMAND DOCS").starts_with(&format!("*{} ", table::all().count() * 2)));
        assert!(desk.resp("COMMAND DOCS config").contains("$11 subcommands *10 $10 config|get *8"));
    }
}
