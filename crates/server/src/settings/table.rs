//! The table of settings: their names, defaults, help and checks. Pure.

use tracing::level_filters::LevelFilter;

use super::Settings;
use super::size::parse_size_bytes;
use super::value::{
    AUTO, InvalidValue, Listen, LogFormat, Token, addresses, durability, host_names, memory, node_id, one_of,
    path, shards, store_name, upstream,
};
use crate::compute::client::check_url;
use crate::router::NodeList;
use crate::sync_token::SyncSecret;

/// One setting.
pub struct Setting {
    /// The flag is `--name`, the file's key is `name`, the variable is `KEYSTEAD_NAME`.
    pub name: &'static str,
    /// The placeholder of the value in the help.
    pub value_name: &'static str,
    /// The default value; none for a setting that may stay unset.
    pub default: Option<&'static str>,
    /// One sentence for the help.
    pub help: &'static str,
    /// How the value is written in keystead.toml.
    pub form: Form,
    /// A secret is shown as `(set)`, also in error messages.
    pub secret: bool,
    /// Parses the text and sets the field.
    pub set: fn(&mut Settings, &str) -> Result<(), InvalidValue>,
}

/// How a value is written in keystead.toml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `name = "text"`
    Text,
    /// `name = 4`, or this word: `name = "auto"`
    NumberOr(&'static str),
    /// Not in the file: it names the file.
    NotInFile,
}

impl Setting {
    /// The variable of this setting.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("KEYSTEAD_{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// The flag of this setting.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", self.name)
    }
}

/// The setting that names the file, which is needed before the others.
pub const CONFIG: Setting = Setting {
    name: "config",
    value_name: "FILE",
    default: None,
    help: "The settings file [default: ./keystead.toml if it exists]",
    form: Form::NotInFile,
    secret: false,
    set: |s, text| path(text).map(|v| s.config = Some(v)),
};

/// Every setting there is, in the order in which they are listed.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "http",
        value_name: "ADDR",
        default: Some("127.0.0.1:8080"),
        help: "The address of HTTP: HOST:PORT (port 0: any free one) or off",
        form: Form::Text,
        secret: false,
        set: |s, text| Listen::parse(text).map(|v| s.http = v),
    },
    Setting {
        name: "resp",
        value_name: "ADDR",
        default: Some("127.0.0.1:6379"),
        help: "The address for Redis clients: HOST:PORT (port 0: any free one) or off",
        form: Form::Text,
        secret: false,
        set: |s, text| Listen::parse(text).map(|v| s.resp = v),
    },
    Setting {
        name: "resp-tls-cert",
        value_name: "FILE",
        default: None,
        help: "Certificates in PEM form: Redis clients must then connect with TLS",
        form: Form::Text,
        secret: false,
        set: |s, text| path(text).map(|v| s.resp_tls_cert = Some(v)),
    },
    Setting {
        name: "resp-tls-key",
        value_name: "FILE",
        default: None,
        help: "The key of --resp-tls-cert, in PEM form",
        form: Form::Text,
        secret: false,
        set: |s, text| path(text).map(|v| s.resp_tls_key = Some(v)),
    },
    Setting {
        name: "data",
        value_name: "DIR",
        default: Some("./keystead-data"),
        help: "The data directory",
        form: Form::Text,
        secret: false,
        set: |s, text| path(text).map(|v| s.data = v),
    },
    Setting {
        name: "durability",
        value_name: "LEVEL",
        default: Some("fsync"),
        help: "What acknowledged writes survive: power loss (fsync), kill -9 (commit), nothing (memory)",
        form: Form::Text,
        secret: false,
        set: |s, text| durability(text).map(|v| s.durability = v),
    },
    Setting {
        name: "shards",
        value_name: "N",
        default: None,
        help: "Threads that share the keys, fixed when the database is created: 1, 2, 4, ... up to 256, or auto: by the number of cores [default: that of the database, or 1]",
        form: Form::NumberOr(AUTO),
        secret: false,
        set: |s, text| shards(text).map(|v| s.shards = Some(v)),
    },
    Setting {
        name: "memory",
        value_name: "SIZE",
        default: Some("unlimited"),
        help: "Memory for keys and values, for example 512mb or 4gb; values beyond it are evicted to disk, keys beyond it are rejected",
        form: Form::Text,
        secret: false,
        set: |s, text| memory(text).map(|v| s.memory_bytes = v),
    },
    Setting {
        name: "sink-journal",
        value_name: "SIZE",
        default: Some("1gb"),
        help: "Journal that is kept for sinks whose targets are behind; one that is further behind begins anew with all keys",
        form: Form::Text,
        secret: false,
        set: |s, text| parse_size_bytes(text).map(|v| s.sink_journal_bytes = v),
    },
    Setting {
        name: "documents-store",
        value_name: "URL",
        default: None,
        help: "A store that several servers share for the documents of /kv, for example postgres://USER:PASSWORD@HOST/DATABASE [default: the database]",
        form: Form::Text,
        secret: true,
        set: |s, text| store_name(text).map(|v| s.documents_store = Some(v)),
    },
    Setting {
        name: "upstream",
        value_name: "URL",
        default: None,
        help: "A Redis server or cluster that the Upstash-compatible REST API runs its commands on, for example redis://USER:PASSWORD@HOST:6379 [default: the database]",
        form: Form::Text,
        secret: true,
        set: |s, text| upstream(text).map(|v| s.upstream = Some(v)),
    },
    Setting {
        name: "storage",
        value_name: "URL",
        default: None,
        help: "The storage service (keystead storage, or a Worker) that has the keys: this process then only runs commands, for example http://HOST:8090; see docs/split.md [default: the database]",
        form: Form::Text,
        secret: false,
        set: |s, text| check_url(text).map(|v| s.storage = Some(v)),
    },
    Setting {
        name: "storage-token",
        value_name: "TOKEN",
        default: None,
        help: "The token of the storage service; better in KEYSTEAD_STORAGE_TOKEN, as ps shows flags",
        form: Form::Text,
        secret: true,
        set: |s, text| Token::parse(text).map(|v| s.storage_token = Some(v)),
    },
    Setting {
        name: "nodes",
        value_name: "URLS",
        default: None,
        help: "The nodes of keystead router, separated by commas: http://HOST:PORT or NAME=http://HOST:PORT, and NAME=redis://HOST:PORT for --resp",
        form: Form::Text,
        secret: false,
        set: |s, text| NodeList::parse(text).map(|v| s.nodes = Some(v)),
    },
    Setting {
        name: "cluster",
        value_name: "URL",
        default: None,
        help: "The store with the slot table of the cluster that this server is a node of, or this router is in front of, for example etcd://HOST:2379; see docs/cluster-nodes.md",
        form: Form::Text,
        secret: true,
        set: |s, text| store_name(text).map(|v| s.cluster = Some(v)),
    },
    Setting {
        name: "node-id",
        value_name: "NAME",
        default: None,
        help: "The id of this node in the slot table; needs --cluster",
        form: Form::Text,
        secret: false,
        set: |s, text| node_id(text).map(|v| s.node_id = Some(v)),
    },
    Setting {
        name: "advertise",
        value_name: "URLS",
        default: None,
        help: "Where clients reach this node: redis://HOST:PORT,http://HOST:PORT; needs --cluster",
        form: Form::Text,
        secret: false,
        set: |s, text| addresses(text).map(|v| s.advertise = Some(v)),
    },
    Setting {
        name: "token",
        value_name: "TOKEN",
        default: None,
        help: "The secret that requests must send; better in --token-file or KEYSTEAD_TOKEN, as ps shows flags",
        form: Form::Text,
        secret: true,
        set: |s, text| Token::parse(text).map(|v| s.token = Some(v)),
    },
    Setting {
        name: "read-only-token",
        value_name: "TOKEN",
        default: None,
        help: "A second secret that may only read, over REST; needs --token",
        form: Form::Text,
        secret: true,
        set: |s, text| Token::parse(text).map(|v| s.read_only_token = Some(v)),
    },
    Setting {
        name: "token-file",
        value_name: "FILE",
        default: None,
        help: "A file with the token, instead of --token; SIGHUP reloads it",
        form: Form::Text,
        secret: false,
        set: |s, text| path(text).map(|v| s.token_file = Some(v)),
    },
    Setting {
        name: "read-only-token-file",
        value_name: "FILE",
        default: None,
        help: "A file with the read-only token, instead of --read-only-token",
        form: Form::Text,
        secret: false,
        set: |s, text| path(text).map(|v| s.read_only_token_file = Some(v)),
    },
    Setting {
        name: "sync-secret",
        value_name: "SECRET",
        default: None,
        help: "The secret that signs the tokens of offline clients (keystead sync token); better in KEYSTEAD_SYNC_SECRET",
        form: Form::Text,
        secret: true,
        set: |s, text| SyncSecret::parse(text).map(|v| s.sync_secret = Some(v)),
    },
    Setting {
        name: "allowed-hosts",
        value_name: "NAMES",
        default: None,
        help: "Host names besides localhost that HTTP requests may use without a token, separated by commas",
        form: Form::Text,
        secret: false,
        set: |s, text| host_names(text).map(|v| s.allowed_hosts = v),
    },
    Setting {
        name: "log",
        value_name: "FORM",
        default: Some("text"),
        help: "The form of the log: text or json, one object per line",
        form: Form::Text,
        secret: false,
        set: |s, text| LogFormat::parse(text).map(|v| s.log = v),
    },
    Setting {
        name: "log-file",
        value_name: "FILE",
        default: None,
        help: "A file for the log, instead of stderr; SIGHUP reopens it",
        form: Form::Text,
        secret: false,
        set: |s, text| path(text).map(|v| s.log_file = Some(v)),
    },
    Setting {
        name: "log-level",
        value_name: "LEVEL",
        default: Some("warn"),
        help: "How much is logged: off, error, warn, info, debug or trace",
        form: Form::Text,
        secret: false,
        set: |s, text| one_of(text, &LOG_LEVELS).map(|v| s.log_level = v),
    },
    CONFIG,
];

const LOG_LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_legal() {
        let names: HashSet<_> = SETTINGS.iter().map(|s| s.name).collect();
        assert_eq!(names.len(), SETTINGS.len());
        for name in names {
            let legal = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
            assert!(name.split('-').all(legal), "{name}");
        }
    }

    #[test]
    fn a_variable_is_its_name_in_capitals() {
        let variables: Vec<_> = SETTINGS.iter().map(Setting::variable).collect();
        assert!(variables.contains(&"KEYSTEAD_HTTP".to_owned()));
        assert!(variables.contains(&"KEYSTEAD_LOG_LEVEL".to_owned()));
        assert_eq!(variables.iter().collect::<HashSet<_>>().len(), SETTINGS.len());
    }

    #[test]
    fn every_default_is_accepted_and_fills_its_field() {
        for setting in SETTINGS {
            let Some(default) = setting.default else { continue };
            let mut settings = Settings::blank();
            (setting.set)(&mut settings, default).unwrap();
            let changed = format!("{settings:?}") != format!("{:?}", Settings::blank());
            assert!(changed, "the default of {} does not set its field", setting.name);
        }
    }

    #[test]
    fn every_help_is_one_sentence_without_a_full_stop() {
        for setting in SETTINGS {
            assert!(!setting.help.is_empty() && !setting.help.ends_with('.'), "{}", setting.name);
            assert!(setting.help.starts_with(|c: char| c.is_ascii_uppercase()), "{}", setting.name);
        }
    }

    #[test]
    fn a_secret_has_no_default() {
        assert!(SETTINGS.iter().all(|s| !s.secret || s.default.is_none()));
    }
}
