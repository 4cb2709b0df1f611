//! Commands in the path: `/set/foo/bar?EX=100`. Pure.
//!
//! The path is split at each `/` before it is decoded, so `%2F` stays data. The body is one more argument, then follows the query.

use std::borrow::Cow;

use keystead_commands::Command;

use super::body::BodyError;
use crate::url::{self, BadEscape, parameters};

const BAD_ESCAPE: BodyError =
    BodyError("ERR failed to parse command: the path has a '%' without two hexadecimal digits");
const EMPTY: BodyError = BodyError("ERR empty command");

/// The parameter with the token.
pub const TOKEN: &str = "_token";

/// The command of a request.
///
/// # Errors
/// When it names none, or is not encoded correctly.
pub fn command(path: &str, body: &[u8], query: Option<&str>) -> Result<Command, BodyError> {
    let mut command = Command::default();
    for segment in segments(path)? {
        command.push(&segment);
    }
    if !body.is_empty() {
        command.push(body);
    }
    for (name, value) in parameters(query) {
        let name = decoded(name, true)?;
        if *name == *TOKEN.as_bytes() {
            continue;
        }
        command.push(&name);
        if let Some(value) = value {
            command.push(&decoded(value, true)?);
        }
    }
    if command.args().name().is_empty() { Err(EMPTY) } else { Ok(command) }
}

fn decoded(text: &str, is_query: bool) -> Result<Cow<'_, [u8]>, BodyError> {
    url::decoded(text, is_query).map_err(|BadEscape| BAD_ESCAPE)
}

/// The segments of a path, decoded. One empty segment at its end is ignored.
///
/// # Errors
/// When one is not encoded correctly.
pub fn segments(path: &str) -> Result<Vec<Cow<'_, [u8]>>, BodyError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(|segment| decoded(segment, false)).collect()
}

/// The token of a query, if it has one.
#[must_use]
pub fn token(query: Option<&str>) -> Option<Cow<'_, [u8]>> {
    parameters(query).find(|(name, _)| *name == TOKEN).and_then(|(_, value)| decoded(value?, true).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(path: &str, body: &str, query: &str) -> Result<Vec<Vec<u8>>, BodyError> {
        let command = command(path, body.as_bytes(), (!query.is_empty()).then_some(query))?;
        Ok(command.args().from(0).map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn parts_body_and_query_are_arguments_in_this_order() {
        for (path, body, query, expected) in [
            ("/get/foo", "", "", &["get", "foo"][..]),
            ("/set/foo", "v w", "EX=100", &["set", "foo", "v w", "EX", "100"]),
            ("/set/foo/bar", "", "_token=s3cret", &["set", "foo", "bar"]),
            ("/set/foo/bar", "", "_token=s&NX&px=5", &["set", "foo", "bar", "NX", "px", "5"]),
            ("/set/a%2Fb/c%20d+e", "", "", &["set", "a/b", "c d+e"]),
            ("/set/a//c/", "", "", &["set", "a", "", "c"]),
            ("/set/a", "", "x=%2B+1", &["set", "a", "x", "+ 1"]),
            ("/echo/a%3Db", "", "", &["echo", "a=b"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(words(path, body, query), Ok(expected), "{path} {query}");
        }
        assert_eq!(words("/set/k/%ff%00", "", ""), Ok(vec![b"set".into(), b"k".into(), vec![0xff, 0]]));
    }

    #[test]
    fn an_invalid_command_is_an_error() {
        for path in ["/", "", "//"] {
            assert_eq!(words(path, "", ""), Err(EMPTY), "{path}");
        }
        for path in ["/get/%", "/get/%2", "/get/%zz", "/get/%+1"] {
            assert_eq!(words(path, "", ""), Err(BAD_ESCAPE), "{path}");
        }
        assert_eq!(words("/get/k", "", "a=%x"), Err(BAD_ESCAPE));
    }

    #[test]
    fn the_token_of_a_query_is_decoded() {
        assert_eq!(token(Some("a=1&_token=a%2Bb")).as_deref(), Some(&b"a+b"[..]));
        assert_eq!(token(Some("_token")), None);
        assert_eq!(token(None), None);
    }

    proptest! {
        #[test]
        fn any_encoded_bytes_are_decoded(key: Vec<u8>) {
            let path: String = key.iter().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(words(&format!("/get/{path}/x"), "", ""), Ok(vec![b"get".to_vec(), key, b"x".to_vec()]));
        }

        #[test]
        fn no_path_panics(path in ".*", query in ".*") {
            let _ = words(&path, "", &query);
        }
    }
}
