//! The parts of a request of the documents API: the key, the parameters, the condition, the expiry. Pure.

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use keystead_commands::documents::Condition;
use keystead_core::bounds::KEY_BYTES_MAX;
use keystead_core::{Millis, parse_duration_ms};
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use crate::error::ApiError;
use crate::parameters::{Parameters, decoded};

/// The parameters of queries. Each request takes a list of these, and its OpenAPI description is made from the same list.
pub mod name {
    /// The version that a change requires.
    pub const IF_VERSION: &str = "ifVersion";
    /// For how long.
    pub const TTL: &str = "ttl";
    /// Until when.
    pub const EXPIRES_AT: &str = "expiresAt";
    /// How long to wait until a change is in the targets of its sinks.
    pub const FLUSHED: &str = "flushed";
    /// How long to wait for a change.
    pub const WAIT: &str = "wait";
    /// After which version.
    pub const SINCE_VERSION: &str = "sinceVersion";
    /// The first bytes of keys.
    pub const PREFIX: &str = "prefix";
    /// The maximum of a page.
    pub const LIMIT: &str = "limit";
    /// Where a page begins.
    pub const CURSOR: &str = "cursor";
    /// Whether documents are listed.
    pub const VALUES: &str = "values";
}

/// The key in a path, as it was sent.
///
/// # Errors
/// When it is missing, too long, or not encoded correctly.
pub fn key(text: &str) -> Result<Bytes, ApiError> {
    if text.is_empty() {
        return Err(ApiError::bad("name a key in the path: /kv/KEY"));
    }
    if text.contains('/') {
        return Err(ApiError::bad("a '/' in a key is written %2F"));
    }
    let key = decoded(text, false)?;
    check(&key)?;
    Ok(Bytes::from(&key[..]))
}

/// Checks the length of a key.
///
/// # Errors
/// When it is not valid.
pub fn check(key: &[u8]) -> Result<(), ApiError> {
    if key.is_empty() {
        return Err(ApiError::bad("the key is empty"));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(ApiError::TooLarge(format!(
            "the key has {} bytes, the maximum is {KEY_BYTES_MAX}",
            key.len()
        )));
    }
    Ok(())
}

/// A condition, and the status if it does not hold: 409 for a parameter, 412 for a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The condition.
    pub condition: Condition,
    /// The status.
    pub status: StatusCode,
}

/// The condition of a change.
///
/// # Errors
/// When it is not valid.
pub fn guard(headers: &HeaderMap, parameters: &Parameters) -> Result<Guard, ApiError> {
    let by_header = match (if_match(headers)?, Tags::of(headers, &IF_NONE_MATCH)?) {
        (Some(_), Some(_)) => return Err(ApiError::bad("If-Match and If-None-Match contradict each other")),
        (Some(condition), None) => Some(condition),
        (None, Some(Tags::Any)) => Some(Condition::Absent),
        (None, Some(Tags::These(_))) => return Err(ApiError::bad("a change takes If-None-Match: * only")),
        (None, None) => None,
    };
    let by_parameter = parameters.number(name::IF_VERSION)?.map(|version| Condition::Version(vec![version]));
    match (by_parameter, by_header) {
        (Some(parameter), Some(header)) if parameter != header => {
            Err(ApiError::bad("ifVersion and the header require different versions"))
        }
        (Some(condition), _) => Ok(Guard { condition, status: StatusCode::CONFLICT }),
        (None, Some(condition)) => Ok(Guard { condition, status: StatusCode::PRECONDITION_FAILED }),
        (None, None) => Ok(Guard { condition: Condition::Any, status: StatusCode::CONFLICT }),
    }
}

/// The condition of `If-Match`. It compares strongly: a weak tag matches nothing.
fn if_match(headers: &HeaderMap) -> Result<Option<Condition>, ApiError> {
    Ok(Tags::of(headers, &IF_MATCH)?.map(|tags| match tags {
        Tags::Any => Condition::There,
        Tags::These(tags) => {
            Condition::Version(tags.iter().filter(|tag| !tag.is_weak).map(|tag| tag.version).collect())
        }
    }))
}

/// The conditions of a request that reads.
pub struct Reading {
    wanted: Condition,
    known: Option<Tags>,
}

impl Reading {
    /// Those of its headers.
    ///
    /// # Errors
    /// When one is not valid.
    pub fn of(headers: &HeaderMap) -> Result<Reading, ApiError> {
        let wanted = if_match(headers)?.unwrap_or(Condition::Any);
        Ok(Reading { wanted, known: Tags::of(headers, &IF_NONE_MATCH)? })
    }

    /// Whether `If-Match` allows the current version.
    #[must_use]
    pub fn allows(&self, current: Option<u64>) -> bool {
        self.wanted.holds(current)
    }

    /// Whether `If-None-Match` names this version. It compares weakly: proxies that compress weaken tags.
    #[must_use]
    pub fn knows(&self, version: u64) -> bool {
        match &self.known {
            None => false,
            Some(Tags::Any) => true,
            Some(Tags::These(tags)) => tags.iter().any(|tag| tag.version == version),
        }
    }
}

/// The entity tags of a header.
enum Tags {
    /// `*`
    Any,
    /// Those that are versions. Other tags match nothing.
    These(Vec<Tag>),
}

struct Tag {
    version: u64,
    is_weak: bool,
}

impl Tags {
    /// Of all lines of the header: a condition in a second line counts as much as one in the first.
    fn of(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, ApiError> {
        let mut all = Vec::new();
        let mut is_there = false;
        for value in headers.get_all(name) {
            is_there = true;
            let bad = || ApiError::bad(format!("{name} takes * or versions in quotes, as in \"3\""));
            let text = value.to_str().map_err(|_| bad())?.trim();
            if text == "*" {
                return Ok(Some(Tags::Any));
            }
            let mut rest = text;
            while !rest.is_empty() {
                let (weak, tag) = rest.strip_prefix("W/").map_or((false, rest), |tag| (true, tag));
                // A comma may be inside quotes.
                let (tag, after) =
                    tag.strip_prefix('"').and_then(|tag| tag.split_once('"')).ok_or_else(bad)?;
                all.extend(tag.parse().ok().map(|version| Tag { version, is_weak: weak }));
                rest = match after.trim_start().strip_prefix(',') {
                    Some(next) => next.trim_start(),
                    None if after.trim_start().is_empty() => "",
                    None => return Err(bad()),
                };
            }
            if text.is_empty() {
                return Err(bad());
            }
        }
        Ok(is_there.then_some(Tags::These(all)))
    }
}

/// The expiry that the parameters of a change set.
///
/// # Errors
/// When it is not valid.
pub fn expiry(parameters: &Parameters, otherwise: Expire) -> Result<Expiry, ApiError> {
    expiry_of(parameters.text(name::TTL)?, parameters.number(name::EXPIRES_AT)?, otherwise)
}

/// The expiry that is set: `30s`, `none` or `keep`, or a moment in milliseconds since 1970, or `otherwise`.
///
/// # Errors
/// When it is not valid.
pub fn expiry_of(ttl: Option<&str>, at: Option<u64>, otherwise: Expire) -> Result<Expiry, ApiError> {
    match (ttl, at) {
        (Some(_), Some(_)) => Err(ApiError::bad("ttl and expiresAt contradict each other")),
        (None, None) => Ok(Expiry::As(otherwise)),
        (Some("none"), None) => Ok(Expiry::As(Expire::At(Millis::NEVER))),
        (Some("keep"), None) => Ok(Expiry::As(Expire::Keep)),
        (Some(ttl), None) => match parse_duration_ms(ttl) {
            Ok(0) => Err(ApiError::bad("ttl is 0: delete the document, or write none or keep")),
            Ok(after_ms) => Ok(Expiry::After(after_ms)),
            Err(error) => Err(ApiError::bad(format!("ttl: {}", error.message()))),
        },
        // Redis commands return this time as a signed integer of 64 bits.
        (None, Some(at)) if i64::try_from(at).is_err() => Err(ApiError::bad("expiresAt is too far away")),
        (None, Some(at)) => Ok(Expiry::As(Expire::At(Millis(at)))),
    }
}

/// An expiry that may be relative to the time when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// As it is written.
    As(Expire),
    /// So many milliseconds after it is set.
    After(u64),
}

impl Expiry {
    /// The expiry at this time; nothing if it has passed already.
    #[must_use]
    pub fn at(self, now: Millis) -> Option<Expire> {
        match self {
            Expiry::As(Expire::At(at)) if at <= now => None,
            Expiry::As(expire) => Some(expire),
            Expiry::After(after_ms) => Some(Expire::At(Millis(now.0.saturating_add(after_ms)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::request::Parts;

    use super::*;

    fn head(target: &str, headers: &[(&'static str, &'static str)]) -> Parts {
        let mut request = http::Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    const KNOWN: &[&str] = &["ifVersion", "ttl", "expiresAt"];

    fn guarded(target: &str, headers: &[(&'static str, &'static str)]) -> Result<Guard, ApiError> {
        let head = head(target, headers);
        guard(&head.headers, &Parameters::of(&head, KNOWN)?)
    }

    #[test]
    fn keys_are_any_bytes_in_one_part_of_the_path() {
        let key = |target: &str| key(target.strip_prefix("/kv/").unwrap());
        assert_eq!(key("/kv/a%2Fb%00%FF+").unwrap(), *b"a/b\0\xff+");
        for target in ["/kv/", "/kv/a/b", "/kv/%zz", "/kv/%"] {
            assert!(matches!(key(target), Err(ApiError::Bad(_))), "{target}");
        }
        let long = format!("/kv/{}", "k".repeat(KEY_BYTES_MAX + 1));
        assert!(matches!(key(&long), Err(ApiError::TooLarge(_))));
    }

    #[test]
    fn conditions_come_as_parameter_or_header_but_not_both_and_different() {
        let conflict = |condition| Some(Guard { condition, status: StatusCode::CONFLICT });
        let failed = |condition| Some(Guard { condition, status: StatusCode::PRECONDITION_FAILED });
        let version = |n| Condition::Version(vec![n]);
        assert_eq!(guarded("/kv/a", &[]).ok(), conflict(Condition::Any));
        assert_eq!(guarded("/kv/a?ifVersion=3", &[]).ok(), conflict(version(3)));
        assert_eq!(guarded("/kv/a", &[("if-match", "\"3\"")]).ok(), failed(version(3)));
        assert_eq!(
            guarded("/kv/a", &[("if-match", "\"3\", \"4\"")]).ok(),
            failed(Condition::Version(vec![3, 4]))
        );
        assert_eq!(guarded("/kv/a", &[("if-match", "W/\"3\"")]).ok(), failed(Condition::Version(vec![])));
        assert_eq!(
            guarded("/kv/a", &[("if-match", "\"3\""), ("if-match", "\"x\",\"4\"")]).ok(),
            failed(Condition::Version(vec![3, 4])),
            "all lines of a header count"
        );
        assert_eq!(guarded("/kv/a", &[("if-match", "*")]).ok(), failed(Condition::There));
        assert_eq!(guarded("/kv/a", &[("if-none-match", "*")]).ok(), failed(Condition::Absent));
        assert_eq!(guarded("/kv/a?ifVersion=3", &[("if-match", "\"3\"")]).ok(), conflict(version(3)));
        for (target, headers) in [
            ("/kv/a?ifVersion=3", &[("if-match", "\"4\"")][..]),
            ("/kv/a?ifVersion=3", &[("if-none-match", "*")]),
            ("/kv/a", &[("if-match", "\"4\""), ("if-none-match", "*")]),
            ("/kv/a", &[("if-none-match", "\"4\"")]),
            ("/kv/a", &[("if-match", "3")]),
            ("/kv/a", &[("if-match", "")]),
            ("/kv/a?ifVersion=x", &[]),
            ("/kv/a?ifVersion=-1", &[]),
            ("/kv/a?ifversion=1", &[]),
            ("/kv/a?ifVersion=1&ifVersion=1", &[]),
        ] {
            assert!(matches!(guarded(target, headers), Err(ApiError::Bad(_))), "{target} {headers:?}");
        }
    }

    #[test]
    fn an_expiry_is_set_kept_or_cleared() {
        let expiry = |target: &str| {
            let head = head(target, &[]);
            expiry(&Parameters::of(&head, KNOWN)?, Expire::Keep)
        };
        assert!(matches!(expiry("/kv/a?expiresAt=18446744073709551615"), Err(ApiError::Bad(_))));
        let now = Millis(1000);
        assert_eq!(expiry("/kv/a").unwrap().at(now), Some(Expire::Keep));
        assert_eq!(expiry("/kv/a?ttl=30s").unwrap().at(now), Some(Expire::At(Millis(31_000))));
        assert_eq!(expiry("/kv/a?ttl=none").unwrap().at(now), Some(Expire::At(Millis::NEVER)));
        assert_eq!(expiry("/kv/a?expiresAt=2000").unwrap().at(now), Some(Expire::At(Millis(2000))));
        assert_eq!(expiry("/kv/a?expiresAt=1000").unwrap().at(now), None);
        for target in ["/kv/a?ttl=0s", "/kv/a?ttl=x", "/kv/a?ttl=1s&expiresAt=9", "/kv/a?expiresAt=soon"] {
            assert!(expiry(target).is_err(), "{target}");
        }
    }
}
