//! `MGET key [key ...]`

use keystead_model::keyspace::Miss;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn mget(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut values = Vec::with_capacity(args.len() - 1);
    for key in args.from(1) {
        values.push(match ctx.keys.str(key, ctx.now) {
            Ok(Some(value)) => Reply::string(value),
            Ok(None) | Err(Miss::WrongType(_)) => Reply::Nil,
            Err(miss) => return Err(miss.into()),
        });
    }
    Ok(Reply::Array(values))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn other_types_are_nil() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[("SET a 1", "+OK"), ("MGET a b s a", "*4 $1 1 $-1 $-1 $1 1")]);
    }
}
