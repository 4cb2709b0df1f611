//! `ROLE`
//! `REPLICAOF <host port | NO ONE>`, `SLAVEOF <host port | NO ONE>`
//! `WAIT numreplicas timeout`
//! `WAITAOF numlocal numreplicas timeout`
//! `WAITSINK sink timeout`
//!
//! There are no replicas. A write is acknowledged only once it is durable, so at `fsync` the local disk has everything.

use crate::args::Args;
use crate::blocking;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::number;
use crate::reply::Reply;

const NO_REPLICATION: Fail = Fail::fixed("ERR replication is not supported: this server is always a master");
const BAD_PORT: Fail = Fail::fixed("ERR Invalid master port");
const NOT_0_OR_1: Fail = Fail::fixed("ERR value is out of range, value must between 0 and 1");
const NO_SINKS: Fail = Fail::fixed("ERR WAITSINK needs a server with sinks");
const NO_DISK: Fail =
    Fail::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

pub(super) fn role(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(vec![Reply::bulk(b"master"), Reply::Int(0), Reply::Array(Vec::new())]))
}

pub(super) fn replicaof(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.at(1).eq_ignore_ascii_case(b"no") && args.at(2).eq_ignore_ascii_case(b"one") {
        return Ok(Reply::Ok);
    }
    let port = number::parse_int(args.at(2)).filter(|port| (0..=65535).contains(port));
    port.ok_or(BAD_PORT)?;
    Err(NO_REPLICATION)
}

pub(super) fn wait(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    args.int(1)?;
    blocking::timeout_ms(args.at(2))?;
    Ok(Reply::Int(0))
}

pub(super) fn waitaof(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let local = args.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(NOT_0_OR_1);
    }
    number::parse_int(args.at(2)).filter(|replicas| *replicas >= 0).ok_or(errors::NOT_POSITIVE)?;
    blocking::timeout_ms(args.at(3))?;
    let durability = conn.hub.host.facts().durability;
    if local > 0 && durability == "memory" {
        return Err(NO_DISK);
    }
    Ok(Reply::Array(vec![Reply::yes(durability == "fsync"), Reply::Int(0)]))
}

/// A connection of a server with sinks waits instead.
pub(super) fn waitsink(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    blocking::timeout_ms(args.at(2))?;
    Err(NO_SINKS)
}

#[cfg(test)]
mod tests {
    use super::super::save::tests::Durability;
    use crate::testing::Desk;

    #[test]
    fn the_server_has_no_replicas() {
        Desk::new().expect(&[
            ("ROLE", "*3 $6 master :0 *0"),
            ("REPLICAOF no one", "+OK"),
            ("SLAVEOF a b", "-ERR Invalid master port"),
            ("REPLICAOF h 1", "-ERR replication is not supported: this server is always a master"),
            ("WAIT 0 0", ":0"),
            ("WAIT 3 100", ":0"),
            ("WAIT x 1", "-ERR value is not an integer or out of range"),
            ("WAIT 1 x", "-ERR timeout is not an integer or out of range"),
            ("WAIT 1 -1", "-ERR timeout is negative"),
        ]);
    }

    #[test]
    fn waitaof_reports_the_durability() {
        for (durability, expected) in [
            ("fsync", "*2 :1 :0"),
            ("commit", "*2 :0 :0"),
            ("memory", "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."),
        ] {
            let mut desk = Desk::at(Box::new(Durability(durability)));
            desk.expect(&[
                ("WAITAOF 1 0 0", expected),
                ("WAITAOF 2 0 0", "-ERR value is out of range, value must between 0 and 1"),
                ("WAITAOF x 0 0", "-ERR value is not an integer or out of range"),
                ("WAITAOF 0 -1 0", "-ERR value is out of range, must be positive"),
                ("WAITAOF 0 0 x", "-ERR timeout is not an integer or out of range"),
            ]);
        }
    }
}
