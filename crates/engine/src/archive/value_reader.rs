//! Reads evicted values back into memory: the shard's own connection to the archive.

use keystead_core::Result;
use keystead_model::keyspace::ValueReader;
use keystead_model::sql;
use keystead_model::value::{Kind, Value};

use super::Database;

/// Reads single values from the archive.
pub(crate) struct ArchiveReader(pub(crate) Database);

impl ValueReader for ArchiveReader {
    fn fetch(&mut self, id: u32, kind: Kind) -> Result<Value> {
        sql::fetch(&mut self.0, id, kind)
    }
}
