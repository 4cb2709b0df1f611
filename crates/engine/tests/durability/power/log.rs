//! The log of the file layer: every change of the watched files, in the order in which it happened.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use keystead_engine::Durability;

/// One entry.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A file or directory was opened, and perhaps created or truncated.
    Open {
        inode: u64,
        path: PathBuf,
        created: bool,
        truncated: bool,
    },
    /// Bytes were written.
    Write {
        inode: u64,
        at: u64,
        data: Vec<u8>,
    },
    /// The file was truncated or extended.
    Truncate {
        inode: u64,
        len: u64,
    },
    /// A sync has begun.
    SyncBegin {
        inode: u64,
        token: u64,
    },
    /// A sync has returned.
    SyncEnd {
        token: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    MakeDir {
        path: PathBuf,
    },
    /// The process was acknowledged an operation.
    Acked {
        level: Durability,
        ack: Ack,
    },
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) group: u32,
    pub(crate) n: u64,
    pub(crate) revision: u64,
}

impl Entry {
    pub(crate) fn ack(&self) -> Option<(Durability, Ack)> {
        match self {
            Entry::Acked { level, ack } => Some((*level, *ack)),
            _ => None,
        }
    }
}

/// The file that acknowledgements of a level go to. It is not part of the disk.
pub(crate) fn acks_name(level: Durability) -> String {
    format!("acks-{}", level.as_str())
}

/// Reads a log.
pub(crate) fn read(path: &Path) -> Vec<Entry> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[..];
    let mut entries = Vec::new();
    let mut acks: HashMap<u64, Durability> = HashMap::new();
    while let Some((head, after)) = rest.split_at_checked(21) {
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let len = u32::from_le_bytes(head[17..21].try_into().unwrap()) as usize;
        let (data, after) = after.split_at(len);
        rest = after;
        let (inode, at) = (number(1), number(9));
        let text = || PathBuf::from(String::from_utf8(data.to_vec()).unwrap());
        entries.push(match head[0] {
            1 => {
                let path = text();
                let levels = [Durability::Fsync, Durability::Commit];
                if let Some(level) = levels.into_iter().find(|level| path.ends_with(acks_name(*level))) {
                    acks.insert(inode, level);
                    continue;
                }
                acks.remove(&inode);
                Entry::Open { inode, path, created: at & 1 != 0, truncated: at & 2 != 0 }
            }
            2 if acks.contains_key(&inode) => Entry::Acked { level: acks[&inode], ack: parse(data) },
            2 => Entry::Write { inode, at, data: data.to_vec() },
            3 => Entry::Truncate { inode, len: at },
            4 => Entry::SyncBegin { inode, token: at },
            5 => Entry::SyncEnd { token: at },
            6 => {
                let split = data.iter().position(|byte| *byte == 0).unwrap();
                let path = |bytes: &[u8]| PathBuf::from(String::from_utf8(bytes.to_vec()).unwrap());
                Entry::Rename { from: path(&data[..split]), to: path(&data[split + 1..]) }
            }
            7 => Entry::Unlink { path: text() },
            8 => Entry::MakeDir { path: text() },
            other => panic!("the record has an entry of kind {other}"),
        });
    }
    entries
}

fn parse(line: &[u8]) -> Ack {
    let line = String::from_utf8(line.to_vec()).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().skip(1).map(|n| n.parse().unwrap()).collect();
    let [group, n, revision] = numbers[..] else { panic!("no acknowledgement: {line}") };
    Ack { group: group as u32, n, revision }
}
