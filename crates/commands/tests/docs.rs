//! docs/commands.md says what the table says.

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
