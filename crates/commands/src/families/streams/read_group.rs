//! `XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]`

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::StreamMut;
use keystead_model::value::stream::{Pending, Stream, StreamId};

use super::reading::Reading;
use super::{entry, groups, id, progress};
use crate::errors::Fail;
use crate::meter;
use crate::{Args, CommandResult, Ctx, Reply};

const LAST_IN_GROUP: &str = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of \
    this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty \
    result set.";
const TOP_IN_GROUP: &str = "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of \
    this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty \
    result set.";

/// What is read from a stream.
#[derive(Clone, Copy)]
enum Wanted {
    /// `>`: entries that were not delivered to the group yet.
    New,
    /// Entries that the consumer received and did not acknowledge, after this id.
    History(StreamId),
}

pub(super) fn xreadgroup(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let reading = Reading::parse(args, true)?;
    let (group, consumer) = reading.group.unwrap_or_default();
    let mut wanted = Vec::with_capacity(reading.streams);
    for n in 0..reading.streams {
        let stream = ctx.keys.stream(reading.key(n), ctx.now)?;
        if stream.and_then(|stream| stream.group(group)).is_none() {
            return Err(groups::none_to_read(reading.key(n), group));
        }
        wanted.push(parse_wanted(reading.id(n))?);
    }
    let (group, consumer) = (Bytes::from(group), Bytes::from(consumer));
    // In Upstash a read with NOACK leaves no trace.
    let traceless = reading.no_ack && ctx.is_upstash();
    let mut found = Vec::new();
    for (n, wanted) in wanted.into_iter().enumerate().take_while(|_| !meter::is_exceeded()) {
        let mut stream = ctx.keys.stream_mut(reading.key(n), ctx.now)?;
        let mut member =
            Member { stream: &mut stream, group: &group, consumer: &consumer, now: ctx.now, traceless };
        let entries = match wanted {
            Wanted::New => member.read_new(&reading, ctx.woken),
            Wanted::History(after) => Some(member.read_history(after, reading.count)),
        };
        if let Some(entries) = entries {
            found.push((Reply::bulk(reading.key(n)), Reply::Array(entries)));
        }
    }
    if found.is_empty() {
        reading.wait(ctx, |_| None);
        return Ok(Reply::NilArray);
    }
    Ok(Reply::Dict(found))
}

fn parse_wanted(text: &[u8]) -> Result<Wanted, Fail> {
    Ok(match text {
        b"$" => return Err(Fail::Text(LAST_IN_GROUP.into())),
        b"+" => return Err(Fail::Text(TOP_IN_GROUP.into())),
        b">" => Wanted::New,
        _ => match id::strict(text, 0)? {
            // Redis represents `>` by this id, so it reads this id as `>`.
            StreamId::MAX => Wanted::New,
            after => Wanted::History(after),
        },
    })
}

/// A consumer of an existing group.
struct Member<'a, 'k> {
    stream: &'a mut StreamMut<'k>,
    group: &'a Bytes,
    consumer: &'a Bytes,
    now: Millis,
    /// Whether an unknown consumer is not created.
    traceless: bool,
}

impl Member<'_, '_> {
    /// Entries that were not delivered to the group yet; `None` if there are none.
    fn read_new(&mut self, reading: &Reading<'_>, woken: bool) -> Option<Vec<Reply>> {
        let group = self.stream.group(self.group)?;
        let (mut last_id, mut entries_read) = (group.last_delivered_id(), group.entries_read());
        let known = group.consumer(self.consumer).is_some();
        let (mut ids, mut replies) = (Vec::new(), Vec::new());
        if let Some(start) = last_id.next() {
            let entries = entry::between(self.stream, start, StreamId::MAX).take(reading.count);
            for (id, fields) in entries.take_while(|_| !meter::is_exceeded()) {
                entries_read = progress::after_reading(self.stream, entries_read, last_id, id);
                last_id = id;
                ids.push(id);
                replies.push(entry::reply((id, fields)));
            }
        }
        if ids.is_empty() {
            // A command that was woken for nothing leaves no trace, or blocked commands would wake each other for ever.
            if !(woken && known) {
                self.see(false);
            }
            return None;
        }
        self.see(!reading.no_ack);
        self.stream.put_group(self.group, last_id, entries_read);
        if !reading.no_ack {
            for id in ids {
                self.deliver(id, 1);
            }
        }
        Some(replies)
    }

    /// Entries that the consumer received and did not acknowledge. A deleted entry is returned without its fields.
    fn read_history(&mut self, after: StreamId, count: usize) -> Vec<Reply> {
        self.see(false);
        let (mut again, mut replies) = (Vec::new(), Vec::new());
        let stream: &Stream = self.stream;
        let group = stream.group(self.group);
        let own = group.and_then(|group| Some((group, group.consumer(self.consumer)?)));
        if let (Some((group, own)), Some(start)) = (own, after.next()) {
            for &id in own.pending(start..).take(count).take_while(|_| !meter::is_exceeded()) {
                let Some(fields) = stream.get(id) else {
                    replies.push(Reply::Array(vec![id::reply(id), Reply::NilArray]));
                    continue;
                };
                replies.push(entry::reply((id, fields)));
                let deliveries = group.pending_entry(id).map_or(0, |pending| pending.deliveries);
                again.push((id, deliveries.wrapping_add(1)));
            }
        }
        for (id, deliveries) in again {
            self.deliver(id, deliveries);
        }
        replies
    }

    fn deliver(&mut self, id: StreamId, deliveries: u64) {
        let pending = Pending { consumer: self.consumer.clone(), delivered_at: self.now, deliveries };
        self.stream.put_pending(self.group, id, &pending);
    }

    /// Records that the consumer made a request, and whether it received anything new.
    fn see(&mut self, active: bool) {
        let known =
            || self.stream.group(self.group).is_some_and(|group| group.consumer(self.consumer).is_some());
        if self.traceless && !known() {
            return;
        }
        groups::see(self.stream, self.group, self.consumer, self.now, active);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    const ONE: &str = "*2 $3 1-0 *2 $1 a $1 1";
    const TWO: &str = "*2 $3 2-0 *2 $1 a $1 2";

    fn filled() -> Desk {
        let mut desk = Desk::new();
        desk.expect(&[
            ("XADD s 1 a 1", "$3 1-0"),
            ("XADD s 2 a 2", "$3 2-0"),
            ("XGROUP CREATE s g 0", "+OK"),
            ("XGROUP CREATE t g 0 MKSTREAM", "+OK"),
        ]);
        desk
    }

    #[test]
    fn entries_are_distributed_and_returned_again() {
        let mut desk = filled();
        desk.expect(&[
            ("XREADGROUP GROUP g a COUNT 1 STREAMS s t > >", &format!("*1 *2 $1 s *1 {ONE}")),
            ("XREADGROUP GROUP g b STREAMS s >", &format!("*1 *2 $1 s *1 {TWO}")),
            ("XREADGROUP GROUP g b STREAMS s >", "*-1"),
            ("XREADGROUP GROUP g a STREAMS s 0", &format!("*1 *2 $1 s *1 {ONE}")),
            ("XREADGROUP GROUP g a STREAMS s 1", "*1 *2 $1 s *0"),
            ("XREADGROUP GROUP g new STREAMS s t 0 >", "*1 *2 $1 s *0"),
            ("XPENDING s g - + 9", "*2 *4 $3 1-0 $1 a :0 :2 *4 $3 2-0 $1 b :0 :1"),
            ("XDEL s 1", ":1"),
            ("XREADGROUP GROUP g a STREAMS s 0", "*1 *2 $1 s *1 *2 $3 1-0 *-1"),
            ("XPENDING s g - + 1", "*1 *4 $3 1-0 $1 a :0 :2"),
            ("XACK s g 1 2", ":2"),
            ("XADD s 3 a 1", "$3 3-0"),
            ("XREADGROUP GROUP g c NOACK STREAMS s >", "*1 *2 $1 s *1 *2 $3 3-0 *2 $1 a $1 1"),
            ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
        ]);
    }

    #[test]
    fn at_upstash_a_consumer_without_acknowledgements_leaves_no_trace() {
        let mut desk = filled();
        desk.dialect = crate::ctx::Dialect::Upstash;
        desk.expect(&[
            ("XREADGROUP GROUP g c COUNT 1 NOACK STREAMS s >", &format!("*1 *2 $1 s *1 {ONE}")),
            ("XREADGROUP GROUP g c NOACK STREAMS t >", "*-1"),
            ("XINFO CONSUMERS s g", "*0"),
            ("XINFO CONSUMERS t g", "*0"),
            ("XREADGROUP GROUP g c STREAMS s >", &format!("*1 *2 $1 s *1 {TWO}")),
            ("XINFO CONSUMERS s g", "*1 *8 $4 name $1 c $7 pending :1 $4 idle :0 $8 inactive :0"),
        ]);
    }

    #[test]
    fn bad_arguments_change_nothing() {
        let mut desk = filled();
        let max = "18446744073709551615-18446744073709551615";
        desk.expect(&[
            ("SADD set m", ":1"),
            ("XREADGROUP GROUP g c STREAMS s", "-ERR wrong number of arguments for 'xreadgroup' command"),
            ("XREADGROUP NOACK NOACK COUNT 1 STREAMS s >", "-ERR Missing GROUP option for XREADGROUP"),
            (
                "XREADGROUP GROUP g c STREAMS s t >",
                "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.",
            ),
            (
                "XREADGROUP GROUP g c STREAMS s x > >",
                "-NOGROUP No such key 'x' or consumer group 'g' in XREADGROUP with GROUP option",
            ),
            (
                "XREADGROUP GROUP h c STREAMS s x",
                "-NOGROUP No such key 's' or consumer group 'h' in XREADGROUP with GROUP option",
            ),
            (
                "XREADGROUP GROUP g c STREAMS set >",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("XREADGROUP GROUP g c STREAMS s x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XINFO CONSUMERS s g", "*0"),
        ]);
        assert!(desk.resp("XREADGROUP GROUP g c STREAMS s $").starts_with("-ERR The $ ID is meaningless"));
        assert!(desk.resp("XREADGROUP GROUP g c STREAMS s +").starts_with("-ERR The + ID is meaningless"));
        desk.expect(&[("XINFO CONSUMERS s g", "*0")]);
        desk.expect(&[(
            &format!("XREADGROUP GROUP g c COUNT 1 STREAMS s {max}"),
            &format!("*1 *2 $1 s *1 {ONE}"),
        )]);
    }

    #[test]
    fn blocking_creates_the_consumer_and_a_vain_wakeup_leaves_no_trace() {
        let mut desk = filled();
        desk.expect(&[("XREADGROUP GROUP g c BLOCK 0 STREAMS t >", "*-1")]);
        let wait = desk.wait.take().unwrap();
        assert!(wait.on_delete && wait.again.is_none() && wait.timeout_ms.is_none());
        desk.now = desk.now.plus_ms(5);
        desk.woken = true;
        let revision = desk.keys.revision();
        desk.expect(&[("XREADGROUP GROUP g c BLOCK 0 STREAMS t >", "*-1")]);
        assert_eq!(desk.keys.revision(), revision);
        desk.expect(&[
            ("XGROUP DESTROY t g", ":1"),
            (
                "XREADGROUP GROUP g c BLOCK 0 STREAMS t >",
                "-NOGROUP No such key 't' or consumer group 'g' in XREADGROUP with GROUP option",
            ),
        ]);
    }
}
