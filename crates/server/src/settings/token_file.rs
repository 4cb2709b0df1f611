//! Tokens in files. Touches those files, for reading.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::Token;
use super::value::InvalidValue;
use crate::bounds::TOKEN_FILE_BYTES_MAX;
use crate::failure::io_words;
use crate::permissions::{self, Exposure};

const FIX: &str = "name a file that contains only the token, for example the output of openssl rand -hex 32";

/// The token in a file, without line ends after it, and a warning if other users can read it.
///
/// # Errors
/// Why it is not a token file.
pub(crate) fn read(path: &Path) -> Result<(Token, Option<String>), InvalidValue> {
    let cannot = |e: std::io::Error| InvalidValue::new(format!("cannot be read ({})", io_words(&e)), FIX);
    // Before it is opened: opening a pipe without a writer would block.
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(InvalidValue::new("is not a regular file", FIX));
    }
    let warning = match permissions::secret("token file", path) {
        None => None,
        Some(Exposure::Open(warning)) => Some(warning),
        Some(Exposure::Foreign(owner)) => {
            let why =
                format!("belongs to another user (uid {owner}), who knows the token and could change it");
            return Err(InvalidValue::new(why, "make it your own or root's with chown"));
        }
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(TOKEN_FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(cannot)?;
    if bytes.len() as u64 > TOKEN_FILE_BYTES_MAX {
        return Err(InvalidValue::new(format!("holds more than {TOKEN_FILE_BYTES_MAX} bytes"), FIX));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| InvalidValue::new("holds a token with a character that is not visible ASCII", FIX))?;
    let token = Token::parse(text.trim_end_matches(['\r', '\n']))
        .map_err(|error| InvalidValue::new(format!("holds a token that {}", error.why), error.fix))?;
    Ok((token, warning))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::bounds::TOKEN_BYTES_MAX;

    fn read_text(text: &[u8], mode: u32) -> Result<(Token, Option<String>), InvalidValue> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        read(&path)
    }

    #[test]
    fn line_ends_are_not_part_of_the_token() {
        for text in ["s3cret", "s3cret\n", "s3cret\r\n", "s3cret\n\n"] {
            let (token, warning) = read_text(text.as_bytes(), 0o600).unwrap();
            assert!(token.matches(b"s3cret") && warning.is_none(), "{text:?}");
        }
        let longest = "x".repeat(TOKEN_BYTES_MAX) + "\r\n";
        assert!(read_text(longest.as_bytes(), 0o600).is_ok());
    }

    #[test]
    fn an_invalid_token_file_is_an_error_with_the_reason() {
        for (text, why) in [
            (&b""[..], "holds a token that is empty"),
            (b"\n", "holds a token that is empty"),
            (b"two words", "contains a space"),
            (b"one\ntwo\n", "contains a space"),
            (b"\xff\xfe", "not visible ASCII"),
            (&[b'x'; 5000], "holds more than "),
        ] {
            let error = read_text(text, 0o600).unwrap_err();
            assert!(error.why.contains(why), "{error:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap_err().why, "is not a regular file");
        assert!(read(&dir.path().join("none")).unwrap_err().why.starts_with("cannot be read (no such file"));
    }

    #[test]
    fn a_file_that_others_can_read_causes_a_warning() {
        let (_, warning) = read_text(b"s3cret", 0o644).unwrap();
        let warning = warning.unwrap();
        assert!(warning.starts_with("token file '") && warning.contains("chmod 600 "), "{warning}");
        assert!(!warning.contains("s3cret"));
    }
}
