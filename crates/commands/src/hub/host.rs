//! What only the server knows: its secret, its figures. It touches nothing.

/// The server, as commands see it.
pub trait Host: Send + Sync {
    /// Whether a secret must be brought.
    fn needs_token(&self) -> bool;

    /// Whether this is the secret. It takes the same time for every wrong one.
    fn is_token(&self, token: &[u8]) -> bool;

    /// How many shards there are.
    fn shards(&self) -> usize;

    /// Figures for INFO and its kin, at this moment.
    fn facts(&self) -> Facts;

    /// Keeps the libraries of functions (a FUNCTION DUMP) for the next start. When it returns, they are durable, as far as
    /// anything is.
    ///
    /// # Errors
    /// When they could not be kept; those that were kept before are still there.
    fn keep_functions(&self, dump: &[u8]) -> keystead_core::Result<()> {
        let _ = dump;
        Ok(())
    }

    /// Ends the server. False where commands cannot do that.
    fn shut_down(&self, how: ShutDown) -> bool {
        let _ = how;
        false
    }

    /// A line of a script for the server's log, from 0 (debug) to 3 (warning).
    fn log(&self, level: u8, line: &str) {
        let _ = (level, line);
    }
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutDown {
    /// Requests in flight may finish.
    Graceful,
    /// The same, but scripts that run are killed at once.
    Now,
}

/// Figures of a server.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version of Keystead.
    pub version: &'static str,
    /// The port of the RESP door, 0 when it is closed.
    pub port: u16,
    /// Since the start.
    pub uptime_ms: u64,
    /// The process.
    pub process_id: u32,
    /// `fsync`, `commit` or `memory`.
    pub durability: &'static str,
    /// The level of the log, in Redis's words: `debug`, `verbose`, `notice`, `warning` or `nothing`.
    pub log_level: &'static str,
    /// Number of shards.
    pub shards: usize,
    /// The directory of the data.
    pub data: String,
    /// Keys, those that are expired but not yet reclaimed included.
    pub keys: u64,
    /// Keys that expire.
    pub keys_that_expire: u64,
    /// Bytes of keys and values.
    pub used_bytes: u64,
    /// The limit of those, if there is one.
    pub limit_bytes: Option<u64>,
    /// Bytes of the whole process.
    pub resident_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Whether everything works; else why not.
    pub unwell: Option<String>,
    /// The highest number of connections that the server can bear; 0 when it does not say.
    pub clients_max: usize,
    /// Keys that were reclaimed because their time was up.
    pub expired_keys: u64,
    /// Microseconds that the process has computed for itself, and in the operating system.
    pub cpu_us: [u64; 2],
    /// 40 hexadecimal digits that are others with every start.
    pub run_id: String,
}
