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

/// Bytes of the text of one JSON document. Its tree takes some thirty times as much while a command works on it.
pub const JSON_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Levels of arrays and objects in a JSON document: what serde_json reads, and so RedisJSON, too.
pub const JSON_DEPTH_MAX: usize = 127;

/// Bytes of a path into a document.
pub const JSON_PATH_BYTES_MAX: usize = 16 * 1024;

/// Filters, parentheses, negations and functions of a path within one another.
pub const JSON_PATH_NESTING_MAX: usize = 16;

/// Values that a path selects, at any of its steps.
pub const JSON_MATCHES_MAX: usize = 1_000_000;

/// Values that a path visits, whatever the document is.
pub const JSON_VISITS_MAX: usize = 1_000_000;

/// Values that a path visits in addition, for each value of the document.
pub const JSON_VISITS_PER_VALUE: usize = 8;

/// Bytes of a regular expression in a path.
pub const JSON_REGEX_BYTES_MAX: usize = 4096;

/// Operations of one JSON patch (RFC 6902).
pub const PATCH_OPERATIONS_MAX: usize = 1000;

/// How long the answer to a request with an idempotency key is kept: a day.
pub const ANSWER_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes that wait for one who sees every command (MONITOR), where the setting for subscribers has no limit.
pub const MONITOR_BYTES_MAX: usize = 256 * 1024 * 1024;
