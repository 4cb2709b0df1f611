//! The record that every compare-and-set store keeps under a key, its text form, and the state while steps run on it. Pure.
//!
//! | To find                               | open        |
//! |---------------------------------------|-------------|
//! | the names of writes                   | [`nonce`]   |
//! | steps that run on a record in memory  | [`working`] |
//!
//! ```text
//! 4821 2000000000123 1f00d-2,77aa-9
//! {"tokens":3.5}
//! ```
//!
//! The first line is the header: the version, a counter for servers without one of their own; `expires_at` in milliseconds or `-`
//! for never; and the last writers, latest first, or `-`. The JSON text of the state follows. A record without a state is a *tombstone*:
//! the key is absent, but its version is not, so that a late write cannot land on it. Scripts on Redis read and write the same
//! form.

pub mod nonce;
pub mod working;

use std::fmt::Write;

use crate::bounds::{HEADER_BYTES_MAX, WRITERS_MAX};
use crate::{Code, Error, Millis, Result};
pub use nonce::Nonce;
pub use working::{Ran, Working};

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts the changes of the key, from a random start, so that a key that is created anew has no version of its past.
    /// At most 2^53, because a script counts it in a double.
    pub version: u64,
    /// When the state expires.
    pub expires_at: Millis,
    /// The last write of each of the last writers, latest first.
    pub writers: Vec<Nonce>,
    /// The JSON text of the state; `None` is a tombstone.
    pub state: Option<String>,
}

/// Random versions start below this. It leaves 2^52 changes until 2^53.
const FIRST_VERSION_BITS: u32 = 52;

impl Record {
    /// The record after `before` with this state, written under `nonce`. `random` is where the versions of a new key start.
    #[must_use]
    pub fn after(
        before: Option<&Record>,
        random: u64,
        nonce: Nonce,
        state: Option<String>,
        expires_at: Millis,
    ) -> Record {
        let version = before.map_or(random >> (64 - FIRST_VERSION_BITS), |record| record.version) + 1;
        let others = before.map_or(&[][..], |record| &record.writers).iter();
        let others = others.filter(|other| other.writer != nonce.writer).copied();
        let writers = std::iter::once(nonce).chain(others).take(WRITERS_MAX).collect();
        Record { version, expires_at, writers, state }
    }

    /// Whether there is a state that is not expired.
    #[must_use]
    pub fn is_live(&self, now: Millis) -> bool {
        self.state.is_some() && now < self.expires_at
    }

    /// The text form.
    #[must_use]
    pub fn encode(&self) -> String {
        let state = self.state.as_deref().unwrap_or_default();
        let mut text = String::with_capacity(64 + state.len());
        // Writing to a string does not fail.
        let _ = write!(text, "{} ", self.version);
        match self.expires_at {
            Millis::NEVER => text.push('-'),
            Millis(ms) => drop(write!(text, "{ms}")),
        }
        for (i, nonce) in self.writers.iter().enumerate() {
            let _ = write!(text, "{}{nonce}", if i == 0 { ' ' } else { ',' });
        }
        if self.writers.is_empty() {
            text.push_str(" -");
        }
        debug_assert!(text.len() < HEADER_BYTES_MAX);
        text.push('\n');
        text.push_str(state);
        text
    }

    /// The record of a text form.
    ///
    /// # Errors
    /// `corrupt` when it is none: something else wrote the key.
    pub fn decode(text: &str) -> Result<Record> {
        Record::parse(text).ok_or_else(|| {
            Error::new(
                Code::Corrupt,
                "the key holds a value that this store did not write: use a prefix of its own",
            )
        })
    }

    fn parse(text: &str) -> Option<Record> {
        let (header, state) = text.split_once('\n')?;
        let mut words = header.split(' ');
        let version = words.next()?.parse().ok()?;
        let expires_at = match words.next()? {
            "-" => Millis::NEVER,
            ms => Millis(ms.parse().ok()?),
        };
        let writers = match words.next()? {
            "-" => Vec::new(),
            list => list.split(',').map(Nonce::parse).collect::<Option<_>>()?,
        };
        let state = (!state.is_empty()).then(|| state.to_owned());
        words.next().is_none().then_some(Record { version, expires_at, writers, state })
    }
}

/// The version in a text form, without decoding the rest: the token of a server that has no versions of its own.
#[must_use]
pub fn version_of(text: &str) -> Option<u64> {
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(writer: u64) -> Nonce {
        Nonce { writer, number: u64::MAX }
    }

    #[test]
    fn a_record_is_read_back() {
        for (expires_at, state, writers) in [
            (Millis(0), Some("[0.1,\"\\n\"]".to_owned()), vec![]),
            (Millis::NEVER, None, vec![nonce(1)]),
            (Millis(u64::MAX - 1), Some("null".to_owned()), (0..8).map(nonce).collect()),
        ] {
            let record = Record { version: (1 << 53) - 1, expires_at, writers, state };
            let text = record.encode();
            assert_eq!(Record::decode(&text).unwrap(), record, "{text}");
            assert_eq!(version_of(&text), Some(record.version));
        }
    }

    #[test]
    fn the_header_stays_within_its_bound() {
        let writers = vec![Nonce { writer: u64::MAX, number: u64::MAX }; WRITERS_MAX];
        let record = Record { version: 1 << 53, expires_at: Millis(u64::MAX - 1), writers, state: None };
        assert!(record.encode().len() <= HEADER_BYTES_MAX);
    }

    #[test]
    fn other_texts_are_corrupt() {
        for text in ["", "1", "1 2 3", "x - -\n1", "1 - -", "1 - - -\n1", "1 - 5\n1", "-1 - -\n1", "{}\n"] {
            assert_eq!(Record::decode(text).unwrap_err().code(), Code::Corrupt, "{text:?}");
        }
    }

    #[test]
    fn a_writer_is_named_once_and_the_oldest_is_dropped() {
        let mut record = None;
        for writer in 0..=WRITERS_MAX as u64 {
            record = Some(Record::after(record.as_ref(), 0, nonce(writer), None, Millis::NEVER));
        }
        let record = record.unwrap();
        assert_eq!(record.version, WRITERS_MAX as u64 + 1);
        assert_eq!(record.writers.len(), WRITERS_MAX);
        assert!(!record.writers.iter().any(|nonce| nonce.writer == 0));
        let again = Record::after(Some(&record), 0, nonce(1), None, Millis::NEVER);
        assert_eq!(again.writers.iter().filter(|nonce| nonce.writer == 1).count(), 1);
        assert_eq!(again.writers[0].writer, 1);
    }
}
