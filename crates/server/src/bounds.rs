//! Every limit of the doors, named once. A limit that is reached has an answer; the constant's comment says
//! which.
//!
//! Doors take [`Bounds`], so that a test can reach a limit without ten thousand sockets or a minute's wait.

use std::time::Duration;

use keystead_commands::hub::OutputLimit;

/// Most open connections of each door, HTTP and RESP, or fewer where the system grants fewer files. One more is answered `503` with
/// `queue_full`, or `max number of clients reached`, and closed.
pub const CONNECTIONS_MAX: usize = 10_000;

/// Files that are not for connections: logs, the runtime's own, and connections that are being refused.
pub const FILES_RESERVED: usize = 256;

/// Files of one shard: its loop, the journal, and two connections to the archive, each with its log and index.
pub const FILES_PER_SHARD: usize = 16;

/// Most connections over the limit that are being answered at a time, with their health or `503`. With one more the oldest is
/// closed without a word: who asks for health sends its request at once.
pub const REJECTIONS_MAX: usize = 128;

/// How long a connection over the limit may take to send its request and hear `503`. Longer, and it is
/// closed.
pub const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// Largest request line and headers together, in bytes. More is answered `431` and the connection closed.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long a connection may take to send a complete request line and headers, counted from when the door is
/// ready for them, so that an idle connection counts too. Longer, and it is closed without a word.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

/// Largest request body in bytes. More is answered `413` with `too_large`.
pub const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// How long a request's body may take to arrive. Longer is answered `408` and the connection closed.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Most commands of one REST request (`/pipeline`, `/multi-exec`). More is answered `400`.
pub const REST_COMMANDS_MAX: usize = 10_000;

/// Bytes of the answers of one REST request. Of a pipeline the commands that are left then do not run and say so; a transaction is
/// undone and says so.
pub const REST_ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How long the commands of a pipeline run before others get their turn on the shard.
pub const REST_TURN: Duration = Duration::from_millis(1);

/// Most channels or patterns of one REST subscription. More is answered `400`.
pub const REST_CHANNELS_MAX: usize = 1_000;

/// Most operations of one `/kv:batch`. More is answered `413`.
pub const BATCH_OPERATIONS_MAX: usize = 100;

/// Most documents on one page of `GET /kv`. A higher limit is answered `400`; without one the list is streamed.
pub const LIST_LIMIT_MAX: usize = 10_000;

/// Bytes after which a page of `GET /kv` ends early, with the cursor of the next.
pub const LIST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Keys that a list looks at before others get their turn.
pub const LIST_SLICE: usize = 1_000;

/// Longest wait for a document's next change. A longer one is answered `400`.
pub const WAIT_MS_MAX: u64 = 5 * 60 * 1000;

/// Longest `Idempotency-Key`, in bytes. A longer one is answered `400`.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Most policies of a settings file. More are refused at start.
pub const POLICIES_MAX: usize = 1_000;

/// Longest name of a policy, in bytes. A longer one is refused at start.
pub const POLICY_NAME_BYTES_MAX: usize = keystead_limit::bounds::NAME_BYTES_MAX;

/// How often the settings file is looked at. A change takes effect when it has been seen twice.
pub const RELOAD_LOOK: Duration = Duration::from_millis(500);

/// How many looks after a store could not be opened it is tried again.
pub const RELOAD_AGAIN_LOOKS: u32 = 10;

/// Most keys that the policies on the store `memory` keep together. Beyond it a key that was not used lately is forgotten and begins
/// anew.
pub const MEMORY_KEYS_MAX: usize = 1_000_000;

/// Largest settings file, in bytes. A larger one is refused at start; while the server runs, the policies stay as they were.
pub const SETTINGS_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Denied keys that a policy remembers. Beyond it the least one makes room.
pub const DENIED_KEYS: usize = 100;

/// Bytes by which a denied key is remembered. Of a longer one only the beginning is known.
pub const DENIED_KEY_BYTES: usize = 128;

/// Denied keys that metrics and `GET /limit/{policy}` tell of.
pub const DENIED_KEYS_TOLD: usize = 10;

/// Longest time that a reservation waits to be settled, and how long it does where nobody says. A longer one is answered `400`.
pub const RESERVATION_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// See [`RESERVATION_MS_MAX`].
pub const RESERVATION_MS: u64 = 10 * 60 * 1000;

/// Most commands, or operations, that are written with a decision. More is answered `413`.
pub const THEN_MAX: usize = BATCH_OPERATIONS_MAX;

/// Longest line that `keystead limit replay` reads, in bytes. A longer one is refused.
pub const REPLAY_LINE_BYTES_MAX: usize = 1024 * 1024;

/// How long a stream of events may be silent before it says that it is still there.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a new connection waits for its shard's loop. Longer, and the listener answers what needs no keys: health, `AUTH`,
/// `SCRIPT KILL`, `SHUTDOWN`. Shorter than the patience of a health check, longer than a loop under load takes.
pub const TAKE_BACK_AFTER: Duration = Duration::from_millis(250);

/// How long a command may keep its shard's loop before new connections are answered `BUSY` or `503`, where `busy-reply-threshold`
/// is 0. Else it is that.
pub const BUSY_AFTER: Duration = Duration::from_secs(1);

/// How often a connection that waits for its shard's loop looks whether it is to be answered `BUSY`.
pub const BUSY_LOOK: Duration = Duration::from_millis(50);

/// Bytes of a request line by which a health check is known before it is read.
pub const HEALTH_PEEK_BYTES: usize = 32;

/// How often a paused request looks whether CLIENT PAUSE was ended.
pub const PAUSE_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// How long requests in flight may take to finish after the signal to stop. Longer, and they are cut off.
/// It leaves half of what `docker stop` grants before it kills.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How often scripts are killed after [`DRAIN_TIMEOUT`]: behind one that is killed the next of a pipeline begins.
pub const KILL_LOOK: Duration = Duration::from_millis(50);

/// How long a shard's loop may be at one command when the database is closed. Longer, and the process ends without closing it, as
/// if it was killed: what was acknowledged is in the journal.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the door rests after the system refused it a connection, for example because no file handle is
/// left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a Redis client may take to bring the token, where one is set. Longer, and it is closed without a word.
pub const AUTH_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the answer to a wrong token is kept back: `WRONGPASS`, or `401` over HTTP. A right one is never.
pub const AUTH_FAILURE_DELAY: Duration = Duration::from_millis(250);

/// Most wrong tokens of one connection. The answer to the last of them closes it.
pub const AUTH_FAILURES_MAX: u32 = 8;

/// Bytes of requests that are read ahead before AUTH. A request that is longer closes the connection; while answers are not read, the
/// rest stays with the client.
pub const STRANGER_INPUT_BYTES_MAX: usize = 32 * 1024;

/// Bytes of answers that may wait for a client before AUTH. While more do, nothing is read and run for it.
pub const STRANGER_OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// How often a log line about what a stranger did is written, at most; those between are counted.
pub const NOTICE_EVERY: Duration = Duration::from_secs(60);

/// Bytes of a token below which there is a warning at start: a shorter one can be guessed.
pub const TOKEN_BYTES_ADVISED: usize = 16;

/// Bytes by which a refusal shows the `Host` that was asked for. Of a longer one only the beginning is shown.
pub const HOST_SHOWN_BYTES: usize = 64;

/// Most names in `allowed-hosts`. More are refused at start.
pub const ALLOWED_HOSTS_MAX: usize = 100;

/// Longest token in bytes. A longer one is refused at start.
pub const TOKEN_BYTES_MAX: usize = 1024;

/// Largest file with a token, in bytes: the longest token and the end of its line. A larger one is refused, as "holds more than".
pub const TOKEN_FILE_BYTES_MAX: u64 = TOKEN_BYTES_MAX as u64 + 2;

/// Least memory for values. Less is refused at start: a server that evicts at every turn serves nobody.
pub const MEMORY_BYTES_MIN: u64 = 1024 * 1024;

/// How long a command may take to reach the server. Longer, and it says that none answers.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long what listens at the address may take to show that it speaks HTTP. Longer, and the command says that it does not.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest answer that a command takes from the server, in bytes. The rest is not read.
pub const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// How long a command may work in silence before it says that it still does.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Bytes that a RESP connection reads in one go.
pub const RESP_READ_BYTES: usize = 16 * 1024;

/// Read buffers that a loop keeps for the next connection that reads.
pub const RESP_BUFFERS_KEPT: usize = 64;

/// Bytes of requests that are read ahead while a connection waits for an earlier one. The rest stays with the client.
pub const RESP_WAITING_INPUT_BYTES: usize = 1024 * 1024;

/// Room for answers that a connection keeps between requests.
pub const RESP_OUTPUT_KEPT_BYTES: usize = 16 * 1024;

/// Bytes of answers that wait for a client while its next request runs. With more, its requests wait until it reads.
pub const RESP_OUTPUT_PAUSE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of answers that may wait for a client that does not read, where CONFIG sets no limit. More, and it is closed; a transaction
/// that answers more by itself is undone and says so.
pub const RESP_OUTPUT_BYTES_MAX: usize = 1 << 30;

/// Bytes that may wait for a client at all.
pub(crate) fn hard_bytes(limit: OutputLimit) -> usize {
    match limit.hard_bytes {
        0 => RESP_OUTPUT_BYTES_MAX,
        bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
    }
}

/// How long a client may take to agree on TLS. Longer, and it is closed.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits that an HTTP door keeps.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// See [`CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// See [`HEADER_BYTES_MAX`].
    pub header_bytes_max: usize,
    /// See [`HEADER_TIMEOUT`].
    pub header_timeout: Duration,
    /// See [`BODY_BYTES_MAX`].
    pub body_bytes_max: usize,
    /// See [`BODY_TIMEOUT`].
    pub body_timeout: Duration,
    /// See [`DRAIN_TIMEOUT`].
    pub drain_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            connections_max: CONNECTIONS_MAX,
            header_bytes_max: HEADER_BYTES_MAX,
            header_timeout: HEADER_TIMEOUT,
            body_bytes_max: BODY_BYTES_MAX,
            body_timeout: BODY_TIMEOUT,
            drain_timeout: DRAIN_TIMEOUT,
        }
    }
}
