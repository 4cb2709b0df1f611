//! Messages of channels and of MONITOR, as a client receives them. Touches nothing.

use std::task::Context;

use keystead_commands::Reply;
use keystead_commands::hub::Message;
use keystead_commands::session::Session;
use keystead_model::Bytes;
use keystead_model::value::Str;

/// Takes what arrived for the client. `None` when more arrived than is kept: it reads too slowly.
pub(crate) fn take(session: &Session, cx: &Context<'_>) -> Option<Vec<Reply>> {
    let boxes = [session.is_subscribed().then_some(&session.mailbox), session.monitor.as_ref()];
    let mut replies = Vec::new();
    for (index, mailbox) in boxes.into_iter().enumerate() {
        let Some(mailbox) = mailbox else { continue };
        let messages = mailbox.take(cx.waker())?;
        let form = if index == 0 { message_reply } else { monitor_reply };
        replies.extend(messages.iter().map(form));
    }
    Some(replies)
}

/// A message, as a subscriber receives it.
fn message_reply(message: &Message) -> Reply {
    let Message { channel, pattern, content, sharded } = message.clone();
    Reply::Push(match pattern {
        Some(pattern) => {
            vec![Reply::bulk(b"pmessage"), shared(pattern), shared(channel), shared(content)]
        }
        None => {
            let kind: &[u8] = if sharded { b"smessage" } else { b"message" };
            vec![Reply::bulk(kind), shared(channel), shared(content)]
        }
    })
}

/// A command, as MONITOR shows it.
fn monitor_reply(message: &Message) -> Reply {
    Reply::Status(String::from_utf8_lossy(&message.content).into_owned().into())
}

/// A part of a message. It counted already when the message was published.
fn shared(bytes: Bytes) -> Reply {
    Reply::Bulk(Str::sharing(bytes))
}
