//! What a command on keys is given, and what it may leave beside its answer. It touches the keyspace.
//!
//! Time and chance come from here and from nowhere else, so a command can be run again.

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;

use crate::args::Command;
use crate::errors::{self, Fail};
use crate::hub::Hub;
use crate::meter::ReplyBound;
use crate::random::Random;
use crate::spec::Spec;

/// The surroundings of a command on keys.
pub struct Ctx<'a> {
    /// The shard's keys.
    pub keys: &'a mut Keyspace,
    /// The present moment.
    pub now: Millis,
    /// Chance.
    pub random: &'a mut Random,
    /// What all connections of the server share.
    pub hub: &'a Hub,
    /// Set by a command that found nothing and would wait for it. Its answer is then what the client is told when the
    /// time is up. Where nobody may wait (MULTI, scripts, REST) that answer is given at once.
    pub wait: Option<Wait>,
    /// Whether it may wait at all.
    pub may_wait: bool,
    /// Whether it has waited and runs again because a key changed. A key of another kind is then as good as none: what
    /// woke the command was not meant for it, and it waits on.
    pub woken: bool,
    /// Which service's answers are wanted where Redis and Upstash differ.
    pub dialect: Dialect,
    /// The shard that this is. A script may not touch keys of others.
    pub shard: usize,
    /// Messages that leave when everything that the command tells is durable.
    pub publish: Vec<Publication>,
    /// How large its reply may be.
    pub reply: ReplyBound,
    /// What whoever sent it may do. It holds for the commands of a script, too.
    pub rights: Rights,
}

/// What a client may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    #[default]
    All,
    /// Read keys, but neither change anything nor walk through all keys.
    ReadOnly,
}

impl Rights {
    /// The refusal of a command that it may not run.
    #[must_use]
    #[inline]
    pub fn refusal(self, spec: &Spec) -> Option<Fail> {
        (self == Rights::ReadOnly && !spec.read_only()).then(|| errors::no_permission(spec.full_name))
    }
}

/// Whose answers a door gives where Redis and Upstash differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Redis: the RESP door.
    #[default]
    Redis,
    /// Upstash: the REST door.
    Upstash,
}

/// Waiting for keys.
#[derive(Clone, Debug)]
pub struct Wait {
    /// A change of any of these lets the command run again.
    pub keys: Vec<Bytes>,
    /// How long; `None`: for ever.
    pub timeout_ms: Option<u64>,
    /// What runs then, where it is not the command itself (`XREAD` with `$` waits behind the entry it found last).
    pub again: Option<Command>,
    /// Whether it also runs again when a key goes away or holds another type: `XREADGROUP` then answers with an error.
    pub gone: bool,
}

/// A message for a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The channel.
    pub channel: Bytes,
    /// The message.
    pub message: Bytes,
    /// Whether only subscribers of the shard channel (SSUBSCRIBE) get it.
    pub sharded: bool,
}

impl<'a> Ctx<'a> {
    /// The surroundings of the next command.
    pub fn new(keys: &'a mut Keyspace, now: Millis, random: &'a mut Random, hub: &'a Hub) -> Self {
        Ctx {
            keys,
            now,
            random,
            hub,
            wait: None,
            may_wait: true,
            woken: false,
            dialect: Dialect::Redis,
            shard: 0,
            publish: Vec::new(),
            reply: ReplyBound::default(),
            rights: Rights::All,
        }
    }

    /// Whether Upstash's answers are wanted where it differs from Redis.
    #[must_use]
    pub fn is_upstash(&self) -> bool {
        self.dialect == Dialect::Upstash
    }

    /// Says that the command found nothing and waits for a change of `keys`.
    pub fn wait_for<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>, timeout_ms: Option<u64>) {
        let keys = keys.into_iter().map(Bytes::from).collect();
        self.wait = Some(Wait { keys, timeout_ms, again: None, gone: false });
    }
}
