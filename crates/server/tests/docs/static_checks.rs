//! Blocks that are checked without running them: settings, JSON, and the syntax of JavaScript and Python. Touches temporary
//! directories and child processes.

use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::blocks::{self, Block};
use crate::{all_pages, is_installed};

/// Every block of a language on every page.
fn all(language: &str) -> Vec<(String, Block)> {
    let on_page = |page: String| {
        let blocks = blocks::read(&page).into_iter();
        blocks.map(move |block| (format!("{page}:{}", block.line), block)).collect::<Vec<_>>()
    };
    let mut found: Vec<(String, Block)> = all_pages().into_iter().flat_map(on_page).collect();
    found.retain(|(_, block)| block.language == language);
    found
}

/// The server itself reads every TOML block.
pub(crate) fn settings() -> Result<(), Failed> {
    let (dir, found) = (tempfile::tempdir()?, all("toml"));
    let file = dir.path().join("keystead.toml");
    for (place, block) in &found {
        std::fs::write(&file, &block.text)?;
        let mut keystead = Command::new(env!("CARGO_BIN_EXE_keystead"));
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("KEYSTEAD_")) {
            keystead.env_remove(name);
        }
        let ended = keystead.arg("config").arg("--config").arg(&file).output()?;
        if !ended.status.success() {
            return Err(format!("{place}: {}", String::from_utf8_lossy(&ended.stderr)).into());
        }
    }
    finish("settings", found.len())
}

/// JSON is JSON. What is the output of a block may be abbreviated.
pub(crate) fn json() -> Result<(), Failed> {
    let mut found = all("json");
    found.retain(|(_, block)| !block.is_output);
    for (place, block) in &found {
        serde_json::from_str::<serde_json::Value>(&block.text)
            .map_err(|error| format!("{place}: {error}"))?;
    }
    finish("json", found.len())
}

/// Lets a program check the syntax of every block of a language.
pub(crate) fn syntax(
    language: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    extension: &'static str,
) -> Trial {
    if !is_installed(program) {
        return Trial::test(language, || Err("skipped".into()))
            .with_ignored_flag(true)
            .with_kind(format!("skipped: {program} is not installed"));
    }
    Trial::test(language, move || {
        let (dir, found) = (tempfile::tempdir()?, all(language));
        let file = dir.path().join("block").with_extension(extension);
        for (place, block) in &found {
            std::fs::write(&file, &block.text)?;
            let ended = Command::new(program).args(arguments).arg(&file).output()?;
            if !ended.status.success() {
                return Err(format!("{place}: {}", String::from_utf8_lossy(&ended.stderr)).into());
            }
        }
        finish(language, found.len())
    })
}

fn finish(what: &str, count: usize) -> Result<(), Failed> {
    println!("{what}: {count} blocks");
    if count == 0 { Err(format!("there is no block of {what}").into()) } else { Ok(()) }
}
