//! The position of a target that keeps none, in a file of the data directory. Touches that file.
//!
//! Invariant: the file is replaced on disk after a batch was accepted and before the journal of its changes is released, so after a crash
//! at any moment every change that the target may miss is sent, some of them again.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use keystead_core::{Code, Error, Result};
use keystead_sinks::{Position, Sink};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::file::Definition;
use crate::data_file;

/// Where the position is kept.
pub(super) struct Kept {
    dir: PathBuf,
    file: String,
    /// What is followed, and where it goes. The position of anything else is none.
    target: String,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    target: String,
    database: String,
    batch: i64,
    revisions: String,
    resync: Option<i64>,
}

impl Kept {
    pub(super) fn new(dir: PathBuf, definition: &Definition) -> Kept {
        let file = format!("sink-{}.position.json", definition.name);
        Kept { dir, file, target: digest(definition) }
    }

    /// The position after the last batch that was accepted.
    pub(super) fn read(&self) -> Result<Option<Position>> {
        let Some(text) = data_file::read(&self.dir, &self.file)? else { return Ok(None) };
        let stored: Option<Stored> = serde_json::from_str(&text).ok();
        let Some(stored) = stored.filter(|stored| stored.target == self.target) else {
            tracing::info!(file = self.file, "the position is of another target");
            return Ok(None);
        };
        let Stored { database, batch, revisions, resync, .. } = stored;
        Position::of_parts(database, batch, &revisions, resync).map(Some)
    }

    /// Replaces it, and returns when that is on disk.
    pub(super) fn write(&self, position: &Position) -> Result<()> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let stored = Stored {
            target: self.target.clone(),
            database: position.database.clone(),
            batch: number(position.batch),
            revisions: position.revisions_text(),
            resync: position.resync.map(number),
        };
        let text = serde_json::to_string(&stored)
            .map_err(|error| Error::new(Code::Internal, "the position has no JSON").with_source(error))?;
        data_file::replace(&self.dir, &self.file, &text)
    }
}

/// The position of a target, wherever it is.
pub(super) async fn position(
    sink: &dyn Sink,
    dir: &Path,
    definition: &Definition,
) -> Result<Option<Position>> {
    match sink.capabilities().keeps_position {
        true => sink.position().await,
        false => Kept::new(dir.to_owned(), definition).read(),
    }
}

/// A digest of what decides which rows a target gets. A new user name or secret is the same target.
fn digest(definition: &Definition) -> String {
    let url = definition.target.as_str();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let layout = &definition.layout;
    let values = format!("{:?}", layout.values);
    let strip = layout.strip_prefix.to_string();
    let mut hash = Sha256::new();
    for part in [scheme, &rest[host..], &layout.sink, &layout.prefix, &strip, &values] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    HEXLOWER.encode(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use keystead_core::Revision;

    use super::super::file;
    use super::*;

    fn of(url: &str, prefix: &str) -> Definition {
        let text = format!("[sink.s]\nprefix = \"{prefix}\"\ntarget = \"{url}\"\n");
        file::parse(&text, "k.toml").unwrap().remove(0)
    }

    #[test]
    fn a_position_is_of_one_target() {
        let dir = tempfile::tempdir().unwrap();
        let kept = |url: &str, prefix: &str| Kept::new(dir.path().to_owned(), &of(url, prefix));
        let one = kept("https://whsec_a:b@host/hook?x=@/", "d:");
        assert_eq!(one.read().unwrap(), None);
        let revisions = vec![Revision(7), Revision(0)];
        let position = Position { database: "d".to_owned(), batch: 3, revisions, resync: Some(2) };
        one.write(&position).unwrap();
        assert_eq!(one.read().unwrap(), Some(position.clone()));
        let rotated = kept("https://whsec_new@host/hook?x=@/", "d:");
        assert_eq!(rotated.read().unwrap(), Some(position), "of the same target with another secret");
        for (url, prefix) in [
            ("https://whsec_a@other/hook?x=@/", "d:"),
            ("https://whsec_a@host/other?x=@/", "d:"),
            ("http://whsec_a@host/hook?x=@/", "d:"),
            ("https://whsec_a@host/hook?x=@/", "e:"),
        ] {
            assert_eq!(kept(url, prefix).read().unwrap(), None, "{url} {prefix}");
        }
        std::fs::write(dir.path().join("sink-s.position.json"), "half").unwrap();
        assert_eq!(rotated.read().unwrap(), None, "what is no position is none, so all keys are sent");
    }
}
