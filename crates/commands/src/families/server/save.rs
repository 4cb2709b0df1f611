//! `SAVE`, `BGSAVE [SCHEDULE]`, `BGREWRITEAOF`, `LASTSAVE`
//!
//! All acknowledged writes are already as durable as the server promises, so there is nothing to save; `BGREWRITEAOF` makes the
//! files smaller, as on Redis. At durability `memory` nothing is ever persisted, so these commands return an error.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::reply::Reply;

const NOT_PERSISTED: Fail = Fail::fixed(
    "ERR nothing can be saved: the server stores its data in memory only (--durability fsync or commit persists it)",
);

pub(super) fn save(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    if is_persisted(conn) { Ok(Reply::Ok) } else { Err(NOT_PERSISTED) }
}

pub(super) fn bgsave(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 || args.len() == 2 && !args.at(1).eq_ignore_ascii_case(b"schedule") {
        return Err(errors::SYNTAX);
    }
    if is_persisted(conn) { Ok(Reply::status("Background saving started")) } else { Err(NOT_PERSISTED) }
}

pub(super) fn bgrewriteaof(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    if is_persisted(conn) {
        conn.hub.host.compact();
        return Ok(Reply::status("Background append only file rewriting started"));
    }
    Err(NOT_PERSISTED)
}

/// A tool that waits for the end of BGSAVE waits until this number grows: it always does.
pub(super) fn lastsave(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let facts = conn.hub.host.facts();
    let ago_ms = if facts.durability == "memory" { facts.uptime_ms } else { 0 };
    Ok(Reply::Int(i64::try_from(conn.now.0.saturating_sub(ago_ms) / 1000).unwrap_or(i64::MAX)))
}

fn is_persisted(conn: &Conn<'_>) -> bool {
    conn.hub.host.facts().durability != "memory"
}

#[cfg(test)]
pub(super) mod tests {
    use crate::hub::{Facts, Host};
    use crate::testing::Desk;

    /// A server of this durability that has run for a minute.
    pub(in crate::families::server) struct Durability(pub(in crate::families::server) &'static str);

    impl Host for Durability {
        fn needs_token(&self) -> bool {
            false
        }

        fn is_token(&self, _: &[u8]) -> bool {
            false
        }

        fn shards(&self) -> usize {
            1
        }

        fn facts(&self) -> Facts {
            Facts { durability: self.0, uptime_ms: 60_000, version: "0.1.0", ..Facts::default() }
        }
    }

    #[test]
    fn saving_succeeds_where_data_is_persisted() {
        Desk::at(Box::new(Durability("fsync"))).expect(&[
            ("SAVE", "+OK"),
            ("BGSAVE", "+Background saving started"),
            ("BGSAVE SCHEDULE", "+Background saving started"),
            ("BGSAVE foo", "-ERR syntax error"),
            ("BGREWRITEAOF", "+Background append only file rewriting started"),
            ("LASTSAVE", ":1700000000"),
        ]);
        let mut desk = Desk::at(Box::new(Durability("memory")));
        for line in ["SAVE", "BGSAVE", "BGREWRITEAOF"] {
            assert!(desk.resp(line).starts_with("-ERR nothing can be saved"), "{line}");
        }
        desk.expect(&[("LASTSAVE", ":1699999940")]);
    }
}
