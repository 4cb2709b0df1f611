//! What can be set, and what is in force.
//!
//! [`SETTINGS`] is the one truth: flags, variables, file keys, help, checks and `keystead config` derive from
//! its rows. A new setting is one row there and one field here.
//!
//! | To find                              | open         |
//! |--------------------------------------|--------------|
//! | the rows                             | [`table`]    |
//! | what a value may look like           | [`value`]    |
//! | `512mb` as a number                  | `size`       |
//! | flag over variable over file         | [`layers`]   |
//! | variables that are none of ours      | `environment` |
//! | tokens in files                      | `token_file` |
//! | keystead.toml                        | [`mod@file`] |

mod environment;
pub mod file;
pub mod layers;
#[cfg(test)]
mod page;
pub(crate) mod size;
pub mod table;
pub(crate) mod token_file;
pub mod value;

use std::fmt;
use std::path::PathBuf;

pub use layers::{Loaded, Source, Sources, Value};
pub use table::{SETTINGS, Setting};
use tracing::level_filters::LevelFilter;
pub use value::{Durability, Listen, LogFormat, Token};

use crate::policies::file::Definition;

/// The values in force, checked and typed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the HTTP door listens.
    pub http: Listen,
    /// Where the RESP door listens.
    pub resp: Listen,
    /// The certificates that the RESP door shows, in PEM form. Without them it is not encrypted.
    pub resp_tls_cert: Option<PathBuf>,
    /// The key that belongs to them.
    pub resp_tls_key: Option<PathBuf>,
    /// The directory that holds the data. Unused when durability is `memory`.
    pub data: PathBuf,
    /// What a reply means.
    pub durability: Durability,
    /// How many shards the database shall have: a power of two. None: what it has, or one.
    pub shards: Option<usize>,
    /// How much memory values may take. None: as much as there is.
    pub memory_bytes: Option<usize>,
    /// The secret that requests must bring, if one is set.
    pub token: Option<Token>,
    /// The secret of those who may only read.
    pub read_only_token: Option<Token>,
    /// The file that the secret was read from.
    pub token_file: Option<PathBuf>,
    /// The file that the other secret was read from.
    pub read_only_token_file: Option<PathBuf>,
    /// Names beside localhost that an HTTP request may ask for where no token is set.
    pub allowed_hosts: Vec<String>,
    /// The form of the log lines.
    pub log: LogFormat,
    /// Where they go. None: to stderr.
    pub log_file: Option<PathBuf>,
    /// The least important level that is logged.
    pub log_level: LevelFilter,
    /// The settings file that was read, if there is one.
    pub config: Option<PathBuf>,
    /// What it said.
    pub config_text: Option<ConfigText>,
    /// Its rate limits.
    pub policies: Vec<Definition>,
}

/// The text of a settings file. It may hold secrets, so it is not shown.
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

    /// A canvas for the rows to fill. The defaults are in the table and nowhere else: every row with a
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
            token: None,
            read_only_token: None,
            token_file: None,
            read_only_token_file: None,
            allowed_hosts: Vec::new(),
            log: LogFormat::Json,
            log_file: None,
            log_level: LevelFilter::OFF,
            config: None,
            config_text: None,
            policies: Vec::new(),
        }
    }
}
