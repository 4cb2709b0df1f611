//! Messages of channels and of MONITOR, as a client receives them. Touches nothing.

use std::task::Context;

use keystead_commands::hub::{Hub, Message, MessageKind};
use keystead_commands::session::Session;
use keystead_commands::{Reply, shard_channel_ended};
use keystead_model::Bytes;
use keystead_model::value::Str;

/// Takes what arrived for the client. `None` when more arrived than is kept: it reads too slowly.
pub(crate) fn take(session: &mut Session, hub: &Hub, cx: &Context<'_>) -> Option<Vec<Reply>> {
    let mut replies = Vec::new();
    if session.is_subscribed() {
        for message in session.mailbox.take(cx.waker())? {
            replies.extend(message_reply(session, hub, message));
        }
    }
    if let Some(monitor) = &session.monitor {
        replies.extend(monitor.take(cx.waker())?.iter().map(monitor_reply));
    }
    Some(replies)
}

/// A message, as a subscriber receives it.
fn message_reply(session: &mut Session, hub: &Hub, message: Message) -> Option<Reply> {
    let Message { channel, pattern, content, kind } = message;
    let word: &[u8] = match (kind, &pattern) {
        (MessageKind::Ended, _) => return shard_channel_ended(session, hub, channel),
        (MessageKind::Sharded, _) => b"smessage",
        (MessageKind::Message, None) => b"message",
        (MessageKind::Message, Some(_)) => b"pmessage",
    };
    let parts = pattern.into_iter().chain([channel, content]).map(shared);
    Some(Reply::Push(std::iter::once(Reply::bulk(word)).chain(parts).collect()))
}

/// A command, as MONITOR shows it.
fn monitor_reply(message: &Message) -> Reply {
    Reply::Status(String::from_utf8_lossy(&message.content).into_owned().into())
}

/// A part of a message. It counted already when the message was published.
fn shared(bytes: Bytes) -> Reply {
    Reply::Bulk(Str::sharing(bytes))
}
