//! Every bound of the core, named once. The comment of each constant names the error that is returned when it is exceeded.

/// Longest key in bytes, prefix included. A longer key is rejected with `too_large`.
pub const KEY_BYTES_MAX: usize = 32 * 1024;

/// Longest text form of a step's state, in bytes. A longer one is rejected with `too_large` and not stored.
pub const STATE_BYTES_MAX: usize = 1024 * 1024;

/// Longest duration that is accepted, in milliseconds: 100 years. A longer one is rejected with `bad_request`.
pub const DURATION_MS_MAX: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// Most shards of a [`MemoryStore`](crate::MemoryStore). More are rejected with `config_invalid`.
pub const MEMORY_SHARDS_MAX: usize = 4096;

/// Most keys of one [`Table`](crate::table::Table): ids are 32 bits and the last one means "none".
pub const TABLE_KEYS_MAX: usize = u32::MAX as usize - 1;

/// Most writers (store handles) whose last write a record names. If more than that wrote a key while a write of another was
/// being settled, its outcome is unknown.
pub const WRITERS_MAX: usize = 8;

/// Longest header of a record, in bytes. The bound of a state is that of a server's value less this.
pub const HEADER_BYTES_MAX: usize = 512;
