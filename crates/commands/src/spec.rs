//! A command's row in the table. It touches nothing.
//!
//! Dispatch, arity checks, key extraction, read-only tokens, `COMMAND` and docs/commands.md all derive from this row.

use std::ops::BitOr;

use keystead_core::Millis;

use crate::args::Args;
use crate::conn::Conn;
use crate::ctx::{Ctx, Dialect};
use crate::errors::{CommandResult, Fail};
use crate::hub::Hub;
use crate::keys_of::Keys;

/// One row of the table.
#[derive(Debug)]
pub struct Spec {
    /// The name in lower case. For a subcommand, only its own part: `create` of `xgroup|create`.
    pub name: &'static str,
    /// The name as Redis shows it in errors and in `COMMAND`: `xgroup|create`.
    pub full_name: &'static str,
    /// The number of arguments, including the name (and the container's name). Negative: the minimum.
    pub arity: i32,
    /// What the command may do.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: Keys,
    /// The entry point.
    pub run: Run,
    /// How a command without keys runs on a database of several shards. One with keys runs where they are.
    pub spread: Spread,
    /// The arguments, as Redis documents them.
    pub syntax: &'static str,
    /// What the command does, in one or two sentences.
    pub summary: &'static str,
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// Whether Upstash accepts it without any argument.
    pub bare: bool,
}

/// The entry point of a command, by what it may touch.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Reads or writes keys.
    Data(fn(&mut Ctx<'_>, Args<'_>) -> CommandResult),
    /// Concerns the connection or the server, and touches no key.
    Conn(fn(&mut Conn<'_>, Args<'_>) -> CommandResult),
    /// Concerns state that all connections share and that data commands use: scripts and functions. In a transaction it runs
    /// in its place in the queue.
    Shared(fn(&Hub, Millis, Args<'_>) -> CommandResult),
    /// Controls the transaction of a connection. The dispatcher implements it.
    Control(Control),
    /// A container of subcommands.
    Within(&'static [Spec]),
}

/// The commands that control a connection's transaction or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Starts a transaction.
    Multi,
    /// Executes the transaction.
    Exec,
    /// Discards the transaction.
    Discard,
    /// Makes the next transaction depend on keys staying unmodified.
    Watch,
    /// Unwatches all keys.
    Unwatch,
    /// Resets the connection to its initial state.
    Reset,
    /// Closes the connection.
    Quit,
}

/// How a command without keys runs on several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// On the connection's own shard: the reply is the same on all shards.
    Local,
    /// On each shard; the integer replies are added.
    Sum,
    /// On each shard; the array replies are concatenated.
    Join,
    /// On each shard; the first reply is returned.
    Each,
    /// On one shard after the other: the cursor contains the shard.
    Cursor,
    /// On the shards in turn, starting at a random one, until one returns a value.
    Some,
    /// On the shards of its keys, each with its own: of a command with [`flag::SPLIT`].
    Keys,
}

/// What a command may do, as Redis names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The flags, for `use crate::spec::flag::*` in the tables.
pub mod flag {
    use super::Flags;

    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// Reads keys.
    pub const READ: Flags = Flags(1);
    /// May write keys.
    pub const WRITE: Flags = Flags(1 << 1);
    /// Takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 2);
    /// May block until keys change.
    pub const BLOCKING: Flags = Flags(1 << 3);
    /// For administrators.
    pub const ADMIN: Flags = Flags(1 << 4);
    /// Allowed before AUTH.
    pub const NO_AUTH: Flags = Flags(1 << 5);
    /// Not allowed in scripts.
    pub const NO_SCRIPT: Flags = Flags(1 << 6);
    /// Not allowed in MULTI.
    pub const NO_MULTI: Flags = Flags(1 << 7);
    /// Concerns Pub/Sub.
    pub const PUBSUB: Flags = Flags(1 << 8);
    /// May use more memory.
    pub const DENY_OOM: Flags = Flags(1 << 9);
    /// Reads keys and may write something that no reply shows: PFCOUNT caches its count.
    pub const MAY_WRITE: Flags = Flags(1 << 10);
    /// Needs a connection with state, which the REST API does not have.
    pub const NO_REST: Flags = Flags(1 << 11);
    /// May read all keys of the database.
    pub const ALL_KEYS: Flags = Flags(1 << 12);

    /// Reads the entire value of each key, once per occurrence among the arguments.
    pub const WHOLE: Flags = Flags(1 << 13);
    /// All its arguments are keys, which may be on several shards, and in several slots for a router: each part is one step, and the
    /// whole is not. The reply is a sum, or an array with an element for each key.
    pub const SPLIT: Flags = Flags(1 << 14);

    /// The union of two flag sets, usable in constants.
    #[must_use]
    pub const fn and(a: Flags, b: Flags) -> Flags {
        Flags(a.0 | b.0)
    }

    /// A fast read.
    pub const READ_FAST: Flags = and(READ, FAST);
    /// A fast write that uses no more memory.
    pub const WRITE_FAST: Flags = and(WRITE, FAST);
    /// A write that may use more memory.
    pub const WRITE_OOM: Flags = and(WRITE, DENY_OOM);
    /// A fast write that may use more memory.
    pub const WRITE_OOM_FAST: Flags = and(WRITE_OOM, FAST);
}

impl Spec {
    /// A command on keys. `full_name` is in lower case.
    #[must_use]
    pub const fn data(
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        keys: Keys,
        run: fn(&mut Ctx<'_>, Args<'_>) -> CommandResult,
    ) -> Spec {
        Spec::new(full_name, arity, flags, keys, Run::Data(run))
    }

    /// A command that concerns the connection or the server.
    #[must_use]
    pub const fn conn(
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        run: fn(&mut Conn<'_>, Args<'_>) -> CommandResult,
    ) -> Spec {
        Spec::new(full_name, arity, flags, Keys::None, Run::Conn(run))
    }

    /// A command that concerns state shared by all connections.
    #[must_use]
    pub const fn shared(
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        run: fn(&Hub, Millis, Args<'_>) -> CommandResult,
    ) -> Spec {
        Spec::new(full_name, arity, flags, Keys::None, Run::Shared(run))
    }

    /// A command that controls the transaction.
    #[must_use]
    pub const fn control(full_name: &'static str, arity: i32, flags: Flags, control: Control) -> Spec {
        let keys = if matches!(control, Control::Watch) { Keys::From(1) } else { Keys::None };
        Spec::new(full_name, arity, flags, keys, Run::Control(control))
    }

    /// A container of subcommands.
    #[must_use]
    pub const fn within(full_name: &'static str, subcommands: &'static [Spec]) -> Spec {
        Spec::new(full_name, -2, flag::NONE, Keys::None, Run::Within(subcommands))
    }

    const fn new(full_name: &'static str, arity: i32, flags: Flags, keys: Keys, run: Run) -> Spec {
        Spec {
            name: own_name(full_name),
            full_name,
            arity,
            flags,
            keys,
            run,
            spread: Spread::Local,
            syntax: "",
            summary: "",
            since: "1.0.0",
            bare: false,
        }
    }

    /// Adds the arguments, the summary, and the version of Redis that introduced the command.
    #[must_use]
    pub const fn doc(mut self, syntax: &'static str, summary: &'static str, since: &'static str) -> Spec {
        (self.syntax, self.summary, self.since) = (syntax, summary, since);
        self
    }

    /// Sets how the command runs on several shards.
    #[must_use]
    pub const fn spread(mut self, spread: Spread) -> Spec {
        self.spread = spread;
        self
    }

    /// A container that runs its first subcommand when called without one (`COMMAND`).
    #[must_use]
    pub const fn alone(mut self) -> Spec {
        self.arity = -1;
        self
    }

    /// A command that Upstash also accepts without any argument (`UNLINK` of no keys).
    #[must_use]
    pub const fn bare(mut self) -> Spec {
        self.bare = true;
        self
    }

    /// The subcommands, if it is a container.
    #[must_use]
    pub const fn subcommands(&self) -> &'static [Spec] {
        match self.run {
            Run::Within(rows) => rows,
            _ => &[],
        }
    }

    /// Whether `count` arguments satisfy the arity.
    #[must_use]
    pub const fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 {
            count == self.arity.unsigned_abs() as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }

    /// Whether `count` arguments satisfy the arity in this dialect.
    #[must_use]
    pub fn accepts_in(&self, dialect: Dialect, count: usize) -> bool {
        self.accepts(count) || self.bare && count == 1 && dialect == Dialect::Upstash
    }

    /// Whether the REST API accepts it: it neither blocks nor needs a connection with state. Reading streams may block but
    /// need not, so it is accepted and replies at once.
    #[must_use]
    pub const fn over_rest(&self) -> bool {
        let blocks = self.flags.has(flag::BLOCKING)
            && matches!(self.run, Run::Data(_))
            && !matches!(self.keys, Keys::Streams);
        !blocks && !self.flags.has(flag::NO_REST) && !matches!(self.run, Run::Control(_))
    }

    /// Whether a read-only token may run it: it reads keys, but not all of them at once.
    #[must_use]
    pub const fn read_only(&self) -> bool {
        self.flags.has(flag::READ) && !self.flags.has(flag::ALL_KEYS) && !self.flags.has(flag::ADMIN)
    }

    /// Whether it may write keys.
    #[must_use]
    pub const fn writes(&self) -> bool {
        self.flags.has(flag::WRITE) || self.flags.has(flag::MAY_WRITE)
    }

    /// The name in capitals, as documentation shows it: `CREATE` of `xgroup|create`.
    #[must_use]
    pub fn upper_name(&self) -> String {
        self.name.to_ascii_uppercase()
    }

    /// The indices of the keys among the arguments.
    ///
    /// # Errors
    /// Redis's error when the keys cannot be determined from the arguments.
    pub fn keys(&self, args: Args<'_>) -> Result<Vec<usize>, Fail> {
        self.keys.find(args)
    }
}

/// The part of a full name behind the container's: `create` of `xgroup|create`.
const fn own_name(full_name: &'static str) -> &'static str {
    let (bytes, mut at) = (full_name.as_bytes(), 0);
    while at < bytes.len() {
        if bytes[at] == b'|' {
            return full_name.split_at(at + 1).1;
        }
        at += 1;
    }
    full_name
}
