//! The settings of CONFIG GET and CONFIG SET. It touches nothing.
//!
//! The row of a setting in `table` says what CONFIG SET does with it. Those that take effect are read in every loop iteration and are
//! therefore atomics. A setting that would change Redis's behaviour but has no effect here is rejected, unless the value is unchanged.

mod docs;
mod kind;
mod limit;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use limit::OutputLimit;

use super::{Facts, Kind};
use crate::bounds::{REQUEST_BYTES_MAX, STRING_BYTES_MAX};
use crate::glob;
pub(crate) use docs::page;
use table::{ROWS, Row, Rule, Target};

/// Settings by Redis's names.
pub struct Config {
    /// The values that were set, by row; other rows have their default.
    set: Mutex<BTreeMap<usize, String>>,
    clients_max: AtomicU64,
    client_timeout_s: AtomicU64,
    tcp_keepalive_s: AtomicU64,
    bulk_bytes_max: AtomicU64,
    query_bytes_max: AtomicU64,
    script_ms_max: AtomicU64,
    output: limit::Limits,
}

/// Why CONFIG SET failed: the name as it was sent, and the reason. Nothing was changed.
#[derive(Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// There is no such setting.
    Unknown(String),
    /// It cannot have this value.
    Value(String, String),
}

impl Default for Config {
    fn default() -> Self {
        let config = Config {
            set: Mutex::default(),
            clients_max: AtomicU64::new(0),
            client_timeout_s: AtomicU64::new(0),
            tcp_keepalive_s: AtomicU64::new(0),
            bulk_bytes_max: AtomicU64::new(0),
            query_bytes_max: AtomicU64::new(0),
            script_ms_max: AtomicU64::new(0),
            output: limit::Limits::default(),
        };
        ROWS.iter().for_each(|row| config.enliven(row, row.default));
        config
    }
}

impl Config {
    /// The maximum number of connections.
    #[must_use]
    pub fn clients_max(&self) -> usize {
        load(&self.clients_max)
    }

    /// The maximum number of connections that the server supports: the value until another is set.
    pub fn set_clients_max(&self, max: usize) {
        self.clients_max.store(max as u64, Ordering::Relaxed);
        if let Some(row) = ROWS.iter().position(|row| row.name == "maxclients") {
            self.lock().insert(row, max.to_string());
        }
    }

    /// Seconds after which an idle connection is closed; 0: never.
    #[must_use]
    pub fn client_timeout_s(&self) -> u64 {
        self.client_timeout_s.load(Ordering::Relaxed)
    }

    /// Seconds between keepalive probes of an idle connection; 0: none.
    #[must_use]
    pub fn tcp_keepalive_s(&self) -> u64 {
        self.tcp_keepalive_s.load(Ordering::Relaxed)
    }

    /// Bytes of one argument.
    #[must_use]
    pub fn bulk_bytes_max(&self) -> usize {
        load(&self.bulk_bytes_max).min(STRING_BYTES_MAX)
    }

    /// Bytes of requests that a connection may have pending.
    #[must_use]
    pub fn query_bytes_max(&self) -> usize {
        load(&self.query_bytes_max).min(REQUEST_BYTES_MAX)
    }

    /// Milliseconds that a script may run; 0: no limit.
    #[must_use]
    pub fn script_ms_max(&self) -> u64 {
        self.script_ms_max.load(Ordering::Relaxed)
    }

    /// Bytes of replies and messages that a connection may have pending.
    #[must_use]
    pub fn output_limit(&self, kind: Kind) -> OutputLimit {
        self.output.of(kind)
    }

    /// One value, by its name in lower case.
    #[must_use]
    pub fn value(&self, name: &str, facts: &Facts) -> Option<String> {
        let at = ROWS.iter().position(|row| row.name == name || row.also == name)?;
        Some(self.present(at, facts))
    }

    /// Names and values that match one of the patterns, sorted by name. A name without wildcards is shown as sent.
    #[must_use]
    pub fn get<'a>(&self, patterns: impl Iterator<Item = &'a [u8]>, facts: &Facts) -> Vec<(String, String)> {
        let mut found = BTreeMap::new();
        for pattern in patterns {
            let small = pattern.to_ascii_lowercase();
            for (at, row) in ROWS.iter().enumerate() {
                for name in [row.name, row.also] {
                    if !name.is_empty() && glob::matches(&small, name.as_bytes()) {
                        let exact = small == name.as_bytes();
                        let shown = if exact {
                            String::from_utf8_lossy(pattern).into_owned()
                        } else {
                            name.to_owned()
                        };
                        found.entry(name).or_insert_with(|| (shown, self.present(at, facts)));
                    }
                }
            }
        }
        found.into_values().collect()
    }

    /// Changes settings: all of them or none.
    ///
    /// # Errors
    /// Why none was changed.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], facts: &Facts) -> Result<(), ConfigError> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        // All names are checked before any value, and an unknown name is reported before other errors.
        let mut rows = Vec::new();
        let mut wrong = None;
        for (name, _) in pairs {
            let at = find(name).ok_or_else(|| ConfigError::Unknown(shown(name)))?;
            let why = match ROWS[at].rule {
                Rule::Immutable => Some("can't set immutable config"),
                Rule::Hidden(why) => Some(why),
                _ => None,
            };
            if wrong.is_none() {
                wrong = why.map(|why| ConfigError::Value(shown(name), why.into()));
            }
            if wrong.is_none() && rows.contains(&at) {
                wrong = Some(ConfigError::Value(shown(name), "duplicate parameter".into()));
            }
            rows.push(at);
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let mut values = Vec::new();
        for (at, (name, value)) in rows.into_iter().zip(pairs) {
            let value = self.checked(at, value, facts).map_err(|why| ConfigError::Value(shown(name), why))?;
            values.push((at, value));
        }
        let mut set = self.lock();
        for (at, value) in values {
            self.enliven(&ROWS[at], &value);
            set.insert(at, value);
        }
        Ok(())
    }

    /// The value as it will be stored.
    fn checked(&self, at: usize, value: &[u8], facts: &Facts) -> Result<String, String> {
        let row = &ROWS[at];
        let value = row.kind.read(value, &self.present(at, facts))?;
        match row.rule {
            Rule::Start(_, why) if value != self.present(at, facts) => Err(why.into()),
            Rule::Rejected(why) if value != self.present(at, facts) => {
                Err(format!("it has no effect here: {why}"))
            }
            Rule::Effective(Target::ClientsMax)
                if facts.clients_max > 0 && value.parse().is_ok_and(|max| facts.clients_max < max) =>
            {
                Err(format!(
                    "The operating system is not able to handle the specified number of clients, try with {}",
                    facts.clients_max
                ))
            }
            _ => Ok(value),
        }
    }

    fn present(&self, at: usize, facts: &Facts) -> String {
        let row = &ROWS[at];
        match row.rule {
            Rule::Start(value, _) => value(facts),
            _ => self.lock().get(&at).cloned().unwrap_or_else(|| row.default.to_owned()),
        }
    }

    /// Applies a value, if the setting has an effect.
    fn enliven(&self, row: &Row, value: &str) {
        let Rule::Effective(effective) = row.rule else { return };
        let place = match effective {
            Target::ClientsMax => &self.clients_max,
            Target::ClientTimeout => &self.client_timeout_s,
            Target::TcpKeepalive => &self.tcp_keepalive_s,
            Target::BulkBytes => &self.bulk_bytes_max,
            Target::QueryBytes => &self.query_bytes_max,
            Target::ScriptTime => &self.script_ms_max,
            Target::Output => return self.output.set(value),
        };
        place.store(value.parse().unwrap_or(0), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, String>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load(value: &AtomicU64) -> usize {
    usize::try_from(value.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
}

/// The index of a row, by either of its names, ignoring case.
fn find(name: &[u8]) -> Option<usize> {
    let named = |known: &str| !known.is_empty() && known.as_bytes().eq_ignore_ascii_case(name);
    ROWS.iter().position(|row| named(row.name) || named(row.also))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<(), ConfigError> {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        config.set(&pairs, &Facts::default())
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for row in ROWS {
            assert_eq!(
                row.kind.read(row.default.as_bytes(), row.default).as_deref(),
                Ok(row.default),
                "{}",
                row.name
            );
            assert_eq!(find(row.name.as_bytes()).map(|at| ROWS[at].name), Some(row.name), "named twice");
        }
    }

    #[test]
    fn effective_settings_are_applied() {
        let config = Config::default();
        assert_eq!(
            (config.clients_max(), config.client_timeout_s(), config.tcp_keepalive_s()),
            (10_000, 0, 300)
        );
        assert_eq!((config.bulk_bytes_max(), config.query_bytes_max()), (512 << 20, 1 << 30));
        set(&config, &[("TIMEOUT", "5"), ("maxclients", "7"), ("proto-max-bulk-len", "1mb")]).unwrap();
        assert_eq!((config.clients_max(), config.client_timeout_s()), (7, 5));
        assert_eq!(config.bulk_bytes_max(), 1 << 20);
        set(&config, &[("client-output-buffer-limit", "pubsub 1mb 1kb 3")]).unwrap();
        let limit = config.output_limit(Kind::Pubsub);
        assert_eq!((limit.hard_bytes, limit.soft_bytes, limit.soft_s), (1 << 20, 1 << 10, 3));
        assert_eq!(config.output_limit(Kind::Normal).hard_bytes, 0);
        config.set_clients_max(50);
        assert_eq!(config.value("maxclients", &Facts::default()).unwrap(), "50");
    }

    #[test]
    fn settings_of_the_start_are_read_only() {
        let config = Config::default();
        let facts =
            Facts { durability: "commit", clients_max: 100, limit_bytes: Some(5), ..Facts::default() };
        for (name, value) in [
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("save", ""),
            ("maxmemory", "5"),
            ("databases", "1"),
        ] {
            assert_eq!(config.value(name, &facts).as_deref(), Some(value), "{name}");
        }
        let set = |name: &[u8], value: &[u8]| config.set(&[(name, value)], &facts);
        assert!(set(b"appendonly", b"yes").is_ok(), "it is what it is");
        assert!(set(b"appendonly", b"no").is_err() && set(b"requirepass", b"x").is_err());
        assert!(set(b"maxclients", b"101").is_err() && set(b"maxclients", b"100").is_ok());
        assert!(set(b"maxmemory", b"10mb").is_err() && set(b"maxmemory", b"5").is_ok());
        assert_eq!(config.value("maxmemory", &facts).unwrap(), "5");
        assert!(set(b"requirepass", b"").is_err(), "what is not shown cannot be what it is");
    }

    #[test]
    fn settings_without_effect_are_rejected_with_a_reason() {
        let config = Config::default();
        for row in ROWS {
            let Rule::Rejected(why) = row.rule else { continue };
            assert_eq!(set(&config, &[(row.name, row.default)]), Ok(()), "{}: it is what it is", row.name);
            let other = ["yes", "no", "7", "1 2 3", "allkeys-lru", "KEA", "allchannels", "panic", "now"];
            let others = other.into_iter().filter(|value| *value != row.default);
            let results: Vec<_> =
                others.map(|value| set(&config, &[(row.name, value), ("timeout", "9")])).collect();
            let says_so = |results: &Result<(), ConfigError>| matches!(results, Err(ConfigError::Value(_, text)) if *text == format!("it has no effect here: {why}"));
            assert!(results.iter().any(says_so), "{}: {results:?}", row.name);
            assert!(results.iter().all(Result::is_err), "{}: {results:?}", row.name);
            assert_eq!(config.value(row.name, &Facts::default()).as_deref(), Some(row.default));
        }
        assert_eq!(config.client_timeout_s(), 0, "one rejected setting prevents the others from being set");
    }

    #[test]
    fn settings_change_together_or_not_at_all() {
        let config = Config::default();
        assert_eq!(
            set(&config, &[("timeout", "1"), ("nope", "1")]),
            Err(ConfigError::Unknown("nope".into()))
        );
        assert!(
            matches!(set(&config, &[("timeout", "1"), ("hz", "x")]), Err(ConfigError::Value(name, _)) if name == "hz")
        );
        let twice = set(&config, &[("hash-max-ziplist-entries", "1"), ("hash-max-listpack-entries", "1")]);
        assert!(matches!(twice, Err(ConfigError::Value(_, why)) if why == "duplicate parameter"));
        assert_eq!(config.client_timeout_s(), 0);
    }
}
