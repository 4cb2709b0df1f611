//! The last slot table that a node has seen, in a file of its data directory. Touches that file.
//!
//! Invariant: the file is replaced atomically, and synced with its directory before the node acts on the table.

use std::path::Path;

use keystead_cluster::SlotTable;
use keystead_core::Result;

pub(super) use crate::data_file::{read, replace};

/// The name of the file. It holds the JSON form of the table.
pub const FILE: &str = "cluster.json";

/// Writes a table to a directory.
///
/// # Errors
/// `store_unavailable`; the table before stays.
pub(crate) fn save(dir: &Path, table: &SlotTable) -> Result<()> {
    replace(dir, FILE, &table.to_json())
}

/// The table in a directory, if there is one.
///
/// # Errors
/// `store_unavailable` when it cannot be read, or the error of what is wrong with it.
pub(crate) fn load(dir: &Path) -> Result<Option<SlotTable>> {
    Ok(match read(dir, FILE)? {
        Some(text) => Some(SlotTable::from_json(&text)?),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use keystead_core::Code;

    use super::*;

    #[test]
    fn a_copy_is_replaced_atomically_and_is_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), None);
        for name in ["one", "two"] {
            let table = SlotTable::init(name, Vec::new()).unwrap();
            save(dir.path(), &table).unwrap();
            assert_eq!(load(dir.path()).unwrap(), Some(table));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(dir.path().join(FILE), r#"{"format":9}"#).unwrap();
        assert_eq!(load(dir.path()).unwrap_err().code(), Code::Unsupported);
    }
}
