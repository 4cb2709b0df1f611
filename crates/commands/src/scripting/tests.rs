//! Scripts at a desk.
