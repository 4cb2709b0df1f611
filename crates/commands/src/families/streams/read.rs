//! `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]`

use keystead_model::keyspace::Miss;
use keystead_model::value::stream::{Stream, StreamId};

use super::reading::Reading;
use super::{entry, id};
use crate::errors::Fail;
use crate::meter;
use crate::{Args, CommandResult, Ctx, Reply};

const NEW_IN_READ: &str =
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.";

pub(super) fn xread(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let reading = Reading::parse(args, false)?;
    let mut after = Vec::with_capacity(reading.streams);
    for n in 0..reading.streams {
        let stream = stream(ctx, reading.key(n))?;
        after.push(match reading.id(n) {
            b"$" => stream.map_or(StreamId::MIN, |stream| stream.meta().last_id),
            b"+" => before_last(stream),
            b">" => return Err(Fail::Text(NEW_IN_READ.into())),
            text => id::strict(text, 0)?,
        });
    }
    let mut found = Vec::new();
    for (n, after) in after.iter().enumerate().take_while(|_| !meter::is_exceeded()) {
        let (Some(stream), Some(start)) = (stream(ctx, reading.key(n))?, after.next()) else { continue };
        let entries = entry::between(stream, start, StreamId::MAX).take(reading.count).map(entry::reply);
        let entries: Vec<Reply> = entries.take_while(|_| !meter::is_exceeded()).collect();
        if !entries.is_empty() {
            found.push((Reply::bulk(reading.key(n)), Reply::Array(entries)));
        }
    }
    if found.is_empty() && !meter::is_exceeded() {
        reading
            .wait(ctx, |n| (reading.id(n) == b"$").then(|| after.get(n).map(StreamId::to_string)).flatten());
        return Ok(Reply::NilArray);
    }
    Ok(Reply::Dict(found))
}

/// The stream at a key. For a command that was woken, a key of another type is treated as absent.
fn stream<'a>(ctx: &'a mut Ctx<'_>, key: &[u8]) -> Result<Option<&'a Stream>, Fail> {
    let woken = ctx.woken;
    match ctx.keys.stream(key, ctx.now) {
        Err(Miss::WrongType(_)) if woken => Ok(None),
        other => Ok(other?),
    }
}

/// `+`: only the last entry follows this id.
fn before_last(stream: Option<&Stream>) -> StreamId {
    stream.and_then(Stream::last).and_then(|(id, _)| id.prev()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Desk, shown};
    use crate::wire::resp3;
    use crate::{Args, Reply};

    const ONE: &str = "*2 $3 1-0 *2 $1 a $1 1";
    const TWO: &str = "*2 $3 2-0 *2 $1 a $1 2";

    fn filled() -> Desk {
        let mut desk = Desk::new();
        desk.expect(&[("XADD s 1 a 1", "$3 1-0"), ("XADD s 2 a 2", "$3 2-0"), ("XADD t 1 a 1", "$3 1-0")]);
        desk
    }

    #[test]
    fn entries_after_ids_are_read() {
        let mut desk = filled();
        desk.expect(&[
            ("XREAD STREAMS s 0", &format!("*1 *2 $1 s *2 {ONE} {TWO}")),
            ("XREAD COUNT 1 STREAMS s t x 0 0 0", &format!("*2 *2 $1 s *1 {ONE} *2 $1 t *1 {ONE}")),
            ("XREAD count -1 streams t s 5 1", &format!("*1 *2 $1 s *1 {TWO}")),
            ("XREAD STREAMS s +", &format!("*1 *2 $1 s *1 {TWO}")),
            ("XREAD STREAMS s $", "*-1"),
            ("XREAD STREAMS x 0", "*-1"),
            ("XREAD STREAMS s 18446744073709551615-18446744073709551615", "*-1"),
        ]);
        let mut out = Vec::new();
        resp3::encode(&desk.run("XREAD COUNT 1 STREAMS s 0"), &mut out);
        assert_eq!(String::from_utf8_lossy(&out).replace("\r\n", " "), "%1 $1 s *1 *2 $3 1-0 *2 $1 a $1 1 ");
    }

    #[test]
    fn errors_in_arguments_are_reported_in_order() {
        filled().expect(&[
            ("SADD set m", ":1"),
            ("XREAD STREAMS s", "-ERR wrong number of arguments for 'xread' command"),
            (
                "XREAD STREAMS s t 0",
                "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.",
            ),
            (
                "XREAD GROUP g c STREAMS s 0",
                "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
            ),
            (
                "XREAD NOACK STREAMS s 0",
                "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
            ),
            ("XREAD COUNT 1 BLOCK 1", "-ERR syntax error"),
            ("XREAD COUNT 1 FOO STREAMS", "-ERR syntax error"),
            ("XREAD COUNT x STREAMS s 0", "-ERR value is not an integer or out of range"),
            ("XREAD BLOCK x STREAMS s 0", "-ERR timeout is not an integer or out of range"),
            ("XREAD BLOCK -1 STREAMS s 0", "-ERR timeout is negative"),
            ("XREAD STREAMS set x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            (
                "XREAD STREAMS s >",
                "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
            ),
            ("XREAD STREAMS s -", "-ERR Invalid stream ID specified as stream command argument"),
        ]);
    }

    #[test]
    fn blocking_continues_after_the_last_entry() {
        let mut desk = filled();
        desk.expect(&[("XREAD BLOCK 0 STREAMS s 0", &format!("*1 *2 $1 s *2 {ONE} {TWO}"))]);
        assert!(desk.wait.is_none());
        desk.expect(&[("XREAD BLOCK 50 STREAMS s x $ $", "*-1")]);
        let wait = desk.wait.take().unwrap();
        assert_eq!((wait.timeout_ms, wait.keys.len(), wait.on_delete), (Some(50), 2, false));
        let again = wait.again.unwrap();
        let words = |args: Args<'_>| args.from(0).map(|word| word.to_vec()).collect::<Vec<_>>().join(&b' ');
        assert_eq!(words(again.args()), b"XREAD BLOCK 50 STREAMS s x 2-0 0-0");
        desk.run("XADD x 1 a 1");
        let reply: Reply = desk.run_args(&again.args().from(0).collect::<Vec<_>>());
        assert_eq!(shown(&reply), format!("*1 *2 $1 x *1 {ONE}"));
        desk.expect(&[("XREAD BLOCK 0 STREAMS y 0", "*-1")]);
        assert!(desk.wait.take().is_some_and(|wait| wait.again.is_none() && wait.timeout_ms.is_none()));
    }
}
