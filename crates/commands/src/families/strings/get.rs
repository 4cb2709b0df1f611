//! `GET key`

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn get(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(ctx.keys.str(args.at(1), ctx.now)?.map_or(Reply::Nil, Reply::string))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn only_strings_are_returned() {
        Desk::new().expect(&[
            ("GET k", "$-1"),
            ("SET k v", "+OK"),
            ("GET k", "$1 v"),
            ("SET k ''", "+OK"),
            ("GET k", "$0"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
        ]);
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[("GET s", "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
    }
}
