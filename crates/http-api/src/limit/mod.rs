//! Rate limits: bodies, responses, and a check of several policies.

pub mod bodies;
pub mod combined;
pub mod params;
pub mod response;
