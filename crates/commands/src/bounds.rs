//! Every limit of this crate, by name.

/// Commands in one transaction.
pub const MULTI_COMMANDS_MAX: usize = 1_000_000;

/// Bytes of the commands in one transaction (Redis: the client's query buffer limit).
pub const MULTI_BYTES_MAX: usize = 1 << 30;

/// Bytes of one string, as Redis's proto-max-bulk-len has it.
pub const STRING_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes of one reply, what holds its parts together included: any one string, and some more. A larger one is answered
/// `ERR max response size exceeded` before it is built, and what its command changed is undone. The replies of one `EXEC` have it together.
pub const REPLY_BYTES_MAX: usize = STRING_BYTES_MAX + 1024 * 1024;

/// Bytes of all replies that wait for their clients, and of the one that is being built: what the largest takes, copied and encoded. A reply over [`REPLY_SMALL_BYTES`] that
/// does not fit in is answered `ERR more than ... bytes of responses wait for clients`, and what its command changed is undone.
pub const REPLIES_WAITING_BYTES_MAX: usize = 2 * REPLY_BYTES_MAX;

/// Bytes of a reply that is built however much waits.
pub const REPLY_SMALL_BYTES: usize = 1024 * 1024;

/// Steps of one command in work that its input does not bound in proportion: matching patterns again and again, visits of paths into
/// documents, long names and weights of SORT. More is answered `ERR the pattern takes too many steps`, and what the command changed is undone. LCS has as many.
pub const COMMAND_STEPS_MAX: usize = STRING_BYTES_MAX / 4;

/// Bytes of a name or weight of SORT that are free; the others count as steps ([`COMMAND_STEPS_MAX`]).
pub const SORT_TEXT_BYTES_FREE: usize = 256;

/// Keys of one command that are looked at for repetition only where there are more.
pub const REPEATED_KEYS_FREE: usize = 16;

/// Bytes of values that one command (SUNION, ZINTER, PFCOUNT, BITOP, JSON.MGET and their kin) goes through again because it names
/// their keys again. More is answered `ERR the same large keys are named again and again`.
pub const REPEATED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Steps of matching a pattern that are free for each byte of the text. Few patterns take more than one.
pub const PATTERN_STEPS_PER_BYTE: usize = 16;

/// Bytes of one request, whatever `client-query-buffer-limit` says: places within it are 32 bits wide.
pub const REQUEST_BYTES_MAX: usize = u32::MAX as usize;

/// Arguments of one request.
pub const ARGUMENTS_MAX: usize = 1024 * 1024;

/// Bytes of a request in one line of text, as people type it.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Arguments of a request before AUTH, as Redis has it. More are answered `unauthenticated multibulk length`, and the connection is closed.
pub const STRANGER_ARGUMENTS_MAX: usize = 10;

/// Bytes of an argument before AUTH, as Redis has it. More are answered `unauthenticated bulk length`, and the connection is closed.
pub const STRANGER_BULK_BYTES_MAX: usize = 16 * 1024;

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

/// Bytes that the `copy` operations of one JSON patch copy in all: a few of them could double a document again and again.
pub const PATCH_COPIED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Units of a rate limit (THROTTLE, CL.THROTTLE): the burst, those of a period, those that are asked for.
pub const THROTTLE_UNITS_MAX: u64 = keystead_limit::bounds::WHOLE_MAX;

/// Seconds of the period of a rate limit: 100 years.
pub const THROTTLE_PERIOD_SECONDS_MAX: u64 = keystead_limit::bounds::SPAN_MS_MAX / 1000;

/// How long the answer to a request with an idempotency key is kept: a day.
pub const ANSWER_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Largest body of an answer that is kept, in bytes. A request with an idempotency key whose answer is larger is answered `413`,
/// and what it changed is undone.
pub const ANSWER_KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that wait for one who sees every command (MONITOR), where the setting for subscribers has no limit.
pub const MONITOR_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Milliseconds that loading a library of functions may take, as Redis has it. How long a script may run is a setting
/// (`busy-reply-threshold`, 5 seconds).
pub const FUNCTION_LOAD_MS_MAX: u64 = 500;

/// Bytes that one run of a script may take: its values, what is compiled and answered for it, and what it sends to others. One that
/// wants more is stopped, and what it changed is undone.
pub const SCRIPT_MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Tables within tables in what a script returns; what is deeper is an error in its place.
pub const SCRIPT_REPLY_DEPTH_MAX: usize = 1000;

/// Tables within tables that cjson and cmsgpack read or write, whatever `cjson.decode_max_depth` says.
pub const SCRIPT_DECODE_DEPTH_MAX: usize = 1000;

/// Values that one call of `cmsgpack.unpack` gives.
pub const SCRIPT_UNPACKED_MAX: usize = 7900;

/// Lines that one script may write to the log; more are dropped.
pub const SCRIPT_LOG_LINES_MAX: usize = 100;

/// Bytes of one of those lines, as Redis has it; the rest of it is dropped.
pub const SCRIPT_LOG_LINE_BYTES_MAX: usize = 1024;

/// Scripts that are remembered by their SHA1. Those that came with EVAL make room, oldest first; SCRIPT LOAD is refused when
/// only loaded ones are left.
pub const SCRIPTS_MAX: usize = 10_000;

/// Bytes of the texts of those scripts.
pub const SCRIPTS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Scripts that one shard keeps compiled. When there are more, it forgets them all and compiles anew what is called.
pub const SCRIPTS_COMPILED_MAX: usize = 2_000;

/// Bytes of the texts of the scripts that one shard keeps compiled.
pub const SCRIPTS_COMPILED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of the texts of all libraries of functions.
pub const LIBRARIES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A script that takes more than this leaves nothing compiled, so that the memory is given back.
pub const SCRIPT_MEMORY_SWEEP_BYTES: usize = 16 * 1024 * 1024;
