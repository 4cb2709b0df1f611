//! Other people's programs in tests: where `./test` puts them, and what a test does where one is missing.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};

/// Where `./test` puts other people's programs.
pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

/// A test with a program of others; skipped with the reason where that is missing, unless `REQUIRE=` names the test.
pub(crate) fn trial(
    name: &'static str,
    missing: Option<&'static str>,
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let required = std::env::var("REQUIRE").unwrap_or_default().to_lowercase();
    let is_required =
        required.split(',').any(|wanted| matches!(wanted.trim(), "all") || wanted.trim() == name);
    match missing {
        None => Trial::test(name, run),
        Some(reason) if is_required => {
            Trial::test(name, move || Err(Failed::from(format!("{name} is required and missing: {reason}"))))
        }
        Some(reason) => Trial::test(name, move || Err(Failed::from(format!("skipped: {reason}"))))
            .with_ignored_flag(true)
            .with_kind(format!("skipped: {reason}")),
    }
}
