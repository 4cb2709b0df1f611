//! `COMMAND GETKEYS command [arg [arg ...]]`
//! `COMMAND GETKEYSANDFLAGS command [arg [arg ...]]`

use super::info::key_flags;
use crate::args::{Args, Command};
use crate::conn::Conn;
use crate::dispatch;
use crate::errors::{CommandResult, Fail};
use crate::keys_of::Keys;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::table;

const UNKNOWN: Fail = Fail::fixed("ERR Invalid command specified");
const NO_KEYS: Fail = Fail::fixed("ERR The command has no key arguments");
const BAD_ARITY: Fail = Fail::fixed("ERR Invalid number of arguments specified for command");
const BAD_ARGUMENTS: Fail = Fail::fixed("ERR Invalid arguments specified for command");

pub(super) fn getkeys(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let (_, keys) = find(args)?;
    Ok(Reply::bulks(keys))
}

pub(super) fn getkeysandflags(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let (spec, keys) = find(args)?;
    Ok(Reply::Array(keys.iter().map(|key| Reply::Array(vec![Reply::bulk(key), key_flags(spec)])).collect()))
}

fn find(args: Args<'_>) -> Result<(&'static Spec, Vec<Vec<u8>>), Fail> {
    let command = Command::new(args.from(2));
    let args = command.args();
    let spec = match dispatch::resolve(args) {
        Ok(spec) => spec,
        Err(_) => return Err(error(args)),
    };
    if matches!(spec.keys, Keys::None) {
        return Err(NO_KEYS);
    }
    let keys = spec.keys(args).map_err(|_| BAD_ARGUMENTS)?;
    if keys.is_empty() {
        return Err(BAD_ARGUMENTS);
    }
    Ok((spec, keys.into_iter().map(|at| args.at(at).to_vec()).collect()))
}

/// Why a command could not be resolved. A known command without keys is reported before its arguments are counted.
fn error(args: Args<'_>) -> Fail {
    let Some(mut spec) = table::find(args.name()) else { return UNKNOWN };
    if !spec.subcommands().is_empty() {
        let Some(row) = table::find_within(spec.subcommands(), args.at(1)) else { return UNKNOWN };
        spec = row;
    }
    if matches!(spec.keys, Keys::None) { NO_KEYS } else { BAD_ARITY }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn keys_are_found() {
        Desk::new().expect(&[
            ("COMMAND GETKEYS WATCH a b", "*2 $1 a $1 b"),
            ("COMMAND GETKEYS WATCH", "-ERR Invalid number of arguments specified for command"),
            ("COMMAND GETKEYS PING", "-ERR The command has no key arguments"),
            ("COMMAND GETKEYS ECHO", "-ERR The command has no key arguments"),
            ("COMMAND GETKEYS CLIENT foo", "-ERR Invalid command specified"),
            ("COMMAND GETKEYS nope a", "-ERR Invalid command specified"),
            ("COMMAND GETKEYS", "-ERR wrong number of arguments for 'command|getkeys' command"),
        ]);
    }
}
