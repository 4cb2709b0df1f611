//! Shared by the fuzz targets.
//!
//! | To find                                    | open       |
//! |--------------------------------------------|------------|
//! | decisions from the bytes of an input       | [`source`] |
//! | commands on a keyspace, and what must hold | [`harness`]|
//! | Lua programs from a grammar                | [`lua`]    |

pub mod harness;
pub mod lua;
pub mod source;
