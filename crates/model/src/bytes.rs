//! The byte string of names and values. It touches nothing.
//!
//! Up to 23 bytes are stored inline; longer ones are shared, so that an effect, a before-image and the value in
//! memory are one allocation.

/// Immutable bytes that are cheap to clone.
pub type Bytes = hipstr::HipByt<'static>;
