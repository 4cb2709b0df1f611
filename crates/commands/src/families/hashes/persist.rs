//! `HPERSIST key FIELDS numfields field [field ...]`: -2 for a field that does not exist, -1 for one without expiration, else 1.

use keystead_core::Millis;
use keystead_model::Bytes;

use super::fields;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hpersist(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut hash = ctx.keys.hash_mut(args.at(1), ctx.now)?;
    let fields = fields::parse(args, 2, fields::NOT_POSITIVE)?;
    let replies = fields.map(|field| {
        Reply::Int(if !hash.contains(field) {
            -2
        } else if hash.expires_at(field) == Millis::NEVER {
            -1
        } else {
            hash.set_field_expiry(&Bytes::from(field), Millis::NEVER);
            1
        })
    });
    Ok(Reply::Array(replies.collect()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn an_expiry_is_removed_once() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HPERSIST h FIELDS 2 a b", "*2 :-2 :-2"),
            ("HSET h a 1 b 2", ":2"),
            ("HEXPIRE h 10 FIELDS 1 a", "*1 :1"),
            ("HPERSIST h FIELDS 3 a b x", "*3 :1 :-1 :-2"),
            ("HPERSIST h FIELDS 1 a", "*1 :-1"),
            ("HPERSIST h FIELDS 0 a", "-ERR Number of fields must be a positive integer"),
            ("SADD s m", ":1"),
            ("HPERSIST s FOO 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
