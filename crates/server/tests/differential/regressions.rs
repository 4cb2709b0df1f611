//! Scripts that once showed a difference, as the shrinker printed them. They run before anything random.

use crate::script::Judges;

/// A script that once differed.
pub(crate) struct Regression {
    /// The test that it belongs to.
    pub(crate) family: &'static str,
    pub(crate) judges: Judges,
    pub(crate) text: &'static str,
}

pub(crate) const REGRESSIONS: &[Regression] = &[];
