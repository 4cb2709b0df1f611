//! `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`

use keystead_model::Bytes;
use keystead_model::value::stream::{Pending, Stream, StreamId};

use super::claim::{claimed_reply, is_idle};
use super::{groups, id};
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply, number};

const BAD_MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XAUTOCLAIM";
const BAD_COUNT: &str = "ERR COUNT must be > 0";

/// The default number of entries that are claimed.
const COUNT_DEFAULT: usize = 100;

/// How many entries are examined for each that may be claimed.
const EXAMINED_PER_CLAIM: usize = 10;

/// The highest count: the longest list of ids that Redis can allocate.
const COUNT_MAX: i64 = i64::MAX / size_of::<StreamId>() as i64;

pub(super) fn xautoclaim(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let min_idle_ms = number::parse_int(args.at(4)).ok_or(Fail::Text(BAD_MIN_IDLE.into()))?.max(0);
    let start = id::range_start(args.at(5))?;
    let (mut count, mut just_id) = (COUNT_DEFAULT, false);
    let mut rest = args.cursor(6);
    while !rest.is_done() {
        if rest.accept_with("COUNT", 1) {
            let given = number::parse_int(rest.bytes()?).filter(|count| (1..=COUNT_MAX).contains(count));
            let given = given.ok_or(Fail::Text(BAD_COUNT.into()))?;
            count = usize::try_from(given).unwrap_or(usize::MAX);
        } else if rest.accept("JUSTID") {
            just_id = true;
        } else {
            return Err(errors::SYNTAX);
        }
    }
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    if stream.group(args.at(2)).is_none() {
        return Err(groups::none(args.at(1), args.at(2)));
    }
    let (group, consumer) = (Bytes::from(args.at(2)), Bytes::from(args.at(3)));
    let due = |pending: &Pending| is_idle(pending, min_idle_ms, ctx.now);
    let found = find(&stream, &group, start, count, due);
    groups::see(&mut stream, &group, &consumer, ctx.now, !found.claimed.is_empty());
    for id in &found.deleted {
        stream.remove_pending(&group, *id);
    }
    for (id, deliveries) in &found.claimed {
        let deliveries = deliveries.wrapping_add(u64::from(!just_id));
        let pending = Pending { consumer: consumer.clone(), delivered_at: ctx.now, deliveries };
        stream.put_pending(&group, *id, &pending);
    }
    let claimed = found.claimed.iter().map(|(id, _)| claimed_reply(&stream, *id, just_id)).collect();
    let deleted = found.deleted.into_iter().map(id::reply).collect();
    Ok(Reply::Array(vec![id::reply(found.next), Reply::Array(claimed), Reply::Array(deleted)]))
}

/// The result.
#[derive(Default)]
struct Found {
    /// Entries, and how often they were delivered.
    claimed: Vec<(StreamId, u64)>,
    /// Entries that are no longer in the stream.
    deleted: Vec<StreamId>,
    /// The next start; the lowest id at the end.
    next: StreamId,
}

fn find(
    stream: &Stream,
    group: &Bytes,
    start: StreamId,
    count: usize,
    due: impl Fn(&Pending) -> bool,
) -> Found {
    let mut found = Found::default();
    let Some(group) = stream.group(group) else { return found };
    let mut left = count.saturating_mul(EXAMINED_PER_CLAIM);
    for (id, pending) in group.pending(start..) {
        if left == 0 || found.claimed.len() + found.deleted.len() >= count {
            found.next = *id;
            break;
        }
        left -= 1;
        if stream.get(*id).is_none() {
            found.deleted.push(*id);
        } else if due(pending) {
            found.claimed.push((*id, pending.deliveries));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    fn pending(count: u64) -> Desk {
        let mut desk = Desk::new();
        for n in 1..=count {
            desk.run(&format!("XADD s {n} a {n}"));
        }
        desk.run("XGROUP CREATE s g 0");
        desk.run("XREADGROUP GROUP g a STREAMS s >");
        desk.now = desk.now.plus_ms(100);
        desk
    }

    #[test]
    fn entries_are_claimed_from_a_start_id() {
        let mut desk = pending(5);
        desk.expect(&[
            ("XAUTOCLAIM s g b 101 0", "*3 $3 0-0 *0 *0"),
            ("XAUTOCLAIM s g b 100 0 COUNT 1", "*3 $3 2-0 *1 *2 $3 1-0 *2 $1 a $1 1 *0"),
            ("XDEL s 3", ":1"),
            ("XAUTOCLAIM s g b 100 (1 COUNT 2 JUSTID", "*3 $3 4-0 *1 $3 2-0 *1 $3 3-0"),
            ("XAUTOCLAIM s g b 0 4-0 COUNT 2 JUSTID", "*3 $3 0-0 *2 $3 4-0 $3 5-0 *0"),
            (
                "XPENDING s g - + 9",
                "*4 *4 $3 1-0 $1 b :0 :2 *4 $3 2-0 $1 b :0 :1 *4 $3 4-0 $1 b :0 :1 *4 $3 5-0 $1 b :0 :1",
            ),
            ("XAUTOCLAIM s g b 1 0", "*3 $3 0-0 *0 *0"),
        ]);
        let mut desk = pending(25);
        desk.expect(&[("XAUTOCLAIM s g b 1000 0 COUNT 2", "*3 $4 21-0 *0 *0")]);
    }

    #[test]
    fn bad_arguments_claim_nothing() {
        pending(1).expect(&[
            ("SADD t m", ":1"),
            ("XAUTOCLAIM t g b x y", "-ERR Invalid min-idle-time argument for XAUTOCLAIM"),
            ("XAUTOCLAIM t g b 0 y", "-ERR Invalid stream ID specified as stream command argument"),
            (
                "XAUTOCLAIM t g b 0 (18446744073709551615-18446744073709551615",
                "-ERR invalid start ID for the interval",
            ),
            ("XAUTOCLAIM t g b 0 0 COUNT 0", "-ERR COUNT must be > 0"),
            ("XAUTOCLAIM t g b 0 0 COUNT x", "-ERR COUNT must be > 0"),
            ("XAUTOCLAIM t g b 0 0 COUNT 576460752303423488", "-ERR COUNT must be > 0"),
            ("XAUTOCLAIM t g b 0 0 COUNT", "-ERR syntax error"),
            ("XAUTOCLAIM t g b 0 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("XAUTOCLAIM s h b 0 0", "-NOGROUP No such key 's' or consumer group 'h'"),
            ("XAUTOCLAIM x g b 0 0", "-NOGROUP No such key 'x' or consumer group 'g'"),
            ("XAUTOCLAIM s g b 0 0 COUNT 576460752303423487 JUSTID", "*3 $3 0-0 *1 $3 1-0 *0"),
        ]);
    }
}
