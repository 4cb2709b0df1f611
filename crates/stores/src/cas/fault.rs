//! Ways in which this layer could be wrong. Only its tests can switch one on, to show that they would notice.

use super::Inner;

/// One way to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A denial from a cached state is returned without a read.
    TrustsTheCache,
    /// *Not applied* is reported while the write may still arrive.
    NoFence,
    /// A swap without a reply is sent again.
    RetriesUnknown,
    /// A write that was applied and then followed by another is taken for one that was not.
    LastWriterOnly,
}

impl<B> Inner<B> {
    #[cfg(not(test))]
    #[inline]
    #[allow(clippy::unused_self, reason = "the tests use it")]
    pub(super) fn has(&self, _fault: Fault) -> bool {
        false
    }

    #[cfg(test)]
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}
