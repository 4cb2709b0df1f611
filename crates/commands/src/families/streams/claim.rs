//! `XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE]
//! [JUSTID] [LASTID last-id]`

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::StreamMut;
use keystead_model::value::stream::{Pending, StreamId};

use super::{entry, groups, id};
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply, number};

const BAD_MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XCLAIM";
const BAD_IDLE: &str = "ERR Invalid IDLE option argument for XCLAIM";
const BAD_TIME: &str = "ERR Invalid TIME option argument for XCLAIM";
const BAD_RETRYCOUNT: &str = "ERR Invalid RETRYCOUNT option argument for XCLAIM";

/// The parsed arguments.
struct Claim {
    min_idle_ms: i64,
    ids: Vec<StreamId>,
    delivered_at: Millis,
    deliveries: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: StreamId,
}

pub(super) fn xclaim(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    let Some(group) = stream.group(args.at(2)) else {
        return Err(groups::none(args.at(1), args.at(2)));
    };
    let (last_id, entries_read) = (group.last_delivered_id(), group.entries_read());
    let known = group.consumer(args.at(3)).is_some();
    let claim = parse(args, ctx.now)?;
    let (group, consumer) = (Bytes::from(args.at(2)), Bytes::from(args.at(3)));
    if claim.last_id > last_id {
        stream.put_group(&group, claim.last_id, entries_read);
    }
    if !known {
        groups::see(&mut stream, &group, &consumer, ctx.now, false);
    }
    let mut replies = Vec::new();
    for id in &claim.ids {
        if claim_one(&mut stream, &claim, *id, &group, &consumer, ctx.now) {
            replies.push(claimed_reply(&stream, *id, claim.just_id));
        }
    }
    groups::see(&mut stream, &group, &consumer, ctx.now, !replies.is_empty());
    Ok(Reply::Array(replies))
}

fn parse(args: Args<'_>, now: Millis) -> Result<Claim, Fail> {
    let int = |text: &[u8], wrong: &'static str| number::parse_int(text).ok_or(Fail::Text(wrong.into()));
    let mut claim = Claim {
        min_idle_ms: int(args.at(4), BAD_MIN_IDLE)?.max(0),
        ids: Vec::new(),
        delivered_at: now,
        deliveries: None,
        force: false,
        just_id: false,
        last_id: StreamId::MIN,
    };
    let mut rest = args.cursor(5);
    while let Some(Ok(id)) = rest.peek().map(|text| id::strict(text, 0)) {
        claim.ids.push(id);
        rest.next();
    }
    let now_ms = now.0 as i64;
    while !rest.is_done() {
        if rest.accept("FORCE") {
            claim.force = true;
        } else if rest.accept("JUSTID") {
            claim.just_id = true;
        } else if rest.accept_with("IDLE", 1) {
            claim.delivered_at = sane(now_ms.saturating_sub(int(rest.bytes()?, BAD_IDLE)?), now);
        } else if rest.accept_with("TIME", 1) {
            claim.delivered_at = sane(int(rest.bytes()?, BAD_TIME)?, now);
        } else if rest.accept_with("RETRYCOUNT", 1) {
            claim.deliveries = u64::try_from(int(rest.bytes()?, BAD_RETRYCOUNT)?).ok();
        } else if rest.accept_with("LASTID", 1) {
            claim.last_id = id::strict(rest.bytes()?, 0)?;
        } else {
            let option = String::from_utf8_lossy(rest.bytes()?);
            return Err(Fail::text(format!("ERR Unrecognized XCLAIM option '{option}'")));
        }
    }
    Ok(claim)
}

/// The time of a delivery; an invalid one becomes now.
fn sane(at_ms: i64, now: Millis) -> Millis {
    u64::try_from(at_ms).ok().map(Millis).filter(|at| *at <= now).unwrap_or(now)
}

/// Whether the consumer owns the entry now. An entry that was deleted from the stream is no longer pending.
fn claim_one(
    stream: &mut StreamMut<'_>,
    claim: &Claim,
    id: StreamId,
    group: &Bytes,
    consumer: &Bytes,
    now: Millis,
) -> bool {
    if stream.get(id).is_none() {
        stream.remove_pending(group, id);
        return false;
    }
    let deliveries = match stream.group(group).and_then(|group| group.pending_entry(id)) {
        Some(pending) if is_idle(pending, claim.min_idle_ms, now) => pending.deliveries,
        None if claim.force => 1,
        _ => return false,
    };
    let more = u64::from(!claim.just_id);
    let deliveries = claim.deliveries.unwrap_or(deliveries.wrapping_add(more));
    let pending = Pending { consumer: consumer.clone(), delivered_at: claim.delivered_at, deliveries };
    stream.put_pending(group, id, &pending);
    true
}

/// Whether an entry was delivered at least so long ago.
pub(super) fn is_idle(pending: &Pending, min_idle_ms: i64, now: Millis) -> bool {
    min_idle_ms == 0 || (now.0 as i64).saturating_sub(pending.delivered_at.0 as i64) >= min_idle_ms
}

/// A claimed entry that exists.
pub(super) fn claimed_reply(stream: &StreamMut<'_>, id: StreamId, just_id: bool) -> Reply {
    match stream.get(id) {
        Some(fields) if !just_id => entry::reply((id, fields)),
        _ => id::reply(id),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    fn pending() -> Desk {
        let mut desk = Desk::new();
        for n in 1..=3 {
            desk.run(&format!("XADD s {n} a {n}"));
        }
        desk.run("XGROUP CREATE s g 0");
        desk.run("XREADGROUP GROUP g a COUNT 2 STREAMS s >");
        desk.now = desk.now.plus_ms(100);
        desk
    }

    #[test]
    fn entries_are_claimed() {
        let mut desk = pending();
        desk.expect(&[
            ("XCLAIM s g b 101 1 2", "*0"),
            ("XCLAIM s g b 100 1", "*1 *2 $3 1-0 *2 $1 a $1 1"),
            ("XCLAIM s g b 100 1", "*0"),
            ("XCLAIM s g b 0 2-0 JUSTID", "*1 $3 2-0"),
            ("XPENDING s g - + 9", "*2 *4 $3 1-0 $1 b :0 :2 *4 $3 2-0 $1 b :0 :1"),
            ("XCLAIM s g c 0 1 IDLE 50 RETRYCOUNT 7", "*1 *2 $3 1-0 *2 $1 a $1 1"),
            ("XCLAIM s g c 0 2 TIME 1 JUSTID", "*1 $3 2-0"),
            ("XPENDING s g - + 9", "*2 *4 $3 1-0 $1 c :50 :7 *4 $3 2-0 $1 c :1700000000099 :1"),
            ("XCLAIM s g c 0 2 TIME 9223372036854775807 IDLE -9223372036854775808 JUSTID", "*1 $3 2-0"),
            ("XPENDING s g 2 2 9", "*1 *4 $3 2-0 $1 c :0 :1"),
            ("XCLAIM s g c 0 3", "*0"),
            ("XCLAIM s g c 0 3 9 FORCE JUSTID", "*1 $3 3-0"),
            ("XPENDING s g 3 3 9", "*1 *4 $3 3-0 $1 c :0 :1"),
            ("XDEL s 1", ":1"),
            ("XCLAIM s g c 1000 1 JUSTID", "*0"),
            ("XPENDING s g", "*4 :2 $3 2-0 $3 3-0 *1 *2 $1 c $1 2"),
            ("XCLAIM s g c 0 9 LASTID 3", "*0"),
            ("XREADGROUP GROUP g c STREAMS s >", "*-1"),
        ]);
    }

    #[test]
    fn bad_arguments_claim_nothing() {
        let mut desk = pending();
        desk.expect(&[
            ("XCLAIM x g b y 1", "-NOGROUP No such key 'x' or consumer group 'g'"),
            ("XCLAIM s h b y 1", "-NOGROUP No such key 's' or consumer group 'h'"),
            ("XCLAIM s g b y 1", "-ERR Invalid min-idle-time argument for XCLAIM"),
            ("XCLAIM s g b 0 1 x", "-ERR Unrecognized XCLAIM option 'x'"),
            ("XCLAIM s g b 0 1 FORCE 2", "-ERR Unrecognized XCLAIM option '2'"),
            ("XCLAIM s g b 0 1 IDLE", "-ERR Unrecognized XCLAIM option 'IDLE'"),
            ("XCLAIM s g b 0 1 IDLE x", "-ERR Invalid IDLE option argument for XCLAIM"),
            ("XCLAIM s g b 0 1 TIME x", "-ERR Invalid TIME option argument for XCLAIM"),
            ("XCLAIM s g b 0 1 RETRYCOUNT x", "-ERR Invalid RETRYCOUNT option argument for XCLAIM"),
            ("XCLAIM s g b 0 1 LASTID x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XPENDING s g", "*4 :2 $3 1-0 $3 2-0 *1 *2 $1 a $1 2"),
            ("SADD t m", ":1"),
            ("XCLAIM t g b y 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
