//! `ACL WHOAMI`, `ACL USERS`, `ACL LIST`, `ACL GETUSER username`, `ACL CAT [category]`, `ACL LOG [count | RESET]`
//! `ACL DRYRUN username command [arg [arg ...]]`, `ACL DELUSER username [username ...]`
//!
//! There is one user, `default`, who may do everything; its password is the server's token and is never shown.

use super::command::about;
use crate::args::{Args, Command};
use crate::conn::Conn;
use crate::dispatch;
use crate::errors::{self, CommandResult, Fail};
use crate::families::connection::USER;
use crate::families::server::ADMIN_FLAGS;
use crate::help;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::spec::flag::{NO_SCRIPT, NONE};
use crate::table;

const ONE_USER: Fail = Fail::fixed(
    "ERR users cannot be changed: there is only 'default', and its password is the server's token",
);

const NOT_REMOVED: Fail = Fail::fixed("ERR The 'default' user cannot be removed");

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("acl|whoami", 2, NO_SCRIPT, whoami).doc(
        "",
        "Returns the user of the connection: always `default`.",
        "6.0.0",
    ),
    Spec::conn("acl|users", 2, ADMIN_FLAGS, users).doc(
        "",
        "Returns the names of the users: only `default`.",
        "6.0.0",
    ),
    Spec::conn("acl|list", 2, ADMIN_FLAGS, list).doc("", "Returns the users with their rules.", "6.0.0"),
    Spec::conn("acl|getuser", 3, ADMIN_FLAGS, getuser).doc(
        "username",
        "Returns the rules of a user.",
        "6.0.0",
    ),
    Spec::conn("acl|cat", -2, NO_SCRIPT, cat).doc(
        "[category]",
        "Returns the categories of commands, or the commands of one category.",
        "6.0.0",
    ),
    Spec::conn("acl|log", -2, ADMIN_FLAGS, log).doc(
        "[count | RESET]",
        "Returns the denied requests: always empty, as they are not recorded.",
        "6.0.0",
    ),
    Spec::conn("acl|setuser", -3, ADMIN_FLAGS, setuser).doc(
        "username [rule [rule ...]]",
        "Always returns an error: users cannot be changed.",
        "6.0.0",
    ),
    Spec::conn("acl|load", 2, ADMIN_FLAGS, load).doc(
        "",
        "Always returns an error: there is no ACL file.",
        "6.0.0",
    ),
    Spec::conn("acl|save", 2, ADMIN_FLAGS, save).doc(
        "",
        "Always returns an error: there is no ACL file.",
        "6.0.0",
    ),
    Spec::conn("acl|dryrun", -4, ADMIN_FLAGS, dryrun).doc(
        "username command [arg [arg ...]]",
        "Returns whether a user may run a command. The user `default` may run all commands.",
        "7.0.0",
    ),
    Spec::conn("acl|deluser", -3, ADMIN_FLAGS, deluser).doc(
        "username [username ...]",
        "Returns 0 for any user but `default`, which cannot be deleted.",
        "6.0.0",
    ),
    Spec::conn("acl|help", 2, NONE, help::help).doc("", "Returns a list of the subcommands of ACL.", "6.0.0"),
];

fn whoami(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::bulk(USER.as_bytes()))
}

fn users(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::bulks([USER]))
}

fn list(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let pass = if conn.hub.host.needs_token() { "" } else { "nopass " };
    Ok(Reply::bulks([format!("user {USER} on {pass}~* &* +@all")]))
}

fn getuser(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.at(2) != USER.as_bytes() {
        return Ok(Reply::Nil);
    }
    let text = |text: &'static str| Reply::bulk(text.as_bytes());
    let mut flags = vec![text("on")];
    if !conn.hub.host.needs_token() {
        flags.push(text("nopass"));
    }
    Ok(Reply::Map(vec![
        (text("flags"), Reply::Set(flags)),
        (text("passwords"), Reply::Array(Vec::new())),
        (text("commands"), text("+@all")),
        (text("keys"), text("~*")),
        (text("channels"), text("&*")),
        (text("selectors"), Reply::Array(Vec::new())),
    ]))
}

fn cat(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let Some(category) = args.get(2) else {
        return Ok(Reply::bulks(about::CATEGORIES));
    };
    if args.len() > 3 {
        return Err(errors::subcommand_or_arity(args));
    }
    let name = String::from_utf8_lossy(category).to_ascii_lowercase();
    if !about::CATEGORIES.contains(&name.as_str()) {
        return Err(Fail::text(format!("ERR Unknown category '{}'", String::from_utf8_lossy(category))));
    }
    Ok(Reply::bulks(about::in_category(&name)))
}

fn log(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 3 {
        return Err(errors::subcommand_or_arity(args));
    }
    match args.get(2) {
        Some(word) if word.eq_ignore_ascii_case(b"reset") => Ok(Reply::Ok),
        Some(_) => args.int(2).map(|_| Reply::Array(Vec::new())),
        None => Ok(Reply::Array(Vec::new())),
    }
}

fn deluser(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.from(2).any(|user| user == USER.as_bytes()) { Err(NOT_REMOVED) } else { Ok(Reply::Int(0)) }
}

fn dryrun(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.at(2) != USER.as_bytes() {
        return Err(Fail::text(format!("ERR User '{}' not found", String::from_utf8_lossy(args.at(2)))));
    }
    let command = Command::new(args.from(3));
    match dispatch::resolve(command.args()) {
        Ok(_) => Ok(Reply::Ok),
        Err(_) if table::find(args.at(3)).is_none() => {
            Err(Fail::text(format!("ERR Command '{}' not found", String::from_utf8_lossy(args.at(3)))))
        }
        Err(fail) => Err(fail),
    }
}

fn setuser(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Err(ONE_USER)
}

fn load(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Err(ONE_USER)
}

fn save(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Err(ONE_USER)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn there_is_one_user() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("ACL WHOAMI", "$7 default"),
            ("ACL USERS", "*1 $7 default"),
            ("ACL LIST", "*1 $34 user default on nopass ~* &* +@all"),
            ("ACL GETUSER nobody", "$-1"),
            (
                "ACL GETUSER default",
                "*12 $5 flags *2 $2 on $6 nopass $9 passwords *0 $8 commands $5 +@all $4 keys $2 ~* $8 channels $2 &* $9 selectors *0",
            ),
            ("ACL LOG", "*0"),
            ("ACL LOG RESET", "+OK"),
            (
                "ACL LOG 1 2",
                "-ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.",
            ),
            ("ACL LOG x", "-ERR value is not an integer or out of range"),
            ("ACL DELUSER nobody", ":0"),
            ("ACL DELUSER nobody default", "-ERR The 'default' user cannot be removed"),
            ("ACL DRYRUN default PING", "+OK"),
            ("ACL DRYRUN nobody PING", "-ERR User 'nobody' not found"),
            ("ACL DRYRUN default nope", "-ERR Command 'nope' not found"),
            ("ACL DRYRUN default ECHO", "-ERR wrong number of arguments for 'echo' command"),
            ("ACL CAT foo", "-ERR Unknown category 'foo'"),
            ("ACL CAT transaction", "*5 $5 multi $4 exec $7 discard $5 watch $7 unwatch"),
        ]);
        assert!(desk.resp("ACL SETUSER a on").starts_with("-ERR users cannot be changed"));
        assert!(desk.resp("ACL CAT").contains("$9 sortedset"));
    }
}
