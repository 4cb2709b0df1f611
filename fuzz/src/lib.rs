//! What the fuzz targets share.
//!
//! | To find                                    | open       |
//! |--------------------------------------------|------------|
//! | decisions from the bytes of an input       | [`source`] |
//! | commands on a keyspace, and what must hold | [`desk`]   |
//! | Lua programs from a grammar                | [`lua`]    |

pub mod desk;
pub mod lua;
pub mod source;
