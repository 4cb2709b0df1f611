//! `SCRIPT LOAD script`, `SCRIPT EXISTS sha1 [sha1 ...]`, `SCRIPT FLUSH [ASYNC | SYNC]`, `SCRIPT KILL`
//! `SCRIPT DEBUG YES | SYNC | NO`

use keystead_core::Millis;

use super::compiled::Scripts;
use super::sha1;
use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};
use crate::hub::{Hub, Origin};
use crate::reply::Reply;

/// A script that does not compile is rejected here, so it is compiled at once.
pub(super) fn load(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    let text = args.at(2);
    let digits = sha1::hex(text);
    let mut scripts = Scripts::take(hub)?;
    let compiled =
        if scripts.has(&digits) { Ok(()) } else { scripts.compile(digits, text, hub.config.script_ms_max()) };
    scripts.put_back();
    compiled?;
    hub.scripts.keep(digits, text, Origin::Loaded)?;
    Ok(Reply::bulk(&digits))
}

pub(super) fn exists(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    Ok(Reply::Array(args.from(2).map(|digits| Reply::yes(hub.scripts.has(digits))).collect()))
}

pub(super) fn flush(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    if !is_flush(args) {
        return Err(Fail::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    hub.scripts.flush();
    Ok(Reply::Ok)
}

/// Whether the arguments of FLUSH are valid: none, SYNC or ASYNC. It is synchronous in any case.
pub(super) fn is_flush(args: Args<'_>) -> bool {
    match args.len() {
        2 => true,
        3 => ["SYNC", "ASYNC"].iter().any(|word| args.at(2).eq_ignore_ascii_case(word.as_bytes())),
        _ => false,
    }
}

pub(super) fn kill(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    if conn.hub.scripts.scripts.kill() { Ok(Reply::Ok) } else { Err(NOT_BUSY) }
}

pub(super) const NOT_BUSY: Fail = Fail::fixed("NOTBUSY No scripts in execution right now.");

pub(super) fn debug(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let is = |word: &str| args.at(2).eq_ignore_ascii_case(word.as_bytes());
    if is("NO") {
        return Ok(Reply::Ok);
    }
    if is("YES") || is("SYNC") {
        return Err(Fail::fixed("ERR SCRIPT DEBUG is not supported"));
    }
    Err(Fail::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}
