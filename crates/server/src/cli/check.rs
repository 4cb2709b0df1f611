//! `keystead check DIR`: checks the integrity of a database that no server has open. Touches that directory, and stdout.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use keystead_core::{Code, Error, Result};
use keystead_engine::{Report, check};

use super::{EXIT_FAILED, Operand, Subcommand};
use crate::failure::one_line;
use crate::settings::size::show_bytes;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "check",
    about: "Check the integrity of a database that no server has open",
    operands: &[Operand { name: "DIR", help: "The data directory, or a backup", required: true }],
    flags: &[],
    takes: |_| true,
    details: "\
Reads everything: checks SQLite's integrity, that every row has its key, the journal's checksums, and that both can
be loaded. Exits with 0 when the database is sound, 1 when it is not, 2 when it cannot be opened.",
    run,
};

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let dir = super::operand_path(matches, "DIR")?;
    let report = match check(&dir) {
        Ok(report) => report,
        // A damaged database.json is a problem of the database, not of the arguments.
        Err(error) if error.code() == Code::Corrupt => {
            Report { problems: vec![error.to_string()], ..Report::default() }
        }
        Err(error) => return Err(Error::new(Code::ConfigInvalid, format!("cannot check: {error}"))),
    };
    super::print(&shown(&dir, &report));
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

fn shown(dir: &Path, report: &Report) -> String {
    let mut text = one_line(&dir.display().to_string());
    text.push('\n');
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<10}  {value}");
    };
    line("shards", &report.shards.to_string());
    line("keys", &report.keys.to_string());
    line("unarchived", &format!("{} revisions, in the journal only", report.unarchived));
    line("torn", &format!("{} that a crash left behind, never acknowledged", show_bytes(report.torn_bytes)));
    for problem in &report.problems {
        line("problem", &one_line(problem));
    }
    text.push_str(if report.problems.is_empty() { "sound\n" } else { "not sound\n" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_ends_with_the_verdict() {
        let mut report = Report { shards: 4, keys: 7, unarchived: 2, torn_bytes: 1536, problems: vec![] };
        let expected = "d\n  \
            shards      4\n  \
            keys        7\n  \
            unarchived  2 revisions, in the journal only\n  \
            torn        1.5kb that a crash left behind, never acknowledged\n\
            sound\n";
        assert_eq!(shown(Path::new("d"), &report), expected);
        report.problems.push("shard 1:\nbad".into());
        assert!(shown(Path::new("d"), &report).ends_with("\n  problem     shard 1: bad\nnot sound\n"));
    }
}
