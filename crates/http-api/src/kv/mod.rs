//! Versioned documents: what a request asks for, and the bytes of its response. Pure.

pub mod batch;
pub mod params;
pub mod response;
pub mod steps;
pub mod write;
