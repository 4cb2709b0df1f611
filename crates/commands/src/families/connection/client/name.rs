//! `CLIENT ID`
//! `CLIENT GETNAME`, `CLIENT SETNAME connection-name`
//! `CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};
use crate::reply::Reply;

pub(super) fn id(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Int(i64::try_from(conn.session.client.id).unwrap_or(i64::MAX)))
}

pub(super) fn getname(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let shown = conn.session.client.shown();
    Ok(Reply::maybe(Some(shown.name.as_bytes()).filter(|name| !name.is_empty())))
}

pub(super) fn setname(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    conn.session.client.shown().name = check(args.at(2))?;
    Ok(Reply::Ok)
}

pub(super) fn setinfo(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let option = String::from_utf8_lossy(args.at(2));
    let mut shown = conn.session.client.shown();
    let place = match option.to_ascii_lowercase().as_str() {
        "lib-name" => &mut shown.lib_name,
        "lib-ver" => &mut shown.lib_version,
        _ => return Err(Fail::text(format!("ERR Unrecognized option '{option}'"))),
    };
    *place = visible(args.at(3), &option)?;
    Ok(Reply::Ok)
}

/// Sets the name of a connection.
///
/// # Errors
/// Redis's error if CLIENT LIST could not show it.
pub(in crate::families::connection) fn check(name: &[u8]) -> Result<String, Fail> {
    visible(name, "Client names")
}

/// Visible ASCII only: anything else would break the lines of CLIENT LIST.
fn visible(text: &[u8], what: &str) -> Result<String, Fail> {
    let rejected =
        || Fail::text(format!("ERR {what} cannot contain spaces, newlines or special characters."));
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(text.to_owned()),
        _ => Err(rejected()),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Desk, shown};

    #[test]
    fn connections_have_names() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("CLIENT ID", ":1"),
            ("CLIENT GETNAME", "$-1"),
            ("CLIENT SETNAME me", "+OK"),
            ("CLIENT GETNAME", "$2 me"),
            ("CLIENT SETNAME ''", "+OK"),
            ("CLIENT GETNAME", "$-1"),
            ("CLIENT SETINFO lib-name ioredis", "+OK"),
            ("CLIENT SETINFO LIB-VER 5.3.2", "+OK"),
            ("CLIENT SETINFO foo x", "-ERR Unrecognized option 'foo'"),
            ("CLIENT SETINFO lib-name", "-ERR wrong number of arguments for 'client|setinfo' command"),
        ]);
        let rejected = desk.run_args(&["CLIENT", "SETNAME", "a b"]);
        assert_eq!(
            shown(&rejected),
            "-ERR Client names cannot contain spaces, newlines or special characters."
        );
        let rejected = desk.run_args(&["CLIENT", "SETINFO", "lib-name", "a\n"]);
        assert_eq!(shown(&rejected), "-ERR lib-name cannot contain spaces, newlines or special characters.");
    }
}
