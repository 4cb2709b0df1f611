//! `XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value
//! [field value ...]`

use keystead_core::Millis;
use keystead_model::value::stream::{Fields, Meta, StreamId};

use super::id;
use super::trimming::Options;
use crate::bounds::STREAM_ENTRY_BYTES_MAX;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

const ZERO_ID: &str = "ERR The ID specified in XADD must be greater than 0-0";
const EXHAUSTED: &str = "ERR The stream has exhausted the last possible ID, unable to add more items";
const TOO_SMALL: &str = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
const TOO_LARGE: &str = "ERR Elements are too large to be stored";

/// The id argument.
#[derive(Clone, Copy)]
enum Wanted {
    /// `*`: by the clock.
    Now,
    /// `ms-*`: the next sequence number of this millisecond.
    Ms(u64),
    /// This one.
    Id(StreamId),
}

pub(super) fn xadd(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut rest = args.cursor(2);
    let (mut options, mut no_create) = (Options::default(), false);
    let wanted = loop {
        if rest.accept("*") {
            break Wanted::Now;
        }
        if options.take(&mut rest)? {
            continue;
        }
        if rest.accept("NOMKSTREAM") {
            no_create = true;
            continue;
        }
        let Some(text) = rest.next() else { break Wanted::Now };
        break match id::wanted(text)? {
            (ms, Some(seq)) => Wanted::Id(StreamId::new(ms, seq)),
            (ms, None) => Wanted::Ms(ms),
        };
    };
    let trim = options.finish(false, ctx.dialect)?;
    if rest.left() < 2 || !rest.left().is_multiple_of(2) {
        return Err(errors::wrong_arity("xadd"));
    }
    if matches!(wanted, Wanted::Id(StreamId::MIN)) {
        return Err(Fail::Text(ZERO_ID.into()));
    }
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    if no_create && !stream.is_there() {
        return Ok(Reply::Nil);
    }
    let meta = stream.meta();
    let id = next_id(meta.last_id, wanted, ctx.now)?;
    let bytes: usize = rest.clone().rest().map(<[u8]>::len).sum();
    if bytes > STREAM_ENTRY_BYTES_MAX {
        return Err(Fail::Text(TOO_LARGE.into()));
    }
    let mut parts = rest.rest();
    let fields = Fields::new(std::iter::from_fn(|| Some((parts.next()?, parts.next()?))));
    stream.put(id, &fields);
    stream.set_meta(Meta { last_id: id, entries_added: meta.entries_added.wrapping_add(1), ..meta });
    if let Some(trim) = trim {
        trim.apply(&mut stream);
    }
    Ok(id::reply(id))
}

fn next_id(last: StreamId, wanted: Wanted, now: Millis) -> Result<StreamId, Fail> {
    if last == StreamId::MAX {
        return Err(Fail::Text(EXHAUSTED.into()));
    }
    let id = match wanted {
        Wanted::Now if now.0 > last.ms => Some(StreamId::new(now.0, 0)),
        Wanted::Now => last.next(),
        Wanted::Ms(ms) if ms == last.ms => last.seq.checked_add(1).map(|seq| StreamId::new(ms, seq)),
        Wanted::Ms(ms) => Some(StreamId::new(ms, 0)),
        Wanted::Id(id) => Some(id),
    };
    id.filter(|id| *id > last).ok_or(Fail::Text(TOO_SMALL.into()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn ids_are_generated_or_given() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("XADD s NOMKSTREAM * a 1", "$-1"),
            ("XADD s 0-0 a 1", "-ERR The ID specified in XADD must be greater than 0-0"),
            ("XADD s 0-* a 1", "$3 0-1"),
            ("XADD s 0-* a 1", "$3 0-2"),
            ("XADD s 5 a 1", "$3 5-0"),
            ("XADD s 5-* a 1", "$3 5-1"),
            ("XADD s 6-* a 1", "$3 6-0"),
            (
                "XADD s 5-7 a 1",
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
            ),
            ("XADD s * a 1", "$15 1700000000000-0"),
            ("XADD s * a 1", "$15 1700000000000-1"),
            (
                "XADD s nomkstream 1700000000009-18446744073709551615 a 1",
                "$34 1700000000009-18446744073709551615",
            ),
            (
                "XADD s 1700000000009-* a 1",
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
            ),
            ("XADD s * a 1", "$15 1700000000010-0"),
            (
                "XADD s 18446744073709551615-18446744073709551615 a 1",
                "$41 18446744073709551615-18446744073709551615",
            ),
            ("XADD s * a 1", "-ERR The stream has exhausted the last possible ID, unable to add more items"),
            ("XLEN s", ":10"),
        ]);
    }

    #[test]
    fn bad_arguments_add_nothing() {
        let mut desk = Desk::new();
        let arity = "-ERR wrong number of arguments for 'xadd' command";
        let both = "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
        desk.expect(&[
            ("XADD s x a 1", "-ERR Invalid stream ID specified as stream command argument"),
            ("XADD s - a 1", "-ERR Invalid stream ID specified as stream command argument"),
            ("XADD s * a 1 b", arity),
            ("XADD s MAXLEN 5 *", arity),
            ("XADD s NOMKSTREAM MAXLEN 5", arity),
            ("XADD s MAXLEN x * a 1", "-ERR value is not an integer or out of range"),
            ("XADD s MAXLEN ~ -1 * a 1", "-ERR The MAXLEN argument must be >= 0."),
            ("XADD s MAXLEN 1 MINID 1 * a 1", both),
            ("XADD s MAXLEN 1 MAXLEN 1 * a 1", both),
            ("XADD s MINID ~ x * a 1", "-ERR Invalid stream ID specified as stream command argument"),
            (
                "XADD s LIMIT 5 * a 1",
                "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ),
            (
                "XADD s MAXLEN 1 LIMIT 5 * a 1",
                "-ERR syntax error, LIMIT cannot be used without the special ~ option",
            ),
            ("XADD s MAXLEN ~ 1 LIMIT -5 * a 1", "-ERR The LIMIT argument must be >= 0."),
            ("XLEN s", ":0"),
            ("XGROUP CREATE s g 0 MKSTREAM", "+OK"),
        ]);
    }

    #[test]
    fn a_stream_may_be_kept_short() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("XADD s 1 a 1", "$3 1-0"),
            ("XADD s 2 a 1", "$3 2-0"),
            ("XADD s MAXLEN 2 3 a 1", "$3 3-0"),
            ("XADD s MAXLEN = 2 4 a 1", "$3 4-0"),
            ("XADD s MAXLEN ~ 2 5 a 1", "$3 5-0"),
            ("XLEN s", ":3"),
            ("XADD s MINID 5 6 a 1", "$3 6-0"),
            ("XRANGE s - +", "*2 *2 $3 5-0 *2 $1 a $1 1 *2 $3 6-0 *2 $1 a $1 1"),
            ("XADD s MAXLEN 0 7 a 1", "$3 7-0"),
            ("XLEN s", ":0"),
            ("TYPE s", "+stream"),
        ]);
    }
}
