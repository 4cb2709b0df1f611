//! All bounds of this crate, by name.

/// Commands in one transaction.
pub const MULTI_COMMANDS_MAX: usize = 1_000_000;

/// Bytes of the commands in one transaction (Redis: the client's query buffer limit).
pub const MULTI_BYTES_MAX: usize = 1 << 30;

/// Bytes of one string, as Redis's proto-max-bulk-len.
pub const STRING_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes of one reply, including its structure: enough for any one string. A larger reply is replaced by
/// `ERR max response size exceeded` before it is built, and its command is rolled back. The replies of one `EXEC` share the bound.
pub const REPLY_BYTES_MAX: usize = STRING_BYTES_MAX + 1024 * 1024;

/// Bytes of all replies that clients have not read yet, plus the one being built: the largest reply, copied and encoded. A reply over
/// [`REPLY_SMALL_BYTES`] that does not fit is replaced by `ERR more than ... bytes of responses wait for clients`, and its command is rolled back.
pub const REPLIES_WAITING_BYTES_MAX: usize = 2 * REPLY_BYTES_MAX;

/// Bytes of a reply that is built however many bytes are pending.
pub const REPLY_SMALL_BYTES: usize = 1024 * 1024;

/// Steps of one command in work that is not proportional to its input: repeated pattern matching, visits of JSON paths,
/// long names and weights of SORT. Beyond it: `ERR the pattern takes too many steps`, and the command is rolled back. LCS has an
/// equal bound of its own.
pub const COMMAND_STEPS_MAX: usize = STRING_BYTES_MAX / 4;

/// Bytes of a name or weight of SORT that are free; further bytes count as steps ([`COMMAND_STEPS_MAX`]).
pub const SORT_TEXT_BYTES_FREE: usize = 256;

/// Keys of one command up to which repeated keys are not checked.
pub const REPEATED_KEYS_FREE: usize = 16;

/// Bytes of values that one command (SUNION, ZINTER, PFCOUNT, BITOP, JSON.MGET and similar) reads again because their keys
/// occur more than once. Beyond it: `ERR the same large keys are repeated`.
pub const REPEATED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Steps of pattern matching that are free for each byte of the text. Few patterns need more than one.
pub const PATTERN_STEPS_PER_BYTE: usize = 16;

/// Bytes of one request, whatever `client-query-buffer-limit` says: offsets within it have 32 bits.
pub const REQUEST_BYTES_MAX: usize = u32::MAX as usize;

/// Arguments of one request.
pub const ARGUMENTS_MAX: usize = 1024 * 1024;

/// Bytes of an inline request (one line of text).
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Arguments of a request before AUTH, as in Redis. Beyond it: `unauthenticated multibulk length`, and the connection is closed.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;

/// Bytes of an argument before AUTH, as in Redis. Beyond it: `unauthenticated bulk length`, and the connection is closed.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

/// Elements in one reply of SRANDMEMBER, HRANDFIELD or ZRANDMEMBER with a negative count: they may repeat, so the size of
/// the value is no bound.
pub const RANDOM_PICKS_MAX: usize = 10_000_000;

/// Bytes of the fields and values of one stream entry, as in Redis.
pub const STREAM_ENTRY_BYTES_MAX: usize = 1 << 30;

/// Iterations of one SCAN that continues until it has as many keys as requested (Upstash); then it returns what it has.
pub const SCAN_STRIDES_MAX: usize = 1000;

/// Bytes of the text of one JSON document. Its tree uses about thirty times as much while a command works on it.
pub const JSON_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that a JSON command writes in total when it writes a value at several locations: a path and a value of a few kilobytes could
/// make a tree of gigabytes. Beyond it: `ERR document exceeds maximum allowed size`.
pub const JSON_COPIED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Nesting depth of a JSON document: the limit of serde_json, and so of RedisJSON.
pub const JSON_DEPTH_MAX: usize = 127;

/// Bytes of a path into a document.
pub const JSON_PATH_BYTES_MAX: usize = 16 * 1024;

/// Nesting depth of filters, parentheses, negations and functions in a path.
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

/// Bytes that the `copy` operations of one JSON patch copy in total: a few of them could double a document repeatedly.
pub const PATCH_COPIED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Units of a rate limit (THROTTLE, CL.THROTTLE): the burst, the count per period, the quantity of a request.
pub const THROTTLE_UNITS_MAX: u64 = keystead_limit::bounds::WHOLE_MAX;

/// Seconds of the period of a rate limit: 100 years.
pub const THROTTLE_PERIOD_SECONDS_MAX: u64 = keystead_limit::bounds::SPAN_MS_MAX / 1000;

/// How long the response to a request with an idempotency key is stored: a day.
pub const IDEMPOTENCY_RESPONSE_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes of the largest response body that is stored. A request with an idempotency key whose response is larger gets `413`
/// and is rolled back.
pub const IDEMPOTENCY_RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes pending for one MONITOR client when the setting for subscribers has no limit.
pub const MONITOR_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Milliseconds that loading a function library may take, as in Redis. The time limit of a script is a setting
/// (`busy-reply-threshold`, 5 seconds).
pub const FUNCTION_LOAD_MS_MAX: u64 = 500;

/// Bytes that one run of a script may use: its values, compiled code, reply, and the messages it publishes. A script that needs
/// more is stopped and rolled back.
pub const SCRIPT_MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Nesting depth of tables in the reply of a script; deeper tables are replaced by an error.
pub const SCRIPT_REPLY_DEPTH_MAX: usize = 1000;

/// Nesting depth of tables that cjson and cmsgpack read or write, whatever `cjson.decode_max_depth` says.
pub const SCRIPT_DECODE_DEPTH_MAX: usize = 1000;

/// Values that one call of `cmsgpack.unpack` returns.
pub const SCRIPT_UNPACKED_MAX: usize = 7900;

/// Lines that one script may write to the log; more are dropped.
pub const SCRIPT_LOG_LINES_MAX: usize = 100;

/// Bytes of one of those lines, as in Redis; the rest of it is dropped.
pub const SCRIPT_LOG_LINE_BYTES_MAX: usize = 1024;

/// Scripts in the script cache. Scripts from EVAL are evicted, oldest first; SCRIPT LOAD returns an error when only loaded
/// scripts are left.
pub const SCRIPTS_MAX: usize = 10_000;

/// Bytes of the texts of those scripts.
pub const SCRIPTS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Scripts that one shard keeps compiled. Beyond it, all are dropped and compiled again when they are called.
pub const SCRIPTS_COMPILED_MAX: usize = 2_000;

/// Bytes of the texts of the scripts that one shard keeps compiled.
pub const SCRIPTS_COMPILED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of the texts of all function libraries.
pub const LIBRARIES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A script that uses more than this is not kept compiled, so that its memory is freed.
pub const SCRIPT_MEMORY_SWEEP_BYTES: usize = 16 * 1024 * 1024;

/// Mutations in one request of offline sync, and outcomes that are stored for a client in a slot. A request with more gets `400`; an
/// older id is `refused` as `id_goes_back`.
pub const SYNC_ITEMS_MAX: usize = 50;

/// Bytes of the value of one mutation as JSON. A larger one is `refused` as `too_large`.
pub const SYNC_VALUE_BYTES_MAX: usize = 256 * 1024;

/// Bytes of a document that is synchronised. A mutation of a larger one, or that would make one, is `refused` as `too_large`.
pub const SYNC_DOCUMENT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of documents that the mutations of a request read and write in one step. The rest is applied in the next one.
pub const SYNC_STEP_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of the name of a member that a mutation changes. A longer one is `refused` as `too_large`.
pub const SYNC_FIELD_BYTES_MAX: usize = 512;

/// Bytes of the name of a client. A longer one gets `400`.
pub const SYNC_CLIENT_BYTES_MAX: usize = 64;

/// Members of a document whose stamps are stored. A mutation of one more is `refused` as `too_many_fields`.
pub const SYNC_FIELDS_MAX: usize = 1_000;

/// Names of members that a result lists as lost. The others are left out.
pub const SYNC_LOST_MAX: usize = 100;

/// How far the time of a mutation may be ahead of the server's. One further ahead counts as made now, and its result says so.
pub const SYNC_SKEW_MS_MAX: u64 = 60 * 1000;

/// How long stamps and tombstones are stored: 30 days. An older mutation is `refused` as `too_old`.
pub const SYNC_RETENTION_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// How long the ids of a client are stored after its last mutation in a slot. Later, only the stamps detect a mutation that is sent
/// again.
pub const SYNC_CLIENT_MS: u64 = SYNC_RETENTION_MS;
