//! Pub/Sub: the table of this family.

mod inspect;
mod publish;
mod subscribe;

pub use subscribe::ended as shard_channel_ended;

use crate::help;
use crate::keys_of::Keys;
use crate::spec::flag::{FAST, NO_REST, NO_SCRIPT, NONE, PUBSUB, and};
use crate::spec::{Flags, Spec};

const SUBSCRIBER_FLAGS: Flags = and(and(PUBSUB, NO_SCRIPT), NO_REST);
const PUBLISHER_FLAGS: Flags = and(PUBSUB, FAST);

pub(crate) const TABLE: &[Spec] = &[
    Spec::conn("subscribe", -2, SUBSCRIBER_FLAGS, subscribe::subscribe).doc(
        "channel [channel ...]",
        "Subscribes to channels.",
        "2.0.0",
    ),
    Spec::conn("psubscribe", -2, SUBSCRIBER_FLAGS, subscribe::psubscribe).doc(
        "pattern [pattern ...]",
        "Subscribes to the channels that match one or more glob patterns.",
        "2.0.0",
    ),
    Spec::conn("ssubscribe", -2, SUBSCRIBER_FLAGS, subscribe::ssubscribe).doc(
        "shardchannel [shardchannel ...]",
        "Subscribes to shard channels.",
        "7.0.0",
    ),
    Spec::conn("unsubscribe", -1, SUBSCRIBER_FLAGS, subscribe::unsubscribe).doc(
        "[channel [channel ...]]",
        "Unsubscribes from the given channels, or from all of them.",
        "2.0.0",
    ),
    Spec::conn("punsubscribe", -1, SUBSCRIBER_FLAGS, subscribe::punsubscribe).doc(
        "[pattern [pattern ...]]",
        "Unsubscribes from the given patterns, or from all of them.",
        "2.0.0",
    ),
    Spec::conn("sunsubscribe", -1, SUBSCRIBER_FLAGS, subscribe::sunsubscribe).doc(
        "[shardchannel [shardchannel ...]]",
        "Unsubscribes from the given shard channels, or from all of them.",
        "7.0.0",
    ),
    Spec::data("publish", 3, PUBLISHER_FLAGS, Keys::None, publish::publish).doc(
        "channel message",
        "Publishes a message to a channel and returns how many subscribers received it.",
        "2.0.0",
    ),
    Spec::data("spublish", 3, PUBLISHER_FLAGS, Keys::None, publish::spublish).doc(
        "shardchannel message",
        "Publishes a message to a shard channel and returns how many subscribers received it.",
        "7.0.0",
    ),
    Spec::within("pubsub", SUBCOMMANDS).doc("", "A container for Pub/Sub commands.", "2.8.0"),
];

const SUBCOMMANDS: &[Spec] = &[
    Spec::conn("pubsub|channels", -2, PUBSUB, inspect::channels).doc(
        "[pattern]",
        "Returns the active channels: those with at least one subscriber.",
        "2.8.0",
    ),
    Spec::conn("pubsub|numsub", -2, PUBSUB, inspect::numsub).doc(
        "[channel [channel ...]]",
        "Returns the number of subscribers of channels, without pattern subscriptions.",
        "2.8.0",
    ),
    Spec::conn("pubsub|numpat", 2, PUBSUB, inspect::numpat).doc(
        "",
        "Returns the number of distinct patterns that are subscribed to.",
        "2.8.0",
    ),
    Spec::conn("pubsub|shardchannels", -2, PUBSUB, inspect::shardchannels).doc(
        "[pattern]",
        "Returns the active shard channels: those with at least one subscriber.",
        "7.0.0",
    ),
    Spec::conn("pubsub|shardnumsub", -2, PUBSUB, inspect::shardnumsub).doc(
        "[shardchannel [shardchannel ...]]",
        "Returns the number of subscribers of shard channels.",
        "7.0.0",
    ),
    Spec::conn("pubsub|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of PUBSUB.",
        "6.2.0",
    ),
];
