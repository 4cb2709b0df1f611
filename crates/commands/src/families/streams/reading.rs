//! What XREAD and XREADGROUP share: their options, and blocking. It touches nothing.

use crate::args::{Args, Command};
use crate::blocking;
use crate::ctx::Ctx;
use crate::errors::{self, Fail};

const GROUP_IN_READ: &str = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.";
const NOACK_IN_READ: &str = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.";
const NO_GROUP: &str = "ERR Missing GROUP option for XREADGROUP";
const UNBALANCED_READ: &str =
    "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.";
const UNBALANCED_READ_GROUP: &str =
    "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.";

/// The parsed options.
pub(super) struct Reading<'a> {
    args: Args<'a>,
    /// The index of the first key.
    first: usize,
    /// The number of streams.
    pub(super) streams: usize,
    /// The maximum number of entries of each stream.
    pub(super) count: usize,
    /// Whether to block, and for how long.
    block: Option<Option<u64>>,
    /// Group and consumer.
    pub(super) group: Option<(&'a [u8], &'a [u8])>,
    /// Whether deliveries need no acknowledgement.
    pub(super) no_ack: bool,
}

impl<'a> Reading<'a> {
    /// Parses the options.
    ///
    /// # Errors
    /// Redis's errors.
    pub(super) fn parse(args: Args<'a>, of_group: bool) -> Result<Self, Fail> {
        let mut reading = Reading {
            args,
            first: 0,
            streams: 0,
            count: usize::MAX,
            block: None,
            group: None,
            no_ack: false,
        };
        let mut rest = args.cursor(1);
        while !rest.is_done() {
            if rest.accept_with("BLOCK", 1) {
                reading.block = Some(blocking::timeout_ms(rest.bytes()?)?);
            } else if rest.accept_with("COUNT", 1) {
                let count = usize::try_from(rest.int()?).unwrap_or(0);
                reading.count = if count == 0 { usize::MAX } else { count };
            } else if rest.accept_with("STREAMS", 1) {
                if !rest.left().is_multiple_of(2) {
                    let text = if of_group { UNBALANCED_READ_GROUP } else { UNBALANCED_READ };
                    return Err(Fail::Text(text.into()));
                }
                (reading.first, reading.streams) = (rest.index(), rest.left() / 2);
                break;
            } else if rest.accept_with("GROUP", 2) {
                if !of_group {
                    return Err(Fail::Text(GROUP_IN_READ.into()));
                }
                reading.group = Some((rest.bytes()?, rest.bytes()?));
            } else if rest.accept("NOACK") {
                if !of_group {
                    return Err(Fail::Text(NOACK_IN_READ.into()));
                }
                reading.no_ack = true;
            } else {
                return Err(errors::SYNTAX);
            }
        }
        if reading.streams == 0 {
            return Err(errors::SYNTAX);
        }
        if of_group && reading.group.is_none() {
            return Err(Fail::Text(NO_GROUP.into()));
        }
        Ok(reading)
    }

    /// The key of the stream with this number.
    pub(super) fn key(&self, n: usize) -> &'a [u8] {
        self.args.at(self.first + n)
    }

    /// The id that belongs to the stream with this number, as it was sent.
    pub(super) fn id(&self, n: usize) -> &'a [u8] {
        self.args.at(self.first + self.streams + n)
    }

    /// Blocks the command if BLOCK was given. `resolved` returns the id to wait after, if it is not the one sent.
    pub(super) fn wait(&self, ctx: &mut Ctx<'_>, resolved: impl Fn(usize) -> Option<String>) {
        let Some(timeout_ms) = self.block else { return };
        ctx.wait_for((0..self.streams).map(|n| self.key(n)), timeout_ms);
        let mut again = Command::default();
        let mut changed = false;
        for (index, argument) in self.args.from(0).enumerate() {
            match index.checked_sub(self.first + self.streams).and_then(&resolved) {
                Some(id) => {
                    again.push(id.as_bytes());
                    changed = true;
                }
                None => again.push(argument),
            }
        }
        if let Some(wait) = &mut ctx.wait {
            wait.again = changed.then_some(again);
            wait.on_delete = self.group.is_some();
        }
    }
}
