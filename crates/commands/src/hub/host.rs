//! The interface to the server: its token, its statistics. It touches nothing.

use crate::args::Args;
use crate::spec::Spec;

/// The server, as commands see it.
pub trait Host: Send + Sync {
    /// Whether clients must authenticate.
    fn needs_token(&self) -> bool;

    /// Whether this is the token. It takes the same time for every wrong one.
    fn is_token(&self, token: &[u8]) -> bool;

    /// The number of shards.
    fn shards(&self) -> usize;

    /// Current statistics for INFO and similar commands.
    fn facts(&self) -> Facts;

    /// Whether the shard of a command's first key has reached its memory bound, so that nothing is queued for it.
    fn is_out_of_memory(&self, spec: &Spec, args: Args<'_>) -> bool {
        let _ = (spec, args);
        false
    }

    /// Returns memory that is not in use to the system. False where that is not possible.
    fn purge_memory(&self) -> bool {
        false
    }

    /// Stores the function libraries (a FUNCTION DUMP) for the next start. When it returns, they are as durable as the
    /// database.
    ///
    /// # Errors
    /// When they could not be stored; the previous ones are still stored.
    fn keep_functions(&self, dump: &[u8]) -> keystead_core::Result<()> {
        let _ = dump;
        Ok(())
    }

    /// Begins to write recent changes to the database's files and to return their free space to the system.
    fn compact(&self) {}

    /// Shuts the server down. False where commands cannot do that.
    fn shut_down(&self, how: ShutDown) -> bool {
        let _ = how;
        false
    }

    /// Writes a line of a script to the server's log, from 0 (debug) to 3 (warning).
    fn log(&self, level: u8, line: &str) {
        let _ = (level, line);
    }
}

/// How a server shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutDown {
    /// Requests in flight may finish.
    Graceful,
    /// The same, but running scripts are killed at once.
    Now,
}

/// Statistics of a server.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version of Keystead.
    pub version: &'static str,
    /// The port of the RESP listener, 0 if there is none.
    pub port: u16,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// The process id.
    pub process_id: u32,
    /// `fsync`, `commit` or `memory`.
    pub durability: &'static str,
    /// The level of the log, in Redis's words: `debug`, `verbose`, `notice`, `warning` or `nothing`.
    pub log_level: &'static str,
    /// Number of shards.
    pub shards: usize,
    /// The data directory.
    pub data: String,
    /// Keys, including those that are expired but not yet reclaimed.
    pub keys: u64,
    /// Keys with an expiration.
    pub keys_that_expire: u64,
    /// Bytes of keys and values.
    pub used_bytes: u64,
    /// Their limit, if there is one.
    pub limit_bytes: Option<u64>,
    /// Whether a shard has reached it and no eviction helps: commands that could add memory are rejected.
    pub memory_full: bool,
    /// Bytes of the whole process.
    pub resident_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Whether everything works; otherwise why not.
    pub unwell: Option<String>,
    /// The maximum number of connections that the server supports; 0 if unknown.
    pub clients_max: usize,
    /// Keys that were reclaimed because they expired.
    pub expired_keys: u64,
    /// Microseconds of CPU time of the process, in user mode and in the kernel.
    pub cpu_us: [u64; 2],
    /// 40 hexadecimal digits that differ with every start.
    pub run_id: String,
    /// Whether it is a node of a cluster.
    pub cluster: bool,
    /// How far loading the data is, until it is loaded.
    pub loading: Option<Loading>,
}

/// How far a server is with loading its data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loading {
    /// What is being loaded: `archive`, then `journal`.
    pub stage: &'static str,
    /// How much of that is done.
    pub percent: f64,
    /// Milliseconds since the beginning.
    pub elapsed_ms: u64,
    /// Keys of the archive: loaded, and all.
    pub keys: [u64; 2],
    /// Bytes of the journal: replayed, and all; 0 until that begins.
    pub journal_bytes: [u64; 2],
}
