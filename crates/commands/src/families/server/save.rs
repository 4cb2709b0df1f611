//! `SAVE`, `BGSAVE [SCHEDULE]`, `BGREWRITEAOF`, `LASTSAVE`
//!
//! Whatever a client was told is kept already, as well as the durability promises, so there is nothing to start. At
//! `memory` nothing is ever kept, and saying otherwise would be a lie.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::reply::Reply;

const NOT_KEPT: Fail = Fail::fixed(
    "ERR nothing can be saved: the server keeps its data in memory only (--durability fsync or commit keeps it)",
);

pub(super) fn save(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    if is_kept(conn) { Ok(Reply::Ok) } else { Err(NOT_KEPT) }
}

pub(super) fn bgsave(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 || args.len() == 2 && !args.at(1).eq_ignore_ascii_case(b"schedule") {
        return Err(errors::SYNTAX);
    }
    if is_kept(conn) { Ok(Reply::status("Background saving started")) } else { Err(NOT_KEPT) }
}

pub(super) fn bgrewriteaof(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    if is_kept(conn) {
        return Ok(Reply::status("Background append only file rewriting started"));
    }
    Err(NOT_KEPT)
}

/// A tool that waits for the end of BGSAVE waits until this number grows: it always does.
pub(super) fn lastsave(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let facts = conn.hub.host.facts();
    let ago_ms = if facts.durability == "memory" { facts.uptime_ms } else { 0 };
    Ok(Reply::Int(i64::try_from(conn.now.0.saturating_sub(ago_ms) / 1000).unwrap_or(i64::MAX)))
}

fn is_kept(conn: &Conn<'_>) -> bool {
    conn.hub.host.facts().durability != "memory"
}

#[cfg(test)]
pub(super) mod tests {
    use crate::hub::{Facts, Host};
    use crate::testing::Desk;

    /// A server of this durability that has run for a minute.
    pub(in crate::families::server) struct Kept(pub(in crate::families::server) &'static str);

    impl Host for Kept {
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
    fn saving_is_answered_where_data_is_kept() {
        Desk::at(Box::new(Kept("fsync"))).expect(&[
            ("SAVE", "+OK"),
            ("BGSAVE", "+Background saving started"),
            ("BGSAVE SCHEDULE", "+Background saving started"),
            ("BGSAVE foo", "-ERR syntax error"),
            ("BGREWRITEAOF", "+Background append only file rewriting started"),
            ("LASTSAVE", ":1700000000"),
        ]);
        let mut desk = Desk::at(Box::new(Kept("memory")));
        for line in ["SAVE", "BGSAVE", "BGREWRITEAOF"] {
            assert!(desk.resp(line).starts_with("-ERR nothing can be saved"), "{line}");
        }
        desk.expect(&[("LASTSAVE", ":1699999940")]);
    }
}
