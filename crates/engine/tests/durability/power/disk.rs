//! What a disk certainly has, what it may have, and what is left of it after a power loss.
//!
//! A file's content is certain up to its last sync; a name in a directory is certain when the directory was synced after it was
//! created, renamed or removed. A power loss keeps any part of the rest: of writes any subset, each torn at any byte; of names
//! mostly the first few changes, as file systems with a log do, and sometimes any subset.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use keystead_testkit::rng::Rng;

use super::log::Entry;

/// A disk below one directory.
pub(crate) struct Disk {
    root: PathBuf,
    files: Vec<Content>,
    folders: HashMap<PathBuf, Folder>,
    /// What an inode is at present. Numbers are reused after a file is removed.
    inodes: HashMap<u64, Node>,
    /// Syncs that have begun: their file or directory, and the clock at that time.
    syncs: HashMap<u64, (Node, u64)>,
    /// Number of changes so far: orders them.
    clock: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Folder(PathBuf),
}

#[derive(Default)]
struct Content {
    certain: Vec<u8>,
    open: Vec<(u64, Change)>,
}

enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

#[derive(Default)]
struct Folder {
    certain: BTreeMap<OsString, Node>,
    open: Vec<(u64, Naming)>,
}

enum Naming {
    Link(OsString, Node),
    Rename(OsString, OsString),
    Unlink(OsString),
}

/// How much of what is not certain a power loss keeps.
#[derive(Clone, Copy, Debug)]
enum Keep {
    Nothing,
    Everything,
    /// So many percent of the changes, some of them torn.
    Some(u64),
}

/// What a power loss chose, for a message.
pub(crate) struct Choice {
    contents: Keep,
    names: Keep,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "contents {:?}, names {:?}", self.contents, self.names)
    }
}

impl Disk {
    pub(crate) fn new(root: &Path) -> Self {
        let folders = HashMap::from([(root.to_path_buf(), Folder::default())]);
        Disk {
            root: root.to_path_buf(),
            files: Vec::new(),
            folders,
            inodes: HashMap::new(),
            syncs: HashMap::new(),
            clock: 0,
        }
    }

    /// Applies the next entry of the log.
    pub(crate) fn take(&mut self, entry: &Entry) {
        self.clock += 1;
        match entry {
            Entry::Open { inode, path, created, truncated } => self.open(*inode, path, *created, *truncated),
            Entry::Write { inode, at, data } => self.change(*inode, Change::Write(*at, data.clone())),
            Entry::Truncate { inode, len } => self.change(*inode, Change::Truncate(*len)),
            Entry::SyncBegin { inode, token } => {
                let node = self.inodes.get(inode).expect("only what is open is synced").clone();
                self.syncs.insert(*token, (node, self.clock));
            }
            Entry::SyncEnd { token } => {
                let (node, begun) = self.syncs.remove(token).expect("a sync that ends has begun");
                self.settle(&node, begun);
            }
            Entry::Rename { from, to } => {
                assert_eq!(from.parent(), to.parent(), "only renames within a folder are known here");
                self.name(from, |from| Naming::Rename(from, name_of(to)));
            }
            Entry::Unlink { path } => self.name(path, Naming::Unlink),
            Entry::MakeDir { path } => {
                self.folders.insert(path.clone(), Folder::default());
                self.name(path, |name| Naming::Link(name, Node::Folder(path.clone())));
            }
            Entry::Acked { .. } => {}
        }
    }

    fn open(&mut self, inode: u64, path: &Path, created: bool, truncated: bool) {
        if self.folders.contains_key(path) {
            self.inodes.insert(inode, Node::Folder(path.to_path_buf()));
            return;
        }
        if created {
            let node = Node::File(self.files.len());
            self.files.push(Content::default());
            self.inodes.insert(inode, node.clone());
            self.name(path, |name| Naming::Link(name, node));
        }
        if truncated {
            self.change(inode, Change::Truncate(0));
        }
    }

    fn change(&mut self, inode: u64, change: Change) {
        match self.inodes.get(&inode) {
            Some(Node::File(file)) => self.files[*file].open.push((self.clock, change)),
            other => panic!("inode {inode} is {other:?}, and was written to"),
        }
    }

    fn name(&mut self, path: &Path, naming: impl FnOnce(OsString) -> Naming) {
        let parent = path.parent().expect("every path here has a folder");
        let folder = self.folders.get_mut(parent).expect("folders are made before what is in them");
        folder.open.push((self.clock, naming(name_of(path))));
    }

    /// What happened to this before `begun` is certain now.
    fn settle(&mut self, node: &Node, begun: u64) {
        match node {
            Node::File(file) => {
                let Content { certain, open } = &mut self.files[*file];
                let count = open.iter().take_while(|(at, _)| *at < begun).count();
                open.drain(..count).for_each(|(_, change)| apply(certain, &change));
            }
            Node::Folder(path) => {
                let Folder { certain, open } = self.folders.get_mut(path).expect("it was opened");
                let count = open.iter().take_while(|(at, _)| *at < begun).count();
                open.drain(..count).for_each(|(_, naming)| rename(certain, &naming));
            }
        }
    }

    /// Writes what a power loss at this point may leave to `target`.
    pub(crate) fn lose_power(&self, target: &Path, rng: &mut Rng) -> Choice {
        let choice = Choice { contents: keep(rng), names: keep(rng) };
        self.restore(&self.root, target, &choice, rng);
        choice
    }

    fn restore(&self, folder: &Path, target: &Path, choice: &Choice, rng: &mut Rng) {
        fs::create_dir_all(target).unwrap();
        for (name, node) in self.names(&self.folders[folder], choice.names, rng) {
            match node {
                Node::Folder(path) => self.restore(&path, &target.join(name), choice, rng),
                // Shared memory: it is created again by the first process that opens the database.
                Node::File(_) if name.to_string_lossy().ends_with("-shm") => {}
                Node::File(file) => {
                    let content = content(&self.files[file], choice.contents, rng);
                    fs::write(target.join(name), content).unwrap();
                }
            }
        }
    }

    fn names(&self, folder: &Folder, keep: Keep, rng: &mut Rng) -> BTreeMap<OsString, Node> {
        let mut names = folder.certain.clone();
        let any = rng.below(3) == 0;
        for (_, naming) in &folder.open {
            match keep {
                Keep::Nothing => break,
                Keep::Some(percent) if rng.below(100) >= percent => {
                    if any {
                        continue;
                    }
                    break;
                }
                _ => rename(&mut names, naming),
            }
        }
        names
    }
}

fn name_of(path: &Path) -> OsString {
    path.file_name().expect("every path here has a name").to_os_string()
}

fn keep(rng: &mut Rng) -> Keep {
    match rng.below(6) {
        0 => Keep::Nothing,
        1 => Keep::Everything,
        2 => Keep::Some(10),
        3 => Keep::Some(90),
        _ => Keep::Some(50),
    }
}

fn content(file: &Content, keep: Keep, rng: &mut Rng) -> Vec<u8> {
    let mut content = file.certain.clone();
    for (_, change) in &file.open {
        match (keep, change) {
            (Keep::Nothing, _) => break,
            (Keep::Some(percent), _) if rng.below(100) >= percent => {}
            (Keep::Some(_), Change::Write(at, data)) if rng.below(4) == 0 => {
                let (a, b) = (rng.below(data.len() as u64 + 1), rng.below(data.len() as u64 + 1));
                // Half of them from the beginning, like a write in flight.
                let from = if rng.below(2) == 0 { 0 } else { a.min(b) };
                let part = data[from as usize..a.max(b) as usize].to_vec();
                apply(&mut content, &Change::Write(at + from, part));
            }
            _ => apply(&mut content, change),
        }
    }
    content
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Truncate(len) => content.resize(*len as usize, 0),
        Change::Write(at, data) => {
            let (start, end) = (*at as usize, *at as usize + data.len());
            if content.len() < end {
                content.resize(end, 0);
            }
            content[start..end].copy_from_slice(data);
        }
    }
}

/// A rename or removal of a missing name (because its creation was lost) does nothing.
fn rename(names: &mut BTreeMap<OsString, Node>, naming: &Naming) {
    match naming {
        Naming::Link(name, node) => {
            names.insert(name.clone(), node.clone());
        }
        Naming::Unlink(name) => {
            names.remove(name);
        }
        Naming::Rename(from, to) => {
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
            }
        }
    }
}
