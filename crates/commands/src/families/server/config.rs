//! `CONFIG GET parameter [parameter ...]`
//! `CONFIG SET parameter value [parameter value ...]`
//! `CONFIG RESETSTAT`, `CONFIG REWRITE`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::families::server::ADMIN_FLAGS;
use crate::help;
use crate::hub::ConfigError;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::spec::flag::NONE;

/// The one setting that Upstash shows.
const OF_UPSTASH: &[u8] = b"notify-keyspace-events";

const NO_FILE: Fail = Fail::fixed("ERR The server is running without a config file");

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("config|get", -3, ADMIN_FLAGS, get).doc(
        "parameter [parameter ...]",
        "Returns the values of configuration parameters that match glob patterns.",
        "2.0.0",
    ),
    Spec::conn("config|set", -4, ADMIN_FLAGS, set).doc(
        "parameter value [parameter value ...]",
        "Sets configuration parameters at runtime, all of them or none. They are lost at a restart.",
        "2.0.0",
    ),
    Spec::conn("config|resetstat", 2, ADMIN_FLAGS, resetstat).doc(
        "",
        "Resets the statistics that INFO returns.",
        "2.0.0",
    ),
    Spec::conn("config|rewrite", 2, ADMIN_FLAGS, rewrite).doc(
        "",
        "Always returns an error: persistent settings are in `keystead.toml`.",
        "2.8.0",
    ),
    Spec::conn("config|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of CONFIG.",
        "5.0.0",
    ),
];

fn get(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let mut found = conn.hub.config.get(args.from(2), &conn.hub.host.facts());
    if conn.is_upstash() {
        found.retain(|(name, _)| OF_UPSTASH.eq_ignore_ascii_case(name.as_bytes()));
    }
    Ok(Reply::Map(found.into_iter().map(|(name, value)| (Reply::text(name), Reply::text(value))).collect()))
}

fn set(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if !args.len().is_multiple_of(2) {
        return Err(errors::SYNTAX);
    }
    let pairs: Vec<_> = (2..args.len()).step_by(2).map(|at| (args.at(at), args.at(at + 1))).collect();
    let hidden = |name: &&[u8]| conn.is_upstash() && !OF_UPSTASH.eq_ignore_ascii_case(name);
    if let Some(name) = pairs.iter().map(|(name, _)| *name).find(hidden) {
        return Err(unknown(&String::from_utf8_lossy(name)));
    }
    match conn.hub.config.set(&pairs, &conn.hub.host.facts()) {
        Ok(()) => Ok(Reply::Ok),
        Err(ConfigError::Unknown(name)) => Err(unknown(&name)),
        Err(ConfigError::Value(name, why)) => {
            Err(Fail::text(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")))
        }
    }
}

fn unknown(name: &str) -> Fail {
    Fail::text(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))
}

fn resetstat(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    conn.hub.clients.reset_counters();
    conn.hub.stats.reset();
    Ok(Reply::Ok)
}

fn rewrite(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Err(NO_FILE)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn settings_are_read_and_changed() {
        Desk::new().expect(&[
            ("CONFIG GET nope", "*0"),
            ("CONFIG GET MAXMEMORY maxmemory-s* maxmemory", "*4 $9 MAXMEMORY $1 0 $17 maxmemory-samples $1 5"),
            ("CONFIG GET hash-max-*-entries", "*4 $25 hash-max-listpack-entries $3 512 $24 hash-max-ziplist-entries $3 512"),
            ("CONFIG SET hz 20 timeout 3", "+OK"),
            ("CONFIG GET hz timeout", "*4 $2 hz $2 20 $7 timeout $1 3"),
            (
                "CONFIG SET maxmemory 10mb timeout 4",
                "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - the memory limit is set at the start of the server (--memory), and no key is ever evicted",
            ),
            ("CONFIG GET maxmemory timeout", "*4 $9 maxmemory $1 0 $7 timeout $1 3"),
            ("CONFIG SET maxmemory 0 maxmemory-policy noeviction notify-keyspace-events ''", "+OK"),
            ("CONFIG SET maxmemory", "-ERR wrong number of arguments for 'config|set' command"),
            ("CONFIG SET maxmemory 0 foo", "-ERR syntax error"),
            ("CONFIG SET foo 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'"),
            (
                "CONFIG SET Timeout x",
                "-ERR CONFIG SET failed (possibly related to argument 'Timeout') - argument couldn't be parsed into an integer",
            ),
            (
                "CONFIG SET databases 3",
                "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
            ),
            (
                "CONFIG SET notify-keyspace-events KEA",
                "-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - it has no effect here: keyspace notifications are not supported",
            ),
            ("CONFIG REWRITE", "-ERR The server is running without a config file"),
            ("CONFIG RESETSTAT", "+OK"),
        ]);
    }

    #[test]
    fn upstash_shows_one_setting() {
        Desk::upstash().expect(&[
            ("CONFIG GET *", "*2 $22 notify-keyspace-events $0"),
            ("CONFIG GET maxmemory", "*0"),
            (
                "CONFIG SET maxmemory 0",
                "-ERR Unknown option or number of arguments for CONFIG SET - 'maxmemory'",
            ),
            ("CONFIG SET Notify-Keyspace-Events ''", "+OK"),
        ]);
    }
}
