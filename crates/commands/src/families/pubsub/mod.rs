//! Messages: the table of this family.

mod inspect;
mod publish;
mod subscribe;

use crate::help;
use crate::keys_of::Keys;
use crate::spec::flag::{FAST, NO_REST, NO_SCRIPT, NONE, PUBSUB, and};
use crate::spec::{Flags, Spec};

const LISTENS: Flags = and(and(PUBSUB, NO_SCRIPT), NO_REST);
const SENDS: Flags = and(PUBSUB, FAST);

pub(crate) const TABLE: &[Spec] = &[
    Spec::conn("SUBSCRIBE", "subscribe", -2, LISTENS, subscribe::subscribe).doc(
        "channel [channel ...]",
        "Listens to channels.",
        "2.0.0",
    ),
    Spec::conn("PSUBSCRIBE", "psubscribe", -2, LISTENS, subscribe::psubscribe).doc(
        "pattern [pattern ...]",
        "Listens to all channels whose names fit a pattern.",
        "2.0.0",
    ),
    Spec::conn("SSUBSCRIBE", "ssubscribe", -2, LISTENS, subscribe::ssubscribe).doc(
        "shardchannel [shardchannel ...]",
        "Listens to shard channels.",
        "7.0.0",
    ),
    Spec::conn("UNSUBSCRIBE", "unsubscribe", -1, LISTENS, subscribe::unsubscribe).doc(
        "[channel [channel ...]]",
        "Stops listening to channels, or to all of them.",
        "2.0.0",
    ),
    Spec::conn("PUNSUBSCRIBE", "punsubscribe", -1, LISTENS, subscribe::punsubscribe).doc(
        "[pattern [pattern ...]]",
        "Stops listening to patterns, or to all of them.",
        "2.0.0",
    ),
    Spec::conn("SUNSUBSCRIBE", "sunsubscribe", -1, LISTENS, subscribe::sunsubscribe).doc(
        "[shardchannel [shardchannel ...]]",
        "Stops listening to shard channels, or to all of them.",
        "7.0.0",
    ),
    Spec::data("PUBLISH", "publish", 3, SENDS, Keys::None, publish::publish).doc(
        "channel message",
        "Sends a message to all who listen, and gives their number.",
        "2.0.0",
    ),
    Spec::data("SPUBLISH", "spublish", 3, SENDS, Keys::None, publish::spublish).doc(
        "shardchannel message",
        "Sends a message to all who listen to a shard channel, and gives their number.",
        "7.0.0",
    ),
    Spec::within("PUBSUB", "pubsub", SUBCOMMANDS).doc("", "Looks at channels.", "2.8.0"),
];

const SUBCOMMANDS: &[Spec] = &[
    Spec::conn("CHANNELS", "pubsub|channels", -2, PUBSUB, inspect::channels).doc(
        "[pattern]",
        "Gives the channels that somebody listens to.",
        "2.8.0",
    ),
    Spec::conn("NUMSUB", "pubsub|numsub", -2, PUBSUB, inspect::numsub).doc(
        "[channel [channel ...]]",
        "Gives how many listen to channels, patterns aside.",
        "2.8.0",
    ),
    Spec::conn("NUMPAT", "pubsub|numpat", 2, PUBSUB, inspect::numpat).doc(
        "",
        "Gives how many patterns somebody listens to.",
        "2.8.0",
    ),
    Spec::conn("SHARDCHANNELS", "pubsub|shardchannels", -2, PUBSUB, inspect::shard_channels).doc(
        "[pattern]",
        "Gives the shard channels that somebody listens to.",
        "7.0.0",
    ),
    Spec::conn("SHARDNUMSUB", "pubsub|shardnumsub", -2, PUBSUB, inspect::shard_numsub).doc(
        "[shardchannel [shardchannel ...]]",
        "Gives how many listen to shard channels.",
        "7.0.0",
    ),
    Spec::conn("HELP", "pubsub|help", 2, NONE, help::conn).doc("", "Prints this help.", "6.2.0"),
];
