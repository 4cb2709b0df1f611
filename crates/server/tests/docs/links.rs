//! Links between pages, and paths in the pages for contributors: the file exists, and so does the heading. Pure, but for
//! reading the pages.

use std::path::{Path, PathBuf};

use libtest_mimic::Failed;

use crate::{all_pages, root};

pub(crate) fn check() -> Result<(), Failed> {
    let mut broken = Vec::new();
    for page in all_pages() {
        let text = std::fs::read_to_string(root().join(&page))?;
        let folder = Path::new(&page).parent().unwrap_or(Path::new(""));
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { PathBuf::from(&page) } else { folder.join(file) };
            let path = root().join(&target);
            let is_there = path.exists()
                && (heading.is_empty()
                    || anchors(&std::fs::read_to_string(&path).unwrap_or_default())
                        .contains(&heading.to_owned()));
            if !is_there {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(format!("links that lead nowhere:\n  {}", broken.join("\n  ")).into())
    }
}

/// Every path in a page, from the root or from `crates/`. `{name}` in a path stands for any name.
pub(crate) fn paths() -> Result<(), Failed> {
    let (mut found, mut missing) = (0, Vec::new());
    for page in all_pages() {
        let text = std::fs::read_to_string(root().join(&page))?;
        let is_path = |word: &&str| {
            let kept = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
            word.chars().all(kept)
                && !word.contains("...")
                && ["/src/", "/tests/", "fuzz/", "bench/", "docs/"].iter().any(|part| word.contains(part))
        };
        let words = text.split(|c: char| c.is_whitespace() || "`,;()|".contains(c)).filter(is_path);
        for word in words.map(|word| word.trim_end_matches('.')) {
            found += 1;
            if !root().join(word).exists() && !root().join("crates").join(word).exists() {
                missing.push(format!("{page}: {word}"));
            }
        }
    }
    if found < 100 {
        return Err(format!("found only {found} paths").into());
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("no such files:\n  {}", missing.join("\n  ")).into())
    }
}

/// The targets of links to files of this repository.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace)).collect()
}

/// The anchors that GitHub makes of headings.
fn anchors(text: &str) -> Vec<String> {
    let heading = |line: &str| {
        let words = line.trim_start_matches('#');
        (words.len() < line.len() && words.starts_with(' ')).then(|| anchor(words.trim()))
    };
    text.lines().filter_map(heading).collect()
}

fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading.chars().filter_map(kept).collect()
}
