//! `HGETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] FIELDS
//! numfields field [field ...]`

use keystead_core::Millis;
use keystead_model::Bytes;

use super::fields;
use super::moment::Form;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hgetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let now = ctx.now;
    let mut hash = ctx.keys.hash_mut(args.at(1), now)?;
    let mut options = args.cursor(2);
    let at = if let Some(form) = Form::accept(&mut options) {
        Some(form.moment(options.next().unwrap_or_default(), now, "hgetex")?)
    } else {
        options.accept("PERSIST").then_some(Millis::NEVER)
    };
    let fields = fields::parse(args, options.index(), fields::NOT_POSITIVE)?;
    let mut replies = Vec::with_capacity(fields.len());
    for field in fields {
        let Some(value) = hash.get(field).map(Reply::bulk) else {
            replies.push(Reply::Nil);
            continue;
        };
        replies.push(value);
        match at {
            Some(at) if at <= now => {
                hash.remove(&Bytes::from(field));
            }
            Some(at) if at != hash.expires_at(field) => {
                hash.set_field_expiry(&Bytes::from(field), at);
            }
            _ => {}
        }
    }
    Ok(Reply::Array(replies))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn fields_are_returned_and_their_expiry_set() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HGETEX h FIELDS 1 a", "*1 $-1"),
            ("HSET h a 1 b 2", ":2"),
            ("HGETEX h FIELDS 2 a x", "*2 $1 1 $-1"),
            ("HTTL h FIELDS 1 a", "*1 :-1"),
            ("HGETEX h EX 10 FIELDS 1 a", "*1 $1 1"),
            ("HTTL h FIELDS 2 a b", "*2 :10 :-1"),
            ("HGETEX h FIELDS 1 a", "*1 $1 1"),
            ("HTTL h FIELDS 1 a", "*1 :10"),
            ("HGETEX h PERSIST FIELDS 2 a b", "*2 $1 1 $1 2"),
            ("HTTL h FIELDS 1 a", "*1 :-1"),
            ("HGETEX h px 1500 FIELDS 1 a", "*1 $1 1"),
            ("HPTTL h FIELDS 1 a", "*1 :1500"),
            ("HGETEX h EXAT 1700000002 FIELDS 1 a", "*1 $1 1"),
            ("HPTTL h FIELDS 1 a", "*1 :2000"),
            ("HGETEX h PXAT 1 FIELDS 2 a a", "*2 $1 1 $-1"),
            ("HKEYS h", "*1 $1 b"),
        ]);
    }

    #[test]
    fn checks_come_in_order() {
        let mut desk = Desk::new();
        desk.run("SADD s m");
        desk.run("HSET h a 1");
        let missing = "-ERR Mandatory argument FIELDS is missing or not at the right position";
        desk.expect(&[
            ("HGETEX s EX x FOO", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HGETEX h EX x FOO 1 a", "-ERR value is not an integer or out of range"),
            ("HGETEX h EX -1 FOO 1 a", "-ERR invalid expire time, must be >= 0"),
            ("HGETEX h PX 9223372036854775807 FOO 1 a", "-ERR invalid expire time in 'hgetex' command"),
            ("HGETEX h EX 1 FOO 1 a", missing),
            ("HGETEX h PERSIST EX 1 FIELDS 1 a", missing),
            ("HGETEX h KEEPTTL FIELDS 1 a", missing),
            ("HGETEX h EX 10 FIELDS", "-ERR Number of fields must be a positive integer"),
            ("HGETEX h FIELDS 0 a", "-ERR Number of fields must be a positive integer"),
            ("HGETEX h FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments"),
        ]);
    }
}
