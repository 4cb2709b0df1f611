//! `CLIENT LIST [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]`
//! `CLIENT INFO`

use std::fmt::Write;
use std::sync::atomic::Ordering;

use keystead_core::Millis;

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::families::connection::auth::USER;
use crate::hub::{Client, Kind};
use crate::number;
use crate::reply::Reply;

const INVALID_ID: Fail = Fail::fixed("ERR Invalid client ID");

/// The connection type of a word; the inner `None`: a type of which there are no connections.
pub(super) fn kind_named(word: &[u8]) -> Result<Option<Kind>, Fail> {
    match word.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Some(Kind::Normal)),
        b"pubsub" => Ok(Some(Kind::Pubsub)),
        b"slave" | b"replica" | b"master" => Ok(None),
        _ => Err(Fail::text(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word)))),
    }
}

pub(super) fn info(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let mut text = String::new();
    line(&conn.session.client, conn.now, &mut text);
    Ok(Reply::Verbatim(text))
}

pub(super) fn list(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let mut text = String::new();
    let mut options = args.cursor(2);
    if options.is_done() {
        conn.hub.clients.all().iter().for_each(|client| line(client, conn.now, &mut text));
    } else if args.len() == 4 && options.accept("TYPE") {
        let kind = kind_named(options.bytes()?)?;
        for client in conn.hub.clients.all().iter().filter(|client| Some(client.shown().kind) == kind) {
            line(client, conn.now, &mut text);
        }
    } else if options.accept_with("ID", 1) {
        for id in options.rest() {
            let id = number::parse_int(id).ok_or(INVALID_ID)?;
            let client = u64::try_from(id).ok().and_then(|id| conn.hub.clients.get(id));
            client.iter().for_each(|client| line(client, conn.now, &mut text));
        }
    } else {
        return Err(errors::SYNTAX);
    }
    Ok(Reply::Verbatim(text))
}

/// One connection in Redis's format. Fields that are unknown here (buffers, file descriptors) are 0.
fn line(client: &Client, now: Millis, out: &mut String) {
    let shown = client.shown();
    let [sub, psub, ssub, watch] = shown.counts;
    let multi = shown.queued.map_or(-1, |queued| i64::try_from(queued).unwrap_or(i64::MAX));
    let age_s = now.since_ms(client.since) / 1000;
    let idle_s = now.since_ms(Millis(client.last_ms.load(Ordering::Relaxed))) / 1000;
    let _ = writeln!(
        out,
        "id={} addr={} laddr={} fd=0 name={} age={age_s} idle={idle_s} flags={} db=0 sub={sub} psub={psub} \
         ssub={ssub} multi={multi} watch={watch} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
         omem=0 tot-mem=0 events=r cmd={} user={USER} redir=-1 resp={} lib-name={} lib-ver={}",
        client.id,
        client.address,
        client.local_address,
        shown.name,
        flags(&shown),
        if shown.command.is_empty() { "NULL" } else { shown.command },
        client.protocol.load(Ordering::Relaxed),
        shown.lib_name,
        shown.lib_version,
    );
}

/// Redis's letters: O monitor, P subscriber, x in MULTI, b blocked, e no-evict, T no-touch; N if there are none.
fn flags(shown: &crate::hub::Shown) -> String {
    let flags: String = [
        (shown.monitor, 'O'),
        (shown.kind == Kind::Pubsub, 'P'),
        (shown.queued.is_some(), 'x'),
        (shown.blocked, 'b'),
        (shown.no_evict, 'e'),
        (shown.no_touch, 'T'),
    ]
    .iter()
    .filter_map(|(set, letter)| set.then_some(*letter))
    .collect();
    if flags.is_empty() { "N".into() } else { flags }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn connections_are_listed() {
        let mut desk = Desk::new();
        let other = Desk::connect(&desk.hub);
        desk.run("CLIENT SETNAME me");
        desk.run("CLIENT SETINFO LIB-NAME lib");
        desk.now = desk.now.plus_ms(2500);
        let line = desk.resp("CLIENT INFO");
        assert!(
            line.contains("id=1 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=0 name=me age=2 idle=2 flags=N")
        );
        assert!(line.ends_with("resp=2 lib-name=lib lib-ver="), "{line}");
        assert_eq!(desk.resp("CLIENT LIST").matches("id=").count(), 2);
        assert_eq!(desk.resp("CLIENT LIST ID 2 3 2").matches("id=2 ").count(), 2);
        desk.run("SUBSCRIBE a");
        desk.run("CLIENT NO-TOUCH ON");
        assert!(desk.resp("CLIENT LIST TYPE pubsub").contains("flags=PT db=0 sub=1"));
        assert!(desk.resp("CLIENT LIST TYPE NORMAL").contains("id=2 "));
        desk.expect(&[
            ("CLIENT LIST TYPE master", "$0"),
            ("CLIENT LIST TYPE foo", "-ERR Unknown client type 'foo'"),
            ("CLIENT LIST ID", "-ERR syntax error"),
            ("CLIENT LIST ID x", "-ERR Invalid client ID"),
            ("CLIENT LIST foo", "-ERR syntax error"),
        ]);
        desk.hub.clients.remove(other.client.id);
        assert_eq!(desk.resp("CLIENT LIST").matches("id=").count(), 1);
    }
}
