//! `SUBSCRIBE channel [channel ...]`, `UNSUBSCRIBE [channel [channel ...]]`
//! `PSUBSCRIBE pattern [pattern ...]`, `PUNSUBSCRIBE [pattern [pattern ...]]`
//! `SSUBSCRIBE shardchannel [shardchannel ...]`, `SUNSUBSCRIBE [shardchannel [shardchannel ...]]`

use keystead_core::key;
use keystead_model::Bytes;

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::hub::{Hub, Subscribed};
use crate::reply::Reply;
use crate::session::Session;

pub(super) fn subscribe(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    listen(conn, args, Subscribed::Channel, "subscribe")
}

pub(super) fn psubscribe(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    listen(conn, args, Subscribed::Pattern, "psubscribe")
}

pub(super) fn ssubscribe(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    listen(conn, args, Subscribed::Shard, "ssubscribe")
}

pub(super) fn unsubscribe(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    stop(conn, args, Subscribed::Channel, "unsubscribe")
}

pub(super) fn punsubscribe(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    stop(conn, args, Subscribed::Pattern, "punsubscribe")
}

pub(super) fn sunsubscribe(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    stop(conn, args, Subscribed::Shard, "sunsubscribe")
}

fn listen(conn: &mut Conn<'_>, args: Args<'_>, kind: Subscribed, word: &'static str) -> CommandResult {
    let mut replies = Vec::with_capacity(args.len() - 1);
    for name in args.from(1).map(Bytes::from) {
        if conn.session.names(kind).insert(name.clone()) {
            conn.hub.bus.subscribe(kind, &name, conn.session.client.id, &conn.session.mailbox);
        }
        replies.push(subscription_reply(conn.session, kind, word, Reply::shared(name)));
    }
    conn.session.show_subscriptions();
    if kind == Subscribed::Shard
        && let Some(cluster) = conn.hub.cluster.get()
        && args.from(1).any(|name| !cluster.owns(key::slot(name)))
    {
        // The slot has moved since it was checked, and what ends its subscriptions may not have seen this one.
        conn.hub.end_foreign_shard_channels();
    }
    Ok(Reply::Several(replies))
}

/// Notes that the subscription to a shard channel has ended because its slot is another node's, and returns what the client gets.
pub fn ended(session: &mut Session, hub: &Hub, channel: Bytes) -> Option<Reply> {
    if !session.shard_channels.remove(&channel) {
        // The client has unsubscribed meanwhile.
        return None;
    }
    // It may have subscribed again meanwhile.
    hub.bus.unsubscribe(Subscribed::Shard, &channel, session.client.id);
    session.show_subscriptions();
    Some(subscription_reply(session, Subscribed::Shard, "sunsubscribe", Reply::shared(channel)))
}

fn stop(conn: &mut Conn<'_>, args: Args<'_>, kind: Subscribed, word: &'static str) -> CommandResult {
    let names: Vec<Bytes> = match args.len() {
        1 => conn.session.names(kind).iter().cloned().collect(),
        _ => args.from(1).map(Bytes::from).collect(),
    };
    let mut replies = Vec::with_capacity(names.len().max(1));
    for name in names {
        if conn.session.names(kind).remove(&name) {
            conn.hub.bus.unsubscribe(kind, &name, conn.session.client.id);
        }
        replies.push(subscription_reply(conn.session, kind, word, Reply::shared(name)));
    }
    if replies.is_empty() {
        replies.push(subscription_reply(conn.session, kind, word, Reply::Nil));
    }
    conn.session.show_subscriptions();
    Ok(Reply::Several(replies))
}

/// The reply for one name: the kind, the name, and the current number of subscriptions.
fn subscription_reply(session: &Session, kind: Subscribed, word: &'static str, name: Reply) -> Reply {
    let count = match kind {
        Subscribed::Shard => session.shard_channels.len(),
        _ => session.subscriptions(),
    };
    Reply::Push(vec![Reply::bulk(word.as_bytes()), name, Reply::count(count)])
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::hub::{Kind, MessageKind, Subscribed};
    use crate::testing::Desk;

    #[test]
    fn each_name_gets_a_reply_with_the_number_of_names() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("UNSUBSCRIBE", "*3 $11 unsubscribe $-1 :0"),
            ("PUNSUBSCRIBE", "*3 $12 punsubscribe $-1 :0"),
            ("SUNSUBSCRIBE", "*3 $12 sunsubscribe $-1 :0"),
            ("SUBSCRIBE a b a", "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *3 $9 subscribe $1 a :2"),
            ("PSUBSCRIBE p*", "*3 $10 psubscribe $2 p* :3"),
            ("SSUBSCRIBE s", "*3 $10 ssubscribe $1 s :1"),
        ]);
        assert_eq!(desk.session.client.shown().counts, [2, 1, 1, 0]);
        assert_eq!(desk.session.client.shown().kind, Kind::Pubsub);
        desk.expect(&[
            ("UNSUBSCRIBE x", "*3 $11 unsubscribe $1 x :3"),
            ("UNSUBSCRIBE", "*3 $11 unsubscribe $1 a :2 *3 $11 unsubscribe $1 b :1"),
            ("PUNSUBSCRIBE p*", "*3 $12 punsubscribe $2 p* :0"),
            ("SUNSUBSCRIBE s", "*3 $12 sunsubscribe $1 s :0"),
        ]);
        assert_eq!(desk.session.client.shown().kind, Kind::Normal);
        assert_eq!(desk.hub.bus.count(Subscribed::Channel), 0);
    }

    #[test]
    fn subscriptions_of_slots_that_are_not_owned_end_and_the_client_is_sent_that() {
        let mut desk = Desk::new();
        desk.run("SSUBSCRIBE a");
        desk.run("SSUBSCRIBE b");
        desk.hub.bus.end_shard_channels(|channel| channel != b"a", 0);
        assert_eq!((desk.hub.bus.receivers(b"a", true), desk.hub.bus.receivers(b"b", true)), (0, 1));
        let messages = desk.session.mailbox.take(std::task::Waker::noop()).unwrap();
        let ended: Vec<_> = messages.iter().map(|message| (&*message.channel, message.kind)).collect();
        assert_eq!(ended, [(&b"a"[..], MessageKind::Ended)]);
        let reply = super::ended(&mut desk.session, &desk.hub, messages[0].channel.clone());
        let Some(Reply::Push(parts)) = reply else { panic!("the client is sent nothing") };
        assert_eq!(parts.len(), 3);
        assert_eq!(desk.session.client.shown().counts, [0, 0, 1, 0]);
        assert!(super::ended(&mut desk.session, &desk.hub, messages[0].channel.clone()).is_none());
    }

    #[test]
    fn a_closed_connection_has_no_subscriptions() {
        let mut desk = Desk::new();
        desk.run("SUBSCRIBE a");
        desk.run("PSUBSCRIBE b");
        desk.session.leave(&desk.hub);
        desk.expect(&[("PUBLISH a x", ":0"), ("PUBLISH b x", ":0"), ("PUBSUB NUMPAT", ":0")]);
    }
}
