//! The errors of the command line: one line each, what is wrong and then what to do. Pure.

use std::fmt::Display;
use std::io;

use keystead_core::{Code, Error};

/// An error that keeps a command from running. `what` names the setting or thing concerned, `fix` says what the user can do.
#[must_use]
pub fn failure(what: impl Display, fix: impl Display) -> Error {
    Error::new(Code::ConfigInvalid, format!("{what}: {fix}"))
}

/// The line for stderr: one line, whatever the message contains.
#[must_use]
pub fn line(error: &Error) -> String {
    format!("keystead: {}", one_line(&error.to_string()))
}

/// A text with its line ends and other control characters replaced by spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// An I/O error in plain words: "permission denied" rather than "Permission denied (os error 13)".
#[must_use]
pub fn io_words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_whatever_it_quotes() {
        let error = failure("--data 'a\nb\u{1b}[31m' is bad", "choose\r\nanother");
        assert_eq!(line(&error), "keystead: --data 'a b [31m' is bad: choose  another");
    }

    #[test]
    fn io_errors_lose_their_numbers() {
        assert_eq!(io_words(&io::Error::from_raw_os_error(13)), "permission denied");
        assert_eq!(io_words(&io::Error::other("odd")), "odd");
    }
}
