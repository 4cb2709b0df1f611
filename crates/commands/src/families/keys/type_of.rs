//! `TYPE key`

use keystead_model::value::Kind;

use crate::ctx::Dialect;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn type_(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let kind = ctx.keys.kind(args.at(1), ctx.now)?;
    Ok(Reply::status(kind.map_or("none", |kind| name(kind, ctx.dialect))))
}

/// The name of a type. RedisJSON is a module and has its own type name; so does Upstash.
pub(super) fn name(kind: Kind, dialect: Dialect) -> &'static str {
    match (kind, dialect) {
        (Kind::Json, Dialect::Upstash) => "json",
        _ => kind.redis_name(),
    }
}

#[cfg(test)]
mod tests {
    use keystead_model::Bytes;
    use keystead_model::keyspace::Expire;

    use crate::testing::Desk;

    #[test]
    fn every_kind_has_its_name() {
        let mut desk = Desk::new();
        desk.run("HSET h f v");
        desk.run("SADD s m");
        desk.keys.set_str(b"t", Bytes::from(b"v"), Expire::Keep, desk.now).unwrap();
        desk.keys.set_json(b"j", Bytes::from(b"{}"), Expire::Keep, desk.now).unwrap();
        desk.keys.set_state(b"c", "1", Expire::Keep, desk.now).unwrap();
        desk.keys.list_mut(b"l", desk.now).unwrap().push_back(&Bytes::from(b"v"));
        desk.keys.zset_mut(b"z", desk.now).unwrap().insert(&Bytes::from(b"m"), 1.0);
        desk.expect(&[
            ("TYPE x", "+none"),
            ("TYPE t", "+string"),
            ("TYPE h", "+hash"),
            ("TYPE l", "+list"),
            ("TYPE s", "+set"),
            ("TYPE z", "+zset"),
            ("TYPE j", "+ReJSON-RL"),
            ("TYPE c", "+state"),
        ]);
    }
}
