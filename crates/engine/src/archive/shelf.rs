//! Where a shard finds the values that it let go of: a connection of its own to the archive.

use keystead_core::Result;
use keystead_model::keyspace::Shelf;
use keystead_model::rest;
use keystead_model::value::{Kind, Value};

use super::Database;

/// Reads single values from the archive.
pub(crate) struct ArchiveShelf(pub(crate) Database);

impl Shelf for ArchiveShelf {
    fn fetch(&mut self, id: u32, kind: Kind) -> Result<Value> {
        rest::fetch(&mut self.0, id, kind)
    }
}
