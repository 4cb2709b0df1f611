//! `keystead config`: print every setting in force and where it came from. Touches stdout.

use std::fmt::Write;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::Result;
use keystead_limit::FailMode;

use super::Subcommand;
use crate::policies::file::Definition;
use crate::settings::Value;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "config",
    about: "Print every setting in force and where it came from",
    operands: &[],
    flags: &[],
    takes: |_| true,
    details: "",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let loaded = super::load(matches)?;
    super::warn(&loaded.warnings);
    super::print(&(columns(&loaded.values) + &limits(&loaded.settings.policies)));
    Ok(ExitCode::SUCCESS)
}

fn columns(values: &[Value]) -> String {
    let width = |length: fn(&Value) -> usize| values.iter().map(length).max().unwrap_or(0);
    let name_width = width(|v| v.setting.name.len());
    let value_width = width(|v| v.shown().chars().count());
    values.iter().fold(String::new(), |mut text, value| {
        let (name, shown, source) = (value.setting.name, value.shown(), &value.source);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<name_width$}  {shown:<value_width$}  {source}");
        text
    })
}

/// The policies, one line each.
fn limits(policies: &[Definition]) -> String {
    let width = policies.iter().map(|definition| definition.name.len()).max().unwrap_or(0);
    policies.iter().fold(String::new(), |mut text, definition| {
        let (name, kind, store) = (&definition.name, definition.policy.kind(), definition.store.shown());
        let fail = definition.policy.fail().map_or("", FailMode::as_str);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "limit.{name:<width$}  {kind}, store {store}, fail {fail}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies;
    use crate::settings::{Loaded, SETTINGS, Sources};

    #[test]
    fn columns_are_aligned_and_complete() {
        let flags = vec![("data", "/a/rather/long/path".into()), ("token", "hunter2".into())];
        let loaded = Loaded::from_sources(Sources { flags, variables: Vec::new() }).unwrap();
        let text = columns(&loaded.values);
        assert_eq!(text.lines().count(), SETTINGS.len());
        assert!(text.contains("http                  127.0.0.1:8080       default\n"), "{text}");
        assert!(text.contains("data                  /a/rather/long/path  flag\n"), "{text}");
        assert!(text.contains("token                 (set)                flag\n"), "{text}");
    }

    #[test]
    fn policies_are_shown_without_the_secrets_of_their_stores() {
        let text = "[limit.a]\nlimit = 1\nperiodMs = 1\nfail = \"open\"\nstore = \"redis://:secret@host\"";
        let shown = limits(&policies::file::parse(text, "k.toml").unwrap());
        assert_eq!(shown, "limit.a  gcra, store redis, fail open\n");
    }
}
