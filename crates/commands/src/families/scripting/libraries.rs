//! Function libraries: their names and texts. It touches nothing.
//!
//! Invariant: no two functions have the same name, whatever their libraries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::flags::ScriptFlags;
use crate::bounds::LIBRARIES_BYTES_MAX;
use crate::errors::Fail;

/// A function, as FUNCTION LIST shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionRow {
    pub(super) name: Vec<u8>,
    pub(super) description: Option<Vec<u8>>,
    pub(super) flags: ScriptFlags,
}

/// A library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Library {
    pub(super) name: Vec<u8>,
    /// Its text, including the first line.
    pub(super) code: Vec<u8>,
    pub(super) functions: Vec<FunctionRow>,
}

/// All libraries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<Vec<u8>, Arc<Library>>,
    /// The library of each function.
    by_function: BTreeMap<Vec<u8>, Arc<Library>>,
}

impl Libraries {
    pub(super) fn get(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// A function and its library.
    pub(super) fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &FunctionRow)> {
        let library = self.by_function.get(name)?;
        Some((library, library.functions.iter().find(|row| row.name == name)?))
    }

    /// The numbers of libraries and functions.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.by_name.len(), self.by_function.len())
    }

    /// Removes a library, and returns whether it existed.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        library.functions.iter().for_each(|row| {
            self.by_function.remove(&row.name);
        });
        true
    }

    /// Adds a library whose name is not taken.
    pub(super) fn add(&mut self, library: Arc<Library>) -> Result<(), Fail> {
        if let Some(row) = library.functions.iter().find(|row| self.by_function.contains_key(&row.name)) {
            let name = String::from_utf8_lossy(&row.name);
            return Err(Fail::text(format!("ERR Function {name} already exists")));
        }
        let bytes: usize = self.all().map(|library| library.code.len()).sum();
        if bytes + library.code.len() > LIBRARIES_BYTES_MAX {
            return Err(Fail::fixed("ERR Too many function libraries: delete some with FUNCTION DELETE"));
        }
        for row in &library.functions {
            self.by_function.insert(row.name.clone(), Arc::clone(&library));
        }
        self.by_name.insert(library.name.clone(), library);
        Ok(())
    }
}
