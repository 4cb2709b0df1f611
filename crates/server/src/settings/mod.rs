//! The settings: what can be set, and the effective values.
//!
//! Flags, variables, file keys, help, checks and `keystead config` derive from the rows of [`SETTINGS`], and a test compares
//! docs/configuration.md with them. A new setting is one row there, one field here and one row of that page.
//!
//! | To find                              | open         |
//! |--------------------------------------|--------------|
//! | the rows                             | [`table`]    |
//! | the syntax of values                 | [`value`]    |
//! | `512mb` as a number                  | `size`       |
//! | flag over variable over file         | [`layers`]   |
//! | environment variables                | `environment` |
//! | tokens in files                      | `token_file` |
//! | keystead.toml                        | [`mod@file`] |
//! | its tables with names                | `named_tables` |
//! | the test of docs/configuration.md    | `page`       |

mod environment;
pub mod file;
pub mod layers;
pub(crate) mod named_tables;
#[cfg(test)]
mod page;
pub(crate) mod size;
pub mod table;
pub(crate) mod token_file;
pub mod value;

use std::fmt;
use std::path::PathBuf;

use keystead_cluster::NodeId;
pub use layers::{Loaded, Source, Sources, Value};
pub use table::{SETTINGS, Setting};
use tracing::level_filters::LevelFilter;
pub use value::{Durability, Listen, LogFormat, Shards, Token};

use crate::cluster::Addresses;
use crate::policies::file::Definition;
use crate::router::NodeList;
use crate::stores::StoreName;
use crate::sync_token::SyncSecret;

/// The effective values, checked and typed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the HTTP listener.
    pub http: Listen,
    /// The address of the RESP listener.
    pub resp: Listen,
    /// The certificates of the RESP listener, in PEM form. Without them it does not use TLS.
    pub resp_tls_cert: Option<PathBuf>,
    /// The private key of the certificates.
    pub resp_tls_key: Option<PathBuf>,
    /// The data directory. Unused when durability is `memory`.
    pub data: PathBuf,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The number of shards of the database. None: that of the existing database, or one.
    pub shards: Option<Shards>,
    /// How much memory values may use. None: unlimited.
    pub memory_bytes: Option<usize>,
    /// How much archived journal is kept for sinks.
    pub sink_journal_bytes: u64,
    /// The store of the documents. None: the database.
    pub documents_store: Option<StoreName>,
    /// The Redis server or cluster that the Upstash-compatible REST API stands in front of. None: the database.
    pub upstream: Option<StoreName>,
    /// The URL of the storage service that has the keys. None: the database.
    pub storage: Option<String>,
    /// Its token.
    pub storage_token: Option<Token>,
    /// The nodes of a router.
    pub nodes: Option<NodeList>,
    /// The store of the slot table of the cluster that this server is a node of. None: it is none.
    pub cluster: Option<StoreName>,
    /// The id of this node.
    pub node_id: Option<NodeId>,
    /// Where clients reach this node.
    pub advertise: Option<Addresses>,
    /// The token that requests must send, if one is set.
    pub token: Option<Token>,
    /// The token that may only read.
    pub read_only_token: Option<Token>,
    /// The file that the token was read from.
    pub token_file: Option<PathBuf>,
    /// The file that the read-only token was read from.
    pub read_only_token_file: Option<PathBuf>,
    /// The secret that signs the tokens of offline clients.
    pub sync_secret: Option<SyncSecret>,
    /// Host names besides localhost that HTTP requests may use where no token is set.
    pub allowed_hosts: Vec<String>,
    /// The form of the log lines.
    pub log: LogFormat,
    /// The file of the log. None: stderr.
    pub log_file: Option<PathBuf>,
    /// The least important level that is logged.
    pub log_level: LevelFilter,
    /// The settings file that was read, if there is one.
    pub config: Option<PathBuf>,
    /// Its text.
    pub config_text: Option<ConfigText>,
    /// Its rate limits.
    pub policies: Vec<Definition>,
    /// Its sinks.
    pub sinks: Vec<crate::sinks::file::Definition>,
}

/// The text of a settings file. It may contain secrets, so it is not shown.
#[derive(Clone)]
pub struct ConfigText(pub(crate) String);

impl fmt::Debug for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

impl Settings {
    /// The settings that name a file with a token, by their names, with what was read from it.
    pub(crate) fn token_files(&self) -> [(&'static str, &Option<PathBuf>, &Option<Token>); 2] {
        [
            ("token-file", &self.token_file, &self.token),
            ("read-only-token-file", &self.read_only_token_file, &self.read_only_token),
        ]
    }

    /// Settings for the rows to fill. The defaults are in the table only: every row with a
    /// default overwrites its field, which a test of the table checks.
    pub(crate) fn blank() -> Settings {
        Settings {
            http: Listen::Off,
            resp: Listen::Off,
            resp_tls_cert: None,
            resp_tls_key: None,
            data: PathBuf::new(),
            durability: Durability::Memory,
            shards: None,
            memory_bytes: Some(0),
            sink_journal_bytes: 0,
            documents_store: None,
            upstream: None,
            storage: None,
            storage_token: None,
            nodes: None,
            cluster: None,
            node_id: None,
            advertise: None,
            token: None,
            read_only_token: None,
            token_file: None,
            read_only_token_file: None,
            sync_secret: None,
            allowed_hosts: Vec::new(),
            log: LogFormat::Json,
            log_file: None,
            log_level: LevelFilter::OFF,
            config: None,
            config_text: None,
            policies: Vec::new(),
            sinks: Vec::new(),
        }
    }
}
