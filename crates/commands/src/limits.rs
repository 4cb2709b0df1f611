//! Every limit of this crate, by name.

/// Commands in one transaction.
pub const MULTI_COMMANDS_MAX: usize = 1_000_000;

/// Bytes of the commands in one transaction (Redis: the client's query buffer limit).
pub const MULTI_BYTES_MAX: usize = 1 << 30;

/// Bytes of one string, as Redis's proto-max-bulk-len has it.
pub const STRING_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes of one request, whatever `client-query-buffer-limit` says: places within it are 32 bits wide.
pub const REQUEST_BYTES_MAX: usize = u32::MAX as usize;

/// Arguments of one request.
pub const ARGUMENTS_MAX: usize = 1024 * 1024;

/// Bytes of a request in one line of text, as people type it.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Elements that are picked at random with repetition in one answer (SRANDMEMBER, HRANDFIELD, ZRANDMEMBER with a negative
/// count): what is picked does not end with the elements that are there.
pub const RANDOM_PICKS_MAX: usize = 10_000_000;

/// Bytes of the fields and values of one stream entry, as Redis has it.
pub const STREAM_ENTRY_BYTES_MAX: usize = 1 << 30;

/// Strides of one SCAN that looks on until it has the keys that were asked for (Upstash); then it answers with what it has.
pub const SCAN_STRIDES_MAX: usize = 1000;

/// Bytes that wait for one who sees every command (MONITOR), where the setting for subscribers has no limit.
pub const MONITOR_BYTES_MAX: usize = 256 * 1024 * 1024;
