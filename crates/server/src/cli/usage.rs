//! Turns the argument parser's errors, which have several lines, into one line. Pure.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use keystead_core::Error;

use super::SUBCOMMANDS;
use crate::failure::failure;
use crate::settings::{SETTINGS, Setting};
use crate::suggest;

const SEE_HELP: &str = "see keystead --help";

pub(super) fn failure_of(error: &clap::Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let argument = text(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let flags: Vec<String> = SETTINGS.iter().map(Setting::flag).collect();
            failure(
                format_args!("unknown flag '{argument}'"),
                meant(argument, flags.iter().map(String::as_str)),
            )
        }
        ErrorKind::UnknownArgument => failure(format_args!("unexpected argument '{argument}'"), SEE_HELP),
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand);
            failure(format_args!("unknown command '{word}'"), meant(word, SUBCOMMANDS.iter().map(|s| s.name)))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(words)) => words.join(" "),
                _ => "an argument".to_owned(),
            };
            failure(format_args!("{} is missing", missing.replace(['<', '>'], "")), SEE_HELP)
        }
        ErrorKind::InvalidValue => failure(format_args!("{} needs a value", flag_of(argument)), SEE_HELP),
        ErrorKind::ArgumentConflict => {
            failure(format_args!("{} is given more than once", flag_of(argument)), "keep one of them")
        }
        _ => failure(error.kind(), SEE_HELP),
    }
}

/// The flag in the parser's `--http <ADDR>`.
fn flag_of(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or(argument)
}

fn meant<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    match suggest::nearest(word, candidates) {
        Some(candidate) => format!("did you mean '{candidate}'?"),
        None => SEE_HELP.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(arguments: &[&str]) -> String {
        let all = ["keystead"].iter().chain(arguments);
        failure_of(&super::super::command().try_get_matches_from(all).unwrap_err()).to_string()
    }

    #[test]
    fn every_error_is_one_line_that_says_what_to_do() {
        for (arguments, line) in [
            (&["--htp", "x"][..], "unknown flag '--htp': did you mean '--http'?"),
            (&["serve", "--durabilty=fsync"], "unknown flag '--durabilty': did you mean '--durability'?"),
            (&["--nonsense"], "unknown flag '--nonsense': see keystead --help"),
            (&["-x"], "unknown flag '-x': see keystead --help"),
            (&["confg"], "unknown command 'confg': did you mean 'config'?"),
            (&["dance"], "unknown command 'dance': see keystead --help"),
            (&["serve", "dance"], "unexpected argument 'dance': see keystead --help"),
            (&["backup"], "DIR is missing: see keystead --help"),
            (&["check", "a", "b"], "unexpected argument 'b': see keystead --help"),
            (&["--http"], "--http needs a value: see keystead --help"),
            (&["--http", "--data", "x"], "--http needs a value: see keystead --help"),
            (&["--http", "a:1", "--http", "b:1"], "--http is given more than once: keep one of them"),
        ] {
            assert_eq!(error_of(arguments), line, "{arguments:?}");
        }
    }

    #[test]
    fn a_misspelt_token_flag_does_not_print_the_secret() {
        assert!(!error_of(&["--tokn=hunter2"]).contains("hunter2"));
    }
}
