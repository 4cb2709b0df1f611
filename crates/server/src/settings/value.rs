//! The types of the settings' values, and how each is parsed. Pure.
//!
//! An error says why and what to write instead; the layers add the source of the text.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use keystead_cluster::NodeId;
use keystead_cluster::bounds::NAME_BYTES_MAX;
pub use keystead_engine::Durability;
use keystead_engine::bounds::SHARDS_MAX;
use keystead_stores::redis::Upstream;
use subtle::ConstantTimeEq;

use crate::bounds::{ALLOWED_HOSTS_MAX, MEMORY_BYTES_MIN, TOKEN_BYTES_ADVISED, TOKEN_BYTES_MAX};
use crate::cluster::{ADDRESS_FORM, Addresses};
use crate::stores::StoreName;
use crate::suggest;

use super::size::{parse_size_bytes, show_bytes};

/// Why a text is not a valid value: `why` continues "the value ...", `fix` says what to do.
#[derive(Debug)]
pub struct InvalidValue {
    /// For example "is not a power of two".
    pub why: String,
    /// For example "write 1, 2, 4, ... or 256".
    pub fix: String,
}

impl InvalidValue {
    pub(crate) fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        InvalidValue { why: why.into(), fix: fix.into() }
    }
}

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// The listener is off.
    Off,
    /// A host (a name, an IPv4 or an IPv6 address) and a port.
    At {
        /// Without the brackets of an IPv6 address.
        host: String,
        /// 0: any free port.
        port: u16,
    },
}

impl Listen {
    /// Parses `off`, `HOST:PORT` or `[IPV6]:PORT`.
    pub(crate) fn parse(text: &str) -> Result<Listen, InvalidValue> {
        if text == "off" {
            return Ok(Listen::Off);
        }
        let invalid = |why: &str| {
            InvalidValue::new(why, "write HOST:PORT, for example 127.0.0.1:8080 or [::1]:8080, or off")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| invalid("is not an address"))?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match bare {
            Some(ipv6) => ipv6,
            None if host.contains(':') => return Err(invalid("is an IPv6 address without brackets")),
            None => host,
        };
        if host.is_empty() {
            return Err(invalid("names no host"));
        }
        if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid("names no port"));
        }
        let port = port.parse().map_err(|_| invalid("has a port over 65535"))?;
        Ok(Listen::At { host: host.to_owned(), port })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Off => f.write_str("off"),
            Listen::At { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Listen::At { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// Parses a level of durability.
pub(crate) fn durability(text: &str) -> Result<Durability, InvalidValue> {
    let levels = [Durability::Fsync, Durability::Commit, Durability::Memory];
    one_of(text, &levels.map(|level| (level.as_str(), level)))
}

/// Parses the URL of a store, as far as its scheme. It may contain a password.
pub(crate) fn store_name(text: &str) -> Result<StoreName, InvalidValue> {
    let schemes: Vec<&str> = keystead_stores::SCHEMES.iter().map(|scheme| scheme.name).collect();
    match text.split_once(':') {
        Some((scheme, _)) if schemes.contains(&scheme) => Ok(StoreName::new(text.to_owned())),
        _ => {
            let fix = format!("write a URL that begins with {}", schemes.join(":, "));
            Err(InvalidValue::new("names no store that this build has", format!("{fix}:")))
        }
    }
}

/// Parses the id of a node of a cluster.
pub(crate) fn node_id(text: &str) -> Result<NodeId, InvalidValue> {
    let fix = format!("write 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-'");
    NodeId::new(text).map_err(|_| InvalidValue::new("is not the id of a node", fix))
}

/// Parses the addresses of a node of a cluster.
pub(crate) fn addresses(text: &str) -> Result<Addresses, InvalidValue> {
    Addresses::parse(text).map_err(|why| InvalidValue::new(why, ADDRESS_FORM))
}

/// Parses the URL of an upstream, as far as its scheme. It may contain a password.
pub(crate) fn upstream(text: &str) -> Result<StoreName, InvalidValue> {
    match text.split_once(':') {
        Some((scheme, _)) if Upstream::schemes().any(|known| known == scheme) => {
            Ok(StoreName::new(text.to_owned()))
        }
        _ => {
            let fix = "write redis://HOST:6379, rediss://HOST:6379 or redis+cluster://HOST:6379,HOST:6379";
            Err(InvalidValue::new("is no URL of Redis", fix))
        }
    }
}

/// The form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    pub(crate) fn parse(text: &str) -> Result<LogFormat, InvalidValue> {
        one_of(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
    }
}

/// The secret that a request must send. It cannot be printed. Clones share the token: replacing one replaces all of them.
#[derive(Clone)]
pub struct Token(Arc<RwLock<String>>);

impl Token {
    /// Parses a token: visible ASCII, because it is sent in an HTTP header without encoding.
    pub(crate) fn parse(text: &str) -> Result<Token, InvalidValue> {
        let fix = "use visible ASCII without spaces, for example the output of openssl rand -hex 32";
        if text.is_empty() {
            return Err(InvalidValue::new("is empty", fix));
        }
        if text.len() > TOKEN_BYTES_MAX {
            return Err(InvalidValue::new(format!("is longer than {TOKEN_BYTES_MAX} bytes"), fix));
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(InvalidValue::new("contains a space or a character that is not visible ASCII", fix));
        }
        Ok(Token(Arc::new(RwLock::new(text.to_owned()))))
    }

    /// Whether it is so short that it might be guessed.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.text().len() < TOKEN_BYTES_ADVISED
    }

    /// The token for the AUTH of a node.
    pub(crate) fn secret(&self) -> String {
        self.text().clone()
    }

    /// The header with the token. Nothing but this, its value and [`secret`](Token::secret) reveals the secret.
    pub(crate) fn authorization(&self) -> String {
        format!("Authorization: {}\r\n", self.bearer())
    }

    /// The value of that header.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.text())
    }

    /// Whether `offered` is this token. The time depends on the length only.
    #[must_use]
    pub fn matches(&self, offered: &[u8]) -> bool {
        self.text().as_bytes().ct_eq(offered).into()
    }

    /// Replaces the text by that of another token, for all clones.
    pub(crate) fn replace(&self, other: &Token) {
        let text = other.text().clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn text(&self) -> RwLockReadGuard<'_, String> {
        // Nothing panics while it is replaced.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Token) -> bool {
        // Not with both locks at once: they may be the same lock.
        let other = other.text().clone();
        self.matches(other.as_bytes())
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

/// Parses host names that are separated by commas.
pub(crate) fn host_names(text: &str) -> Result<Vec<String>, InvalidValue> {
    let fix = "write names or addresses without ports, for example keystead,db.internal";
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.len() > ALLOWED_HOSTS_MAX {
        return Err(InvalidValue::new(format!("has more than {ALLOWED_HOSTS_MAX} names"), fix));
    }
    match names.iter().find(|name| !is_host_name(name)) {
        Some(name) if name.contains('*') => {
            Err(InvalidValue::new("allows any host", format!("set a token instead, or {fix}")))
        }
        Some(name) if name.is_empty() => Err(InvalidValue::new("has an empty name", fix)),
        Some(_) => Err(InvalidValue::new("has an invalid host name", fix)),
        None => Ok(names),
    }
}

/// Whether this is a valid host name, or an address without brackets.
pub(crate) fn is_host_name(name: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_address = || name.parse::<std::net::IpAddr>().is_ok();
    !name.is_empty() && name.len() <= 253 && (name.bytes().all(is_name) || is_address())
}

/// The number of shards is chosen by the number of cores.
pub(crate) const AUTO: &str = "auto";

/// How many shards a database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// So many, a power of two.
    Number(usize),
    /// An existing database keeps its number; a new one has as many as the machine has cores, rounded down to a power of two.
    Auto,
}

impl Shards {
    /// The number for a new database on a machine with so many cores.
    #[must_use]
    pub fn for_new(self, cores: usize) -> usize {
        match self {
            Shards::Number(number) => number,
            Shards::Auto => 1 << cores.clamp(1, SHARDS_MAX).ilog2(),
        }
    }
}

/// Parses a number of shards, or `auto`.
pub(crate) fn shards(text: &str) -> Result<Shards, InvalidValue> {
    if text == AUTO {
        return Ok(Shards::Auto);
    }
    let fix = format!("write 1, 2, 4, 8, ... up to {SHARDS_MAX}, or {AUTO}");
    let n: u64 =
        text.parse().map_err(|_| InvalidValue::new("is not a whole number of shards", fix.as_str()))?;
    if !n.is_power_of_two() {
        return Err(InvalidValue::new("is not a power of two", fix));
    }
    usize::try_from(n)
        .ok()
        .filter(|n| *n <= SHARDS_MAX)
        .map(Shards::Number)
        .ok_or_else(|| InvalidValue::new(format!("is more than {SHARDS_MAX} shards"), fix))
}

/// Parses how much memory values may use: a size, or `unlimited`.
pub(crate) fn memory(text: &str) -> Result<Option<usize>, InvalidValue> {
    if text == "unlimited" {
        return Ok(None);
    }
    let or_unlimited =
        |error: InvalidValue| InvalidValue::new(error.why, format!("{}, or unlimited", error.fix));
    let bytes = parse_size_bytes(text).map_err(or_unlimited)?;
    if bytes < MEMORY_BYTES_MIN {
        let least = show_bytes(MEMORY_BYTES_MIN);
        return Err(InvalidValue::new(
            format!("is less than {least}"),
            format!("write {least} or more, or unlimited"),
        ));
    }
    // More than the address space is unlimited.
    Ok(usize::try_from(bytes).ok())
}

/// Parses a path.
pub(crate) fn path(text: &str) -> Result<std::path::PathBuf, InvalidValue> {
    if text.is_empty() { Err(InvalidValue::new("is empty", "write a path")) } else { Ok(text.into()) }
}

/// Parses one of these words.
pub(crate) fn one_of<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, InvalidValue> {
    if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    let fix = match suggest::nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean '{word}'?"),
        None => "write one of these".to_owned(),
    };
    Err(InvalidValue::new(format!("is not one of {}", words.join(", ")), fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_they_were_written() {
        for text in ["off", "127.0.0.1:8080", "[::1]:0", "localhost:65535", "0.0.0.0:1"] {
            assert_eq!(Listen::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_addresses_are_errors_with_the_reason() {
        for (text, why) in [
            ("", "not an address"),
            ("8080", "not an address"),
            (":8080", "no host"),
            ("localhost:", "no port"),
            ("localhost:http", "no port"),
            ("localhost:+80", "no port"),
            ("localhost:65536", "over 65535"),
            ("::1:8080", "without brackets"),
            ("Off", "not an address"),
        ] {
            assert!(Listen::parse(text).unwrap_err().why.contains(why), "{text}");
        }
    }

    #[test]
    fn shards_are_a_power_of_two_within_the_bound() {
        for n in [1, 2, 64, 256] {
            assert_eq!(shards(&n.to_string()).unwrap(), Shards::Number(n));
        }
        for (text, why) in [
            ("0", "power of two"),
            ("3", "power of two"),
            ("-1", "whole number"),
            ("two", "whole number"),
            ("512", "more than 256"),
            ("65536", "more than 256"),
        ] {
            assert!(shards(text).unwrap_err().why.contains(why), "{text}");
        }
    }

    #[test]
    fn auto_is_the_number_of_cores_rounded_down_to_a_power_of_two() {
        assert_eq!(shards("auto").unwrap(), Shards::Auto);
        for (cores, number) in
            [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (6, 4), (96, 64), (300, 256), (1000, 256)]
        {
            assert_eq!(Shards::Auto.for_new(cores), number, "{cores} cores");
        }
        assert_eq!(Shards::Number(4).for_new(64), 4);
    }

    #[test]
    fn durability_is_one_of_three_words() {
        assert_eq!(durability("commit").unwrap(), Durability::Commit);
        assert_eq!(durability("fsnyc").unwrap_err().fix, "did you mean 'fsync'?");
    }

    #[test]
    fn memory_is_a_size_above_the_minimum_or_unlimited() {
        assert_eq!(memory("unlimited").unwrap(), None);
        assert_eq!(memory("512mb").unwrap(), Some(512 << 20));
        for (text, why) in
            [("512", "no unit"), ("1kb", "less than 1mb"), ("0b", "less than 1mb"), ("", "not a size")]
        {
            let error = memory(text).unwrap_err();
            assert!(error.why.contains(why) && error.fix.ends_with(", or unlimited"), "{text}: {error:?}");
        }
    }

    #[test]
    fn hosts_are_names_without_ports() {
        assert_eq!(host_names("keystead, db.internal,10.0.0.1,::1").unwrap().len(), 4);
        for (text, why) in [
            ("", "empty name"),
            ("a,,b", "empty name"),
            ("*", "any host"),
            ("*.example", "any host"),
            ("db:8080", "invalid host name"),
            ("http://db", "invalid host name"),
            ("a b", "invalid host name"),
        ] {
            assert!(host_names(text).unwrap_err().why.contains(why), "{text}");
        }
    }

    #[test]
    fn a_token_matches_only_itself_and_shows_nothing() {
        let token = Token::parse("s3cret").unwrap();
        assert!(token.matches(b"s3cret"));
        assert!(!token.matches(b"s3cre") && !token.matches(b"S3CRET") && !token.matches(b""));
        assert_eq!(format!("{token:?}"), "(set)");
        let (shared, new) = (token.clone(), Token::parse("other").unwrap());
        token.replace(&new);
        assert!(shared.matches(b"other") && !shared.matches(b"s3cret"));
        assert!(shared == new && shared == token && new != Token::parse("x").unwrap());
    }

    #[test]
    fn a_token_must_be_visible_ascii() {
        for text in ["", "two words", "tab\t", "é", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
            assert!(Token::parse(text).is_err(), "{text}");
        }
    }
}
