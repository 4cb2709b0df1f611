//! The context of a data command, and what it may produce besides its reply. It touches the keyspace.
//!
//! Time and random numbers come only from here, so a command can be run again with the same result.

use keystead_core::{Millis, ShardId};
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;

use crate::args::Command;
use crate::errors::{self, Fail};
use crate::hub::Hub;
use crate::meter::ReplyBound;
use crate::random::Random;
use crate::spec::Spec;

/// The context of a data command.
pub struct Ctx<'a> {
    /// The shard's keys.
    pub keys: &'a mut Keyspace,
    /// The current time.
    pub now: Millis,
    /// The random number generator.
    pub random: &'a mut Random,
    /// The state that all connections of the server share.
    pub hub: &'a Hub,
    /// Set by a command that found nothing and wants to block. Its reply is then the one that the client gets at the
    /// timeout. Where blocking is not possible (MULTI, scripts, REST) that reply is returned at once.
    pub wait: Option<Wait>,
    /// Whether it may block at all.
    pub may_wait: bool,
    /// Whether it has blocked and runs again because a key changed. A key of another type is then treated as absent, and
    /// the command continues to block.
    pub woken: bool,
    /// Which service's replies to return where Redis and Upstash differ.
    pub dialect: Dialect,
    /// The shard on which it runs. A script may not touch keys of other shards.
    pub shard: ShardId,
    /// Messages that are sent once the effects of the command are durable.
    pub publish: Vec<Publication>,
    /// The bound of its reply.
    pub reply: ReplyBound,
    /// What the client may do. It also holds for the commands of a script.
    pub rights: Rights,
    /// Whether the memory bound was reached when the request began: then commands that could add memory fail. A transaction or a
    /// script that has begun to write is not stopped half way.
    pub out_of_memory: bool,
}

/// What a client may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    #[default]
    All,
    /// Read keys, but neither write nor iterate over all keys.
    ReadOnly,
}

impl Rights {
    /// The error for a command that it may not run.
    #[must_use]
    #[inline]
    pub fn denial(self, spec: &Spec) -> Option<Fail> {
        (self == Rights::ReadOnly && !spec.read_only()).then(|| errors::no_permission(spec.full_name))
    }
}

/// Which service's replies to return where Redis and Upstash differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Redis: the RESP listener.
    #[default]
    Redis,
    /// Upstash: the REST API.
    Upstash,
}

/// A blocked command.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The command runs again when one of these changes.
    pub keys: Vec<Bytes>,
    /// The timeout; `None`: none.
    pub timeout_ms: Option<u64>,
    /// The command to run then, if it is not the same one (`XREAD` with `$` continues after the last entry it found).
    pub again: Option<Command>,
    /// Whether it also runs again when a key is deleted or changes its type: `XREADGROUP` then returns an error.
    pub on_delete: bool,
}

/// A message for a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The channel.
    pub channel: Bytes,
    /// The message.
    pub message: Bytes,
    /// Whether only subscribers of the shard channel (SSUBSCRIBE) receive it.
    pub sharded: bool,
}

impl<'a> Ctx<'a> {
    /// The context of the next command.
    pub fn new(keys: &'a mut Keyspace, now: Millis, random: &'a mut Random, hub: &'a Hub) -> Self {
        Ctx {
            out_of_memory: keys.is_full(),
            keys,
            now,
            random,
            hub,
            wait: None,
            may_wait: true,
            woken: false,
            dialect: Dialect::Redis,
            shard: ShardId::default(),
            publish: Vec::new(),
            reply: ReplyBound::default(),
            rights: Rights::All,
        }
    }

    /// Whether to reply as Upstash does where it differs from Redis.
    #[must_use]
    pub fn is_upstash(&self) -> bool {
        self.dialect == Dialect::Upstash
    }

    /// Marks the command as blocked until one of `keys` changes.
    pub fn wait_for<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>, timeout_ms: Option<u64>) {
        let keys = keys.into_iter().map(Bytes::from).collect();
        self.wait = Some(Wait { keys, timeout_ms, again: None, on_delete: false });
    }
}
