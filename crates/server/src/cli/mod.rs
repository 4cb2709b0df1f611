//! The command line: `keystead [SUBCOMMAND] [flags]`. Touches arguments, the environment, stdout, stderr
//! and the exit code.
//!
//! A subcommand is one file here and one row in `SUBCOMMANDS`. Every error is one line on stderr.

mod backup;
mod check;
mod client;
mod cluster;
mod config;
mod health;
mod limit;
mod progress;
mod router;
mod serve;
mod sink;
mod storage;
mod store;
mod sync;
mod usage;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use keystead_core::{Code, Error, Result};
use rustix::fs::Mode;

use crate::LONG_VERSION;
use crate::failure::{failure, line, one_line};
use crate::settings::{Loaded, SETTINGS, Setting, Sources};

/// The exit code of a command that ran and failed.
pub const EXIT_FAILED: u8 = 1;

/// The exit code of a command whose arguments or settings are invalid.
pub const EXIT_INVALID: u8 = 2;

struct Subcommand {
    name: &'static str,
    about: &'static str,
    /// Its positional arguments.
    operands: &'static [Operand],
    /// The flags that only it has.
    flags: &'static [Flag],
    /// Which settings it uses. The flags of others are an error.
    takes: fn(&Setting) -> bool,
    /// The end of its help.
    details: &'static str,
    run: fn(&ArgMatches) -> Result<ExitCode>,
}

struct Operand {
    name: &'static str,
    help: &'static str,
    required: bool,
}

struct Flag {
    name: &'static str,
    /// Empty for a flag without a value.
    value_name: &'static str,
    help: &'static str,
    required: bool,
    /// Whether it may be given several times.
    many: bool,
}

const SUBCOMMANDS: [Subcommand; 12] = [
    serve::SUBCOMMAND,
    config::SUBCOMMAND,
    health::SUBCOMMAND,
    backup::SUBCOMMAND,
    check::SUBCOMMAND,
    limit::SUBCOMMAND,
    store::SUBCOMMAND,
    sync::SUBCOMMAND,
    router::SUBCOMMAND,
    cluster::SUBCOMMAND,
    sink::SUBCOMMAND,
    storage::SUBCOMMAND,
];

/// What `keystead` without a subcommand does.
const DEFAULT_SUBCOMMAND: Subcommand = serve::SUBCOMMAND;

const ABOUT: &str = "Keystead, a durable Redis-compatible server: every change is atomic, and acknowledged once it is durable.";

const EXAMPLES: &str = "\
A flag wins over a variable (KEYSTEAD_HTTP=...), a variable over the file (http = \"...\"), the file
over the default. Other machines need a token: without one, only loopback addresses are served.

Examples:
  keystead                                   serve on 127.0.0.1:8080, data in ./keystead-data
  keystead --durability memory               try it out, persist nothing
  keystead --http 127.0.0.1:0                use any free port; the ready block says which
  KEYSTEAD_TOKEN=$(openssl rand -hex 32) keystead --http 0.0.0.0:8080
                                             serve other machines; they need the token
  keystead config                            show every setting and where it came from
  keystead health                            ask the running server whether it is healthy
  keystead backup /backups/monday            copy the database of the running server
  keystead check /backups/monday             check the integrity of a copy
  keystead limit replay --policy POLICY      try a rate limit on recorded traffic
  keystead store verify redis://localhost    check that a server of yours is a correct store
  keystead sync token --client c --prefix p  a token for an offline client
  keystead router --nodes URL,URL            one address for several servers
  keystead cluster status --cluster URL      show the nodes and slots of a cluster
  keystead sink list                         show how far other databases are behind
  keystead storage DIR                       one SQLite file for servers with --storage";

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // All files that this process creates are for its user only, also those of libraries.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let done = match command().try_get_matches_from(arguments) {
        Ok(matches) => run(&matches),
        Err(error) if error.use_stderr() => Err(usage::failure_of(&error)),
        // Help and version are no errors.
        Err(error) => {
            let _ = error.print();
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        // Without a stderr the error cannot be reported.
        let _ = writeln!(std::io::stderr(), "{}", line(&error));
        ExitCode::from(exit_code(&error))
    })
}

/// Invalid arguments and settings are `config_invalid`, wherever that is found.
fn exit_code(error: &Error) -> u8 {
    if error.code() == Code::ConfigInvalid { EXIT_INVALID } else { EXIT_FAILED }
}

fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        None => {
            reject_unused(&DEFAULT_SUBCOMMAND, matches)?;
            (DEFAULT_SUBCOMMAND.run)(matches)
        }
        Some((name, matches)) => {
            let chosen = SUBCOMMANDS.iter().find(|s| s.name == name).unwrap_or(&DEFAULT_SUBCOMMAND);
            reject_unused(chosen, matches)?;
            (chosen.run)(matches)
        }
    }
}

/// Rejects flags that would have no effect: the user expects one.
fn reject_unused(chosen: &Subcommand, matches: &ArgMatches) -> Result<()> {
    let unused = |setting: &&Setting| !(chosen.takes)(setting) && matches.contains_id(setting.name);
    match SETTINGS.iter().find(unused) {
        None => Ok(()),
        Some(setting) => {
            let name = chosen.name;
            Err(failure(
                format_args!("{} has no effect on keystead {name}", setting.flag()),
                format_args!("leave it out; see keystead {name} --help"),
            ))
        }
    }
}

fn command() -> Command {
    Command::new("keystead")
        .version(LONG_VERSION)
        .about(ABOUT)
        .after_help(EXAMPLES)
        .subcommands(SUBCOMMANDS.iter().map(subcommand))
        .args(SETTINGS.iter().map(argument))
}

fn subcommand(row: &Subcommand) -> Command {
    let operands = row.operands.iter().map(|operand| {
        Arg::new(operand.name)
            .help(operand.help)
            .required(operand.required)
            .value_parser(clap::value_parser!(OsString))
    });
    let flags = row.flags.iter().map(|flag| {
        let arg = Arg::new(flag.name).long(flag.name).help(flag.help).required(flag.required);
        match (flag.value_name, flag.many) {
            ("", _) => arg.action(ArgAction::SetTrue),
            (name, true) => arg.value_name(name).action(ArgAction::Append),
            (name, false) => arg.value_name(name).action(ArgAction::Set),
        }
    });
    // Every setting is a flag of every subcommand; help hides those that it does not use.
    let unused = SETTINGS.iter().filter(|setting| !(row.takes)(setting)).map(|s| argument(s).hide(true));
    Command::new(row.name).about(row.about).after_help(row.details).args(operands).args(flags).args(unused)
}

/// The positional argument of a subcommand, as a path.
fn operand_path(matches: &ArgMatches, name: &str) -> Result<PathBuf> {
    let word = matches.get_one::<OsString>(name).cloned().unwrap_or_default();
    if word.is_empty() {
        return Err(failure(format_args!("{name} is empty"), "write a path"));
    }
    Ok(word.into())
}

/// The flag of a setting, before or after the subcommand.
fn argument(setting: &'static Setting) -> Arg {
    let help = match setting.default {
        Some(default) => format!("{} [default: {default}]", setting.help),
        None => setting.help.to_owned(),
    };
    Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.value_name)
        .value_parser(clap::value_parser!(OsString))
        .allow_negative_numbers(true)
        .help(help)
        .help_heading("Settings, each also a KEYSTEAD_* variable and a key in keystead.toml")
        .global(true)
}

/// The settings in force, from the flags of this command, the environment and the file.
fn load(matches: &ArgMatches) -> Result<Loaded> {
    let flag = |s: &Setting| Some((s.name, matches.get_one::<OsString>(s.name)?.clone()));
    Loaded::from_sources(Sources {
        flags: SETTINGS.iter().filter_map(flag).collect(),
        variables: std::env::vars_os().collect(),
    })
}

/// Prints warnings about the settings, for commands that have no log.
fn warn(warnings: &[String]) {
    for warning in warnings {
        // Without a stderr the warning cannot be reported.
        let _ = writeln!(std::io::stderr(), "keystead: warning: {}", one_line(warning));
    }
}

/// Prints on stdout. A closed pipe (`keystead config | head -1`) is no error.
fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn every_setting_is_a_flag_of_every_subcommand() {
        for prefix in [
            &["keystead"][..],
            &["keystead", "serve"],
            &["keystead", "config"],
            &["keystead", "health"],
            &["keystead", "backup", "d"],
            &["keystead", "check", "d"],
            &["keystead", "limit", "replay", "--policy", "{}"],
            &["keystead", "store", "verify", "memory:"],
            &["keystead", "sync", "token", "--client", "c", "--prefix", "p"],
            &["keystead", "router"],
            &["keystead", "cluster", "status"],
            &["keystead", "sink", "list"],
            &["keystead", "storage", "d"],
        ] {
            for setting in SETTINGS {
                let flag = setting.flag();
                let matches = command()
                    .try_get_matches_from(prefix.iter().copied().chain([flag.as_str(), "x"]))
                    .unwrap();
                let leaf = matches.subcommand().map_or(&matches, |(_, leaf)| leaf);
                assert_eq!(
                    leaf.get_one::<OsString>(setting.name),
                    Some(&OsString::from("x")),
                    "{prefix:?} {flag}"
                );
            }
        }
    }

    #[test]
    fn a_flag_without_effect_is_rejected_in_any_position() {
        let replay = ["limit", "replay", "--policy", "{}"];
        for setting in SETTINGS {
            let flag = [setting.flag(), "x".to_owned()];
            let flag = flag.each_ref().map(String::as_str);
            for words in [[&flag[..], &replay].concat(), [&replay[..], &flag].concat()] {
                let matches = command().try_get_matches_from([&["keystead"], &words[..]].concat()).unwrap();
                let (_, matches) = matches.subcommand().unwrap();
                let rejected = reject_unused(&limit::SUBCOMMAND, matches);
                assert_eq!(rejected.is_ok(), setting.name == "config", "{words:?}");
            }
        }
    }

    #[test]
    fn invalid_arguments_have_their_own_exit_code() {
        assert_eq!(exit_code(&failure("--http x", "write y")), EXIT_INVALID);
        assert_eq!(
            exit_code(&Error::new(Code::StoreUnavailable, "the database was closed, but: x")),
            EXIT_FAILED
        );
    }
}
