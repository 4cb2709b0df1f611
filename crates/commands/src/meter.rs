//! The bounds of one command: bytes of its reply, and steps of work. It touches one thread-local cell.
//!
//! A command runs on one thread from start to end, so the thread counts. Every constructor of a reply that holds bytes
//! (`Reply::bulk`, `Reply::shared`) counts them, so no command can forget it. Beyond a bound nothing more
//! is copied and the command ends soon; `run` then replaces its reply by an error, and the command is rolled back.

use std::cell::Cell;

use keystead_core::{Code, Error};

use crate::bounds::{COMMAND_STEPS_MAX, REPLIES_WAITING_BYTES_MAX, REPLY_BYTES_MAX, REPLY_SMALL_BYTES};
use crate::errors::{CommandResult, Fail};
use crate::reply::Reply;

/// Bytes of a part of a reply besides its content.
pub(crate) const PART_BYTES: usize = size_of::<Reply>();

/// The bound of a command's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyBound {
    /// The bound, as shown in the error.
    pub bytes_max: usize,
    /// How much of it is left: the commands of a transaction share one.
    pub bytes_left: usize,
}

impl ReplyBound {
    /// An unused bound.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        ReplyBound { bytes_max, bytes_left: bytes_max }
    }
}

impl Default for ReplyBound {
    fn default() -> Self {
        ReplyBound::new(REPLY_BYTES_MAX)
    }
}

/// Which bound was exceeded first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exceeded {
    Reply,
    Waiting,
    Steps,
}

struct Meter {
    /// Bytes that the reply may still use.
    reply: Cell<usize>,
    /// Bytes that all replies of the server may still use, including this one and its encoded form.
    memory: Cell<usize>,
    steps: Cell<usize>,
    exceeded: Cell<Option<Exceeded>>,
}

thread_local! {
    static METER: Meter = const {
        Meter {
            reply: Cell::new(usize::MAX),
            memory: Cell::new(usize::MAX),
            steps: Cell::new(usize::MAX),
            exceeded: Cell::new(None),
        }
    };
}

impl Meter {
    #[inline]
    fn take(&self, from: &Cell<usize>, count: usize, exceeded: Exceeded) -> bool {
        match from.get().checked_sub(count) {
            Some(left) => {
                from.set(left);
                true
            }
            None => self.exceed(exceeded),
        }
    }

    /// Nothing more is granted, so that the command ends soon.
    #[cold]
    fn exceed(&self, exceeded: Exceeded) -> bool {
        if self.exceeded.get().is_none() {
            self.exceeded.set(Some(exceeded));
        }
        self.reply.set(0);
        self.steps.set(0);
        false
    }
}

/// Whether the reply may use so many more bytes, shared with a stored value.
#[inline]
pub(crate) fn shared(bytes: usize) -> bool {
    METER.with(|meter| {
        meter.take(&meter.reply, bytes.saturating_add(PART_BYTES), Exceeded::Reply)
            && meter.take(&meter.memory, bytes, Exceeded::Waiting)
    })
}

/// Whether the reply may use so many more bytes, copied for it.
#[inline]
pub(crate) fn copied(bytes: usize) -> bool {
    METER.with(|meter| {
        meter.take(&meter.reply, bytes.saturating_add(PART_BYTES), Exceeded::Reply)
            && meter.take(&meter.memory, bytes.saturating_mul(2), Exceeded::Waiting)
    })
}

/// Whether a text of so many bytes, which is still being written, will fit in the reply.
#[inline]
pub(crate) fn fits(bytes: usize) -> bool {
    METER.with(|meter| bytes <= meter.reply.get() || meter.exceed(Exceeded::Reply))
}

/// Whether the command may continue for so many steps.
#[inline]
pub(crate) fn steps(count: usize) -> bool {
    METER.with(|meter| meter.take(&meter.steps, count, Exceeded::Steps))
}

/// Whether a bound was exceeded, so that further work of the command is useless.
#[inline]
pub(crate) fn is_exceeded() -> bool {
    METER.with(|meter| meter.exceeded.get().is_some())
}

/// Runs a command within its bounds while `waiting_bytes` of replies are pending. A command may run others.
#[inline]
pub(crate) fn run(
    bound: ReplyBound,
    waiting_bytes: usize,
    command: impl FnOnce() -> CommandResult,
) -> CommandResult {
    let within = Within::enter(bound, waiting_bytes);
    let reply = command();
    match within.leave() {
        Some(exceeded) => Err(fail(exceeded, bound)),
        None => reply,
    }
}

/// The bounds of the enclosing command, restored at the end, even after a panic.
struct Within {
    reply: usize,
    memory: usize,
    steps: usize,
    exceeded: Option<Exceeded>,
}

impl Within {
    #[inline]
    fn enter(bound: ReplyBound, waiting_bytes: usize) -> Within {
        let memory = REPLIES_WAITING_BYTES_MAX.saturating_sub(waiting_bytes).max(2 * REPLY_SMALL_BYTES);
        METER.with(|meter| Within {
            reply: meter.reply.replace(bound.bytes_left.saturating_add(PART_BYTES)),
            memory: meter.memory.replace(memory),
            steps: meter.steps.replace(COMMAND_STEPS_MAX),
            exceeded: meter.exceeded.replace(None),
        })
    }

    #[inline]
    fn leave(self) -> Option<Exceeded> {
        METER.with(|meter| meter.exceeded.get())
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        METER.with(|meter| {
            meter.reply.set(self.reply);
            meter.memory.set(self.memory);
            meter.steps.set(self.steps);
            meter.exceeded.set(self.exceeded);
        });
    }
}

/// The error that rolls back a command or a transaction whose reply exceeds this bound.
#[must_use]
pub fn too_large(bytes_max: usize) -> Fail {
    let words = format!(
        "max response size exceeded. Limit: {bytes_max} bytes. Request less data at a time. Nothing was changed"
    );
    Fail::Broken(Error::new(Code::TooLarge, words))
}

/// The error of a request whose reply does not fit beside those that wait for other clients.
#[must_use]
pub fn too_many_waiting() -> Error {
    let words = format!(
        "more than {REPLIES_WAITING_BYTES_MAX} bytes of responses wait for clients that do not read them. \
         Request less data, or try again later. Nothing was changed"
    );
    Error::new(Code::QueueFull, words)
}

#[cold]
fn fail(exceeded: Exceeded, bound: ReplyBound) -> Fail {
    Fail::Broken(match exceeded {
        Exceeded::Reply => return too_large(bound.bytes_max),
        Exceeded::Waiting => too_many_waiting(),
        Exceeded::Steps => Error::new(
            Code::BadRequest,
            "the pattern takes too many steps. Use a shorter one, or fewer. Nothing was changed",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(bytes: usize, command: impl FnOnce() -> CommandResult) -> CommandResult {
        run(ReplyBound::new(bytes), 0, command)
    }

    #[test]
    fn one_value_may_fill_a_reply_and_not_a_byte_more() {
        assert_eq!(within(100, || Ok(Reply::bulk(&[b'x'; 100]))).unwrap(), Reply::bulk(&[b'x'; 100]));
        let fail = within(100, || Ok(Reply::bulk(&[b'x'; 101]))).unwrap_err();
        assert!(fail.undoes() && fail.line().starts_with("ERR max response size exceeded. Limit: 100 bytes"));
    }

    #[test]
    fn beyond_the_bound_nothing_is_held_and_lists_end() {
        let mut examined = 0;
        let value = [b'x'; 1000];
        let reply =
            within(10_000, || Ok(Reply::bulks((0..1_000_000).inspect(|_| examined += 1).map(|_| &value))));
        assert!(reply.is_err() && examined < 20, "{examined}");
        let reply = within(10_000, || {
            Ok(Reply::Array((0..20).map(|_| Reply::bulk(&value)).inspect(|_| examined += 1).collect()))
        });
        assert!(reply.is_err());
    }

    #[test]
    fn a_command_within_a_command_has_bounds_of_its_own() {
        let reply = within(10_000, || {
            for _ in 0..20 {
                within(1000, || Ok(Reply::bulk(&[b'x'; 1000])))?;
            }
            assert!(within(1000, || Ok(Reply::bulk(&[b'x'; 2000]))).is_err());
            Ok(Reply::bulk(&[b'x'; 9000]))
        });
        assert!(reply.is_ok());
        assert!(!is_exceeded() && Reply::bulk(&[b'x'; 20_000]) != Reply::Nil, "outside there is no bound");
    }

    #[test]
    fn with_many_pending_bytes_only_small_replies_are_built() {
        let large = vec![b'x'; REPLY_SMALL_BYTES + 1];
        let bound = ReplyBound::default();
        let fail = run(bound, REPLIES_WAITING_BYTES_MAX, || Ok(Reply::bulk(&large))).unwrap_err();
        assert!(fail.line().contains("wait for clients"), "{fail:?}");
        assert!(run(bound, REPLIES_WAITING_BYTES_MAX, || Ok(Reply::bulk(&large[1..]))).is_ok());
        assert!(run(bound, 0, || Ok(Reply::bulk(&large))).is_ok());
    }

    #[test]
    fn steps_are_bounded() {
        let fail = within(10, || {
            while steps(1 << 20) {}
            Ok(Reply::Ok)
        });
        assert!(fail.unwrap_err().line().contains("too many steps"));
    }
}
