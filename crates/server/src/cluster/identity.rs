//! The id of a server: random, and in a file of its data directory, so that two servers are never taken for one node. Touches that file.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use keystead_core::{Code, Error, Result};

use super::copy::{read, replace};

/// The name of the file. It holds the id and nothing else.
const FILE: &str = "server-id";

/// Digits of an id.
const DIGITS: usize = 32;

/// The id of the server with this data directory, which gets one if it has none. It is on disk then.
///
/// # Errors
/// `store_unavailable` when the file cannot be read or written, `corrupt` when it holds something else.
pub(crate) fn of(dir: &Path) -> Result<String> {
    if let Some(text) = read(dir, FILE)? {
        let id = text.trim_end();
        return match id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(id.to_owned()),
            false => Err(Error::new(Code::Corrupt, format!("{FILE} holds no id of a server"))),
        };
    }
    // Each of the two has keys of its own from the system.
    let half = || RandomState::new().hash_one(0u8);
    let id = format!("{:016x}{:016x}", half(), half());
    replace(dir, FILE, &format!("{id}\n"))?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_id_and_others_have_others() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = of(one.path()).unwrap();
        assert_eq!(of(one.path()).unwrap(), id);
        assert_ne!(of(two.path()).unwrap(), id);
        std::fs::write(one.path().join(FILE), "nonsense").unwrap();
        assert_eq!(of(one.path()).unwrap_err().code(), Code::Corrupt);
    }
}
