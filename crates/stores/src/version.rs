//! The version that a server states, and the oldest that a store works with. Pure.

use std::fmt;

use keystead_core::{Code, Error, Result};

/// The first two numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// The version in a text that begins with it, such as `15.8 (Debian 15.8-1)` or `v2.10.1`; `None` if there is none.
    fn parse(text: &str) -> Option<Version> {
        let text = text.trim_start().trim_start_matches('v');
        let mut numbers = text.split('.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse().ok()
        });
        Some(Version(numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    }
}

/// Rejects a server that states an older version than the oldest. What cannot be read as a version is accepted.
pub(crate) fn check(server: &str, states: &str, oldest: Version) -> Result<()> {
    match Version::parse(states) {
        Some(version) if version < oldest => {
            let message =
                format!("{server} is too old: it is {states}, and this store needs {oldest} or later");
            Err(Error::new(Code::Unsupported, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_first_two_numbers() {
        for (text, version) in [
            ("15.8 (Debian 15.8-0+deb12u1)", Version(15, 8)),
            ("9.4.26", Version(9, 4)),
            ("17beta1", Version(17, 0)),
            ("2.10.22", Version(2, 10)),
            ("v2.9.10-RC.3", Version(2, 9)),
            ("13", Version(13, 0)),
        ] {
            assert_eq!(Version::parse(text), Some(version), "{text}");
        }
        for text in ["", "main", "-1.2", "99999999999.1"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_server_that_is_too_old_is_unsupported_and_the_error_says_what_is_needed() {
        let error = check("the NATS server at localhost", "2.9.10", Version(2, 10)).unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        let words =
            "the NATS server at localhost is too old: it is 2.9.10, and this store needs 2.10 or later";
        assert_eq!(error.message(), words);
        for states in ["2.10.0", "2.11", "3.0", "unknown", ""] {
            assert!(check("a server", states, Version(2, 10)).is_ok(), "{states}");
        }
    }
}
