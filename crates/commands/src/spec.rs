//! What a command is: its row in the table. It touches nothing.
//!
//! The row is the truth for dispatch, arity, key extraction, read-only tokens, `COMMAND` and docs/commands.md.

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
    /// Its name, in capitals; of a subcommand only its own (`CREATE` of `XGROUP CREATE`).
    pub name: &'static str,
    /// The name as Redis shows it in errors and in `COMMAND`: `xgroup|create`.
    pub full_name: &'static str,
    /// How many arguments, the name included (the container's name too); negative: at least so many.
    pub arity: i32,
    /// What it may do.
    pub flags: Flags,
    /// Where its keys stand.
    pub keys: Keys,
    /// What it does.
    pub run: Run,
    /// How it runs on a database of several shards when it has no key.
    pub spread: Spread,
    /// Its arguments, as Redis documents them.
    pub syntax: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The version of Redis that brought it.
    pub since: &'static str,
    /// Whether Upstash takes it without any argument.
    pub bare: bool,
}

/// What a command does, by what it may touch.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// It looks at or changes keys.
    Data(fn(&mut Ctx<'_>, Args<'_>) -> CommandResult),
    /// It is about the connection or the server, and touches no key.
    Conn(fn(&mut Conn<'_>, Args<'_>) -> CommandResult),
    /// It is about what all connections share and the commands on keys need: scripts and functions. In a transaction it runs
    /// where it stands.
    Shared(fn(&Hub, Millis, Args<'_>) -> CommandResult),
    /// It steers the transaction of a connection: the dispatcher knows it.
    Control(Control),
    /// It is a container of subcommands.
    Within(&'static [Spec]),
}

/// The commands that steer a connection's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Begins a transaction.
    Multi,
    /// Runs it.
    Exec,
    /// Forgets it.
    Discard,
    /// Lets it run only when keys stay as they are.
    Watch,
    /// Forgets the watched keys.
    Unwatch,
    /// Begins the connection anew.
    Reset,
    /// Ends the connection.
    Quit,
}

/// How a command without keys runs on several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Where the connection lives: its answer is the same everywhere.
    Local,
    /// On each shard; the integers are added.
    Sum,
    /// On each shard; the lists are joined.
    Join,
    /// On each shard; the first answer stands for all.
    Each,
    /// On one shard after the other: the cursor names the shard.
    Cursor,
    /// On shards in turn, from a random one, until one has an answer.
    Some,
}

/// What a command may do, as Redis names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Whether all of `other` are set.
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

/// Names of flags, for `use crate::spec::flag::*` in the tables.
pub mod flag {
    use super::Flags;

    /// Nothing special.
    pub const NONE: Flags = Flags(0);
    /// Looks at keys.
    pub const READ: Flags = Flags(1);
    /// May change keys.
    pub const WRITE: Flags = Flags(1 << 1);
    /// Takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 2);
    /// May wait for keys.
    pub const BLOCKING: Flags = Flags(1 << 3);
    /// For people who run the server.
    pub const ADMIN: Flags = Flags(1 << 4);
    /// Allowed before AUTH.
    pub const NO_AUTH: Flags = Flags(1 << 5);
    /// Not allowed in scripts.
    pub const NO_SCRIPT: Flags = Flags(1 << 6);
    /// Not allowed in MULTI.
    pub const NO_MULTI: Flags = Flags(1 << 7);
    /// About messages.
    pub const PUBSUB: Flags = Flags(1 << 8);
    /// May take more memory.
    pub const DENY_OOM: Flags = Flags(1 << 9);
    /// Looks at keys and may note something there that no answer shows: PFCOUNT keeps its count.
    pub const MAY_WRITE: Flags = Flags(1 << 10);
    /// Is about a connection that lasts, which the REST door has not.
    pub const NO_REST: Flags = Flags(1 << 11);
    /// May look at all keys at once.
    pub const ALL_KEYS: Flags = Flags(1 << 12);

    /// Goes through the whole of each key that it names, as often as it names it.
    pub const WHOLE: Flags = Flags(1 << 13);

    /// Both, in a constant.
    #[must_use]
    pub const fn and(a: Flags, b: Flags) -> Flags {
        Flags(a.0 | b.0)
    }

    /// A fast read.
    pub const READ_FAST: Flags = and(READ, FAST);
    /// A fast write that only takes away.
    pub const WRITE_FAST: Flags = and(WRITE, FAST);
    /// A write that may take more memory.
    pub const WRITE_OOM: Flags = and(WRITE, DENY_OOM);
    /// A fast write that may take more memory.
    pub const WRITE_OOM_FAST: Flags = and(WRITE_OOM, FAST);
}

impl Spec {
    /// A command on keys. `full_name` is the lower-case name.
    #[must_use]
    pub const fn data(
        name: &'static str,
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        keys: Keys,
        run: fn(&mut Ctx<'_>, Args<'_>) -> CommandResult,
    ) -> Spec {
        Spec::new(name, full_name, arity, flags, keys, Run::Data(run))
    }

    /// A command about the connection or the server.
    #[must_use]
    pub const fn conn(
        name: &'static str,
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        run: fn(&mut Conn<'_>, Args<'_>) -> CommandResult,
    ) -> Spec {
        Spec::new(name, full_name, arity, flags, Keys::None, Run::Conn(run))
    }

    /// A command about what all connections share.
    #[must_use]
    pub const fn shared(
        name: &'static str,
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        run: fn(&Hub, Millis, Args<'_>) -> CommandResult,
    ) -> Spec {
        Spec::new(name, full_name, arity, flags, Keys::None, Run::Shared(run))
    }

    /// A command that steers the transaction.
    #[must_use]
    pub const fn control(
        name: &'static str,
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        control: Control,
    ) -> Spec {
        let keys = if matches!(control, Control::Watch) { Keys::From(1) } else { Keys::None };
        Spec::new(name, full_name, arity, flags, keys, Run::Control(control))
    }

    /// A container of subcommands.
    #[must_use]
    pub const fn within(name: &'static str, full_name: &'static str, subcommands: &'static [Spec]) -> Spec {
        Spec::new(name, full_name, -2, flag::NONE, Keys::None, Run::Within(subcommands))
    }

    const fn new(
        name: &'static str,
        full_name: &'static str,
        arity: i32,
        flags: Flags,
        keys: Keys,
        run: Run,
    ) -> Spec {
        Spec {
            name,
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

    /// With its arguments, a sentence, and the version of Redis that brought it.
    #[must_use]
    pub const fn doc(mut self, syntax: &'static str, summary: &'static str, since: &'static str) -> Spec {
        (self.syntax, self.summary, self.since) = (syntax, summary, since);
        self
    }

    /// With how it runs on several shards.
    #[must_use]
    pub const fn spread(mut self, spread: Spread) -> Spec {
        self.spread = spread;
        self
    }

    /// A container whose name alone does what its first subcommand does (`COMMAND`).
    #[must_use]
    pub const fn alone(mut self) -> Spec {
        self.arity = -1;
        self
    }

    /// A command that Upstash also takes without any argument (`UNLINK` of no keys).
    #[must_use]
    pub const fn bare(mut self) -> Spec {
        self.bare = true;
        self
    }

    /// Its subcommands, if it is a container.
    #[must_use]
    pub const fn subcommands(&self) -> &'static [Spec] {
        match self.run {
            Run::Within(rows) => rows,
            _ => &[],
        }
    }

    /// Whether so many arguments are right.
    #[must_use]
    pub const fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 {
            count == self.arity.unsigned_abs() as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }

    /// Whether so many arguments are right for those who want these answers.
    #[must_use]
    pub fn accepts_in(&self, dialect: Dialect, count: usize) -> bool {
        self.accepts(count) || self.bare && count == 1 && dialect == Dialect::Upstash
    }

    /// Whether the REST door takes it: it neither waits for keys nor is about a connection that lasts. Reading streams may
    /// wait and need not, so it is taken and answers at once.
    #[must_use]
    pub const fn over_rest(&self) -> bool {
        let waits = self.flags.has(flag::BLOCKING)
            && matches!(self.run, Run::Data(_))
            && !matches!(self.keys, Keys::Streams);
        !waits && !self.flags.has(flag::NO_REST) && !matches!(self.run, Run::Control(_))
    }

    /// Whether somebody may run it who may only read: it looks at keys, and not at all of them at once.
    #[must_use]
    pub const fn read_only(&self) -> bool {
        self.flags.has(flag::READ) && !self.flags.has(flag::ALL_KEYS) && !self.flags.has(flag::ADMIN)
    }

    /// Whether it may change keys.
    #[must_use]
    pub const fn writes(&self) -> bool {
        self.flags.has(flag::WRITE) || self.flags.has(flag::MAY_WRITE)
    }

    /// The keys among its arguments, by index.
    ///
    /// # Errors
    /// Redis's text when the arguments do not tell where they are.
    pub fn keys(&self, args: Args<'_>) -> Result<Vec<usize>, Fail> {
        self.keys.find(args)
    }
}
