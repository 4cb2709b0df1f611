//! docs/commands.md and docs/redis.md match the tables.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::Path;

#[test]
fn the_page_of_commands_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = keystead_commands::docs::commands();
    if std::env::var_os("KEYSTEAD_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        present == page,
        "docs/commands.md is not what the table of commands says. Write it with:\n  \
         KEYSTEAD_UPDATE=1 cargo test -p keystead-commands --test docs"
    );
}

#[test]
fn the_settings_of_redis_are_current() {
    use keystead_commands::docs::{SETTINGS_BEGIN, SETTINGS_END, settings};

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/redis.md");
    let present = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = present.split_once(SETTINGS_BEGIN).expect("the line before what is made");
    let (part, after) = rest.split_once(SETTINGS_END).expect("the line after it");
    let made = format!("\n{}\n", settings());
    if std::env::var_os("KEYSTEAD_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{SETTINGS_BEGIN}{made}{SETTINGS_END}{after}")).unwrap();
        return;
    }
    assert!(
        part == made,
        "docs/redis.md is not what the table of settings says. Write it with:\n  \
         KEYSTEAD_UPDATE=1 cargo test -p keystead-commands --test docs"
    );
}
