//! Source files that no crate compiles: no target of a manifest, and no `mod`, `#[path]` or `include!` reaches them.
//!
//! Declarations are read line by line, which suffices for sources that rustfmt has formatted.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{files, none};

/// A path without `.` and `..`.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

/// The text between the first two quotes of a line.
fn quoted(line: &str) -> Option<&str> {
    line.split('"').nth(1)
}

/// Whether cargo compiles this file of a crate as a target by itself. `path` is relative to the crate.
fn is_target(path: &Path, manifest: &str) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let found_by_cargo = matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
    );
    let mut named = manifest.lines().filter(|line| line.starts_with("path = ")).filter_map(quoted);
    found_by_cargo || named.any(|named| Path::new(named) == path)
}

/// A file, and whether its submodules are beside it instead of in a folder of its name.
type Source = (PathBuf, bool);

/// The files that the declarations in a file can mean. Of `name.rs` and `name/mod.rs` both are returned.
fn declared(path: &Path, text: &str, owns_folder: bool) -> Vec<Source> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let folder = if owns_folder { parent.to_path_buf() } else { path.with_extension("") };
    let mut found = Vec::new();
    // Inline modules that are open, by their indentation.
    let mut inline: Vec<(usize, &str)> = Vec::new();
    let mut path_attribute = None;
    for line in text.lines() {
        let code = line.trim_start();
        let indentation = line.len() - code.len();
        if code == "}" {
            inline.retain(|(open, _)| *open < indentation);
        }
        if let Some((_, rest)) = code.split_once("include!(") {
            found.extend(quoted(rest).map(|included| (clean(&parent.join(included)), true)));
        }
        if code.starts_with("#[path = ") {
            path_attribute = quoted(code);
            continue;
        }
        let Some(declaration) = module(code) else { continue };
        if let Some(name) = declaration.strip_suffix(';') {
            let folder = inline.iter().fold(folder.clone(), |folder, (_, name)| folder.join(name));
            match path_attribute.take() {
                Some(other) => found.push((clean(&parent.join(other)), true)),
                None => found.extend([
                    (folder.join(format!("{name}.rs")), false),
                    (folder.join(name).join("mod.rs"), true),
                ]),
            }
        } else if let Some(name) = declaration.strip_suffix(" {") {
            inline.push((indentation, name));
        }
    }
    found
}

/// What follows `mod` in a line that declares a module, of whatever visibility.
fn module(code: &str) -> Option<&str> {
    let code = match code.strip_prefix("pub") {
        Some(public) => public.trim_start_matches(|c: char| c != ' ').trim_start(),
        None => code,
    };
    code.strip_prefix("mod ")
}

#[test]
fn no_source_file_is_an_orphan() {
    let sources = files(".rs");
    let manifests = files("Cargo.toml");
    let mut waiting: Vec<Source> = Vec::new();
    for (path, _) in &sources {
        let path = Path::new(path);
        let owners = manifests.iter().filter_map(|(manifest, text)| {
            let inside = path.strip_prefix(Path::new(manifest).parent()?).ok()?;
            Some((inside, text))
        });
        // The innermost: a crate may be in the folder of another.
        let owner = owners.min_by_key(|(inside, _)| inside.iter().count());
        if owner.is_some_and(|(inside, manifest)| is_target(inside, manifest)) {
            waiting.push((path.to_path_buf(), true));
        }
    }
    assert!(waiting.len() > 20, "found hardly any target: {waiting:?}");
    let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
    while let Some((path, owns_folder)) = waiting.pop() {
        let Some((_, text)) = sources.iter().find(|(source, _)| Path::new(source) == path) else { continue };
        waiting.extend(
            declared(&path, text, owns_folder).into_iter().filter(|(path, _)| !reached.contains(path)),
        );
        reached.insert(path);
    }
    let orphans = sources.iter().filter(|(path, _)| !reached.contains(Path::new(path)));
    none(
        "files that nothing declares: add a `mod`, or delete them",
        &orphans.map(|(path, _)| path.clone()).collect::<Vec<_>>(),
    );
}

#[test]
fn declarations_are_found() {
    let text = "mod a;\npub(crate) mod b;\n#[path = \"../other.rs\"]\nmod c;\nmod inline {\n    mod d;\n}\n// mod e;\n";
    let found = |path: &str, owns_folder| -> Vec<String> {
        let found = declared(Path::new(path), text, owns_folder).into_iter();
        found.map(|(path, _)| path.display().to_string()).filter(|path| !path.ends_with("mod.rs")).collect()
    };
    assert_eq!(found("x/src/lib.rs", true), ["x/src/a.rs", "x/src/b.rs", "x/other.rs", "x/src/inline/d.rs"]);
    assert_eq!(
        found("x/src/y.rs", false),
        ["x/src/y/a.rs", "x/src/y/b.rs", "x/other.rs", "x/src/y/inline/d.rs"]
    );
    assert_eq!(found("x/src/y/mod.rs", true)[0], "x/src/y/a.rs");
}
