//! `PUBLISH channel message`
//! `SPUBLISH shardchannel message`
//!
//! A message is sent once all earlier writes are durable; the returned number is of the current subscribers.

use keystead_model::Bytes;

use crate::args::Args;
use crate::ctx::{Ctx, Publication};
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn publish(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    send(ctx, args, false)
}

pub(super) fn spublish(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    send(ctx, args, true)
}

fn send(ctx: &mut Ctx<'_>, args: Args<'_>, sharded: bool) -> CommandResult {
    let receivers = ctx.hub.bus.receivers(args.at(1), sharded);
    if receivers > 0 {
        let (channel, message) = (Bytes::from(args.at(1)), Bytes::from(args.at(2)));
        ctx.publish.push(Publication { channel, message, sharded });
    }
    Ok(Reply::count(receivers))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use crate::testing::Desk;

    #[test]
    fn messages_reach_channels_and_patterns() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("PUBLISH a 1", ":0"),
            ("SUBSCRIBE a", "*3 $9 subscribe $1 a :1"),
            ("PSUBSCRIBE ?", "*3 $10 psubscribe $1 ? :2"),
            ("PUBLISH a 2", ":2"),
            ("PUBLISH b 3", ":1"),
            ("PUBLISH bb 4", ":0"),
            ("SPUBLISH a 5", ":0"),
            ("PUBLISH a", "-ERR wrong number of arguments for 'publish' command"),
        ]);
        let messages = desk.session.mailbox.take(Waker::noop()).unwrap();
        let got: Vec<_> = messages.iter().map(|m| (m.pattern.is_some(), m.content.to_vec())).collect();
        assert_eq!(got, [(false, b"2".to_vec()), (true, b"2".to_vec()), (true, b"3".to_vec())]);
    }
}
