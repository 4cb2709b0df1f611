//! `SETEX key seconds value`
//! `PSETEX key milliseconds value`

use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use super::expire::{self, Form};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn setex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, Form::Seconds, "setex")
}

pub(super) fn psetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, Form::Millis, "psetex")
}

fn set(ctx: &mut Ctx<'_>, args: Args<'_>, form: Form, command: &str) -> CommandResult {
    let at = expire::moment(form, args.at(2), command, ctx.now)?;
    ctx.keys.set_str(args.at(1), Bytes::from(args.at(3)), Expire::At(at), ctx.now)?;
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_string_expires_in_time() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SETEX k 1 v", "+OK"),
            ("PSETEX l 999 v", "+OK"),
            ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
            ("SETEX k x v", "-ERR value is not an integer or out of range"),
            ("PSETEX k -1 v", "-ERR invalid expire time in 'psetex' command"),
        ]);
        desk.now.0 += 999;
        desk.expect(&[("GET k", "$1 v"), ("GET l", "$-1")]);
        desk.now.0 += 1;
        desk.expect(&[("GET k", "$-1")]);
    }
}
