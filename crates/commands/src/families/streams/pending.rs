//! `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`

use keystead_core::Millis;
use keystead_model::value::stream::{Consumer, Group, Pending, StreamId};

use super::{groups, id};
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

/// The filter of the entries.
struct Range<'a> {
    idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

pub(super) fn xpending(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let range = match args.len() {
        3 => None,
        6..=9 => Some(parse(args)?),
        _ => return Err(errors::SYNTAX),
    };
    let stream = ctx.keys.stream(args.at(1), ctx.now)?;
    let Some(group) = stream.and_then(|stream| stream.group(args.at(2))) else {
        return Err(groups::none(args.at(1), args.at(2)));
    };
    Ok(match range {
        None => summary(group),
        Some(range) => list(group, &range, ctx.now),
    })
}

fn parse<'a>(args: Args<'a>) -> Result<Range<'a>, Fail> {
    let mut rest = args.cursor(3);
    let mut idle_ms = 0;
    if rest.accept("IDLE") {
        idle_ms = rest.int()?;
        if args.len() < 8 {
            return Err(errors::SYNTAX);
        }
    }
    let (start, end, count) = (rest.bytes()?, rest.bytes()?, rest.int()?);
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    // Arguments after the consumer are ignored, as in Redis.
    Ok(Range {
        idle_ms,
        start: id::range_start(start)?,
        end: id::range_end(end)?,
        count,
        consumer: rest.next(),
    })
}

/// The number of pending entries, the first and the last, and the number of each consumer.
fn summary(group: &Group) -> Reply {
    let (first, last) = (group.pending(..).next(), group.pending(..).next_back());
    let (Some((first, _)), Some((last, _))) = (first, last) else {
        return Reply::Array(vec![Reply::Int(0), Reply::Nil, Reply::Nil, Reply::NilArray]);
    };
    let consumers = group.consumers().filter(|(_, consumer)| consumer.pending_len() > 0);
    let consumers = consumers.map(|(name, consumer)| {
        Reply::Array(vec![Reply::shared(name.clone()), Reply::text(consumer.pending_len().to_string())])
    });
    Reply::Array(vec![
        Reply::count(group.pending_len()),
        id::reply(*first),
        id::reply(*last),
        Reply::Array(consumers.collect()),
    ])
}

fn list(group: &Group, range: &Range<'_>, now: Millis) -> Reply {
    if range.start > range.end {
        return Reply::Array(Vec::new());
    }
    let ids = range.start..=range.end;
    let wanted = |(id, pending): (&StreamId, &Pending)| {
        let idle_ms = (now.0 as i64).saturating_sub(pending.delivered_at.0 as i64);
        (range.idle_ms == 0 || idle_ms >= range.idle_ms).then(|| pending_reply(*id, pending, idle_ms.max(0)))
    };
    Reply::Array(match range.consumer {
        None => group.pending(ids).filter_map(wanted).take(range.count).collect(),
        Some(name) => {
            let own = group.consumer(name).map(|consumer: &Consumer| consumer.pending(ids));
            let own = own.into_iter().flatten().filter_map(|id| Some((id, group.pending_entry(*id)?)));
            own.filter_map(wanted).take(range.count).collect()
        }
    })
}

fn pending_reply(id: StreamId, pending: &Pending, idle_ms: i64) -> Reply {
    Reply::Array(vec![
        id::reply(id),
        Reply::shared(pending.consumer.clone()),
        Reply::Int(idle_ms),
        Reply::Int(pending.deliveries as i64),
    ])
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn pending_entries_are_summed_and_listed() {
        let mut desk = Desk::new();
        for n in 1..=4 {
            desk.run(&format!("XADD s {n} a 1"));
        }
        desk.run("XGROUP CREATE s g 0");
        desk.expect(&[("XPENDING s g", "*4 :0 $-1 $-1 *-1"), ("XPENDING s g - + 5", "*0")]);
        desk.run("XREADGROUP GROUP g a COUNT 2 STREAMS s >");
        desk.now = desk.now.plus_ms(100);
        desk.run("XREADGROUP GROUP g b COUNT 1 STREAMS s >");
        let (one, two, three) = ("*4 $3 1-0 $1 a :100 :1", "*4 $3 2-0 $1 a :100 :1", "*4 $3 3-0 $1 b :0 :1");
        desk.expect(&[
            ("XPENDING s g", "*4 :3 $3 1-0 $3 3-0 *2 *2 $1 a $1 2 *2 $1 b $1 1"),
            ("XPENDING s g - + 9", &format!("*3 {one} {two} {three}")),
            ("XPENDING s g - + 2", &format!("*2 {one} {two}")),
            ("XPENDING s g (1 + 9", &format!("*2 {two} {three}")),
            ("XPENDING s g 2 2 9", &format!("*1 {two}")),
            ("XPENDING s g + - 9", "*0"),
            ("XPENDING s g - + -1", "*0"),
            ("XPENDING s g - + 9 b", &format!("*1 {three}")),
            ("XPENDING s g - + 9 x", "*0"),
            ("XPENDING s g + - 9 b", "*0"),
            ("XPENDING s g IDLE 100 - + 9", &format!("*2 {one} {two}")),
            ("XPENDING s g idle 101 - + 9", "*0"),
            ("XPENDING s g IDLE 1 - + 9 b", "*0"),
        ]);
    }

    #[test]
    fn errors_in_arguments_are_reported_in_order() {
        Desk::new().expect(&[
            ("SADD t m", ":1"),
            ("XPENDING t g -", "-ERR syntax error"),
            ("XPENDING t g IDLE 1 - +", "-ERR syntax error"),
            ("XPENDING t g IDLE x - +", "-ERR value is not an integer or out of range"),
            ("XPENDING t g x x y", "-ERR value is not an integer or out of range"),
            ("XPENDING t g x x 1", "-ERR Invalid stream ID specified as stream command argument"),
            ("XPENDING t g - (0-0 1", "-ERR invalid end ID for the interval"),
            ("XPENDING t g - + 1 c d e f", "-ERR syntax error"),
            ("XPENDING t g", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("XPENDING s g", "-NOGROUP No such key 's' or consumer group 'g'"),
        ]);
    }
}
