//! What a node has persisted of the migrations in which it takes part, in a file of its data directory. Touches that file.
//!
//! Invariant: as for the copy of the table: replaced atomically, and synced before the node acts on it.

use std::path::Path;

use keystead_cluster::MigrationId;
use keystead_cluster::migration::target::TargetStage;
use keystead_cluster::migration::{SourceRecord, TargetRecord};
use keystead_core::{Code, Error, Result};
use serde::{Deserialize, Serialize};

use super::super::copy;

/// The name of the file.
pub(crate) const FILE: &str = "migrations.json";

/// All records of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Records {
    pub(super) sources: Vec<SourceRecord>,
    pub(super) targets: Vec<TargetRecord>,
}

impl Records {
    pub(super) fn load(dir: &Path) -> Result<Records> {
        let Some(text) = copy::read(dir, FILE)? else { return Ok(Records::default()) };
        serde_json::from_str(&text)
            .map_err(|e| Error::new(Code::Corrupt, format!("{FILE} is damaged")).with_source(e))
    }

    pub(super) fn save(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        copy::replace(dir, FILE, &text)
    }

    pub(super) fn put_source(&mut self, record: SourceRecord) {
        self.sources.retain(|old| old.migration.id != record.migration.id);
        self.sources.push(record);
    }

    /// Whether only the position is another one.
    pub(super) fn put_target(&mut self, record: TargetRecord) -> bool {
        let is_position = |stage: TargetStage| matches!(stage, TargetStage::Tailing(_));
        let old = self.targets.iter().find(|old| old.migration.id == record.migration.id);
        let only_moves = old.is_some_and(|old| is_position(old.stage) && is_position(record.stage));
        self.targets.retain(|old| old.migration.id != record.migration.id);
        self.targets.push(record);
        only_moves
    }

    pub(super) fn forget_source(&mut self, id: MigrationId) {
        self.sources.retain(|old| old.migration.id != id);
    }

    pub(super) fn forget_target(&mut self, id: MigrationId) {
        self.targets.retain(|old| old.migration.id != id);
    }
}
