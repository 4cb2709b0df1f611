//! Every bound of the server on sizes, counts and times. The comment of a constant says what happens when the bound is reached.
//!
//! The HTTP listener takes [`Bounds`], so that a test can reach a bound without ten thousand sockets or a minute's wait.

mod router;
mod split;

use std::time::Duration;

pub use keystead_http_api::bounds::{
    BATCH_OPERATIONS_MAX, IDEMPOTENCY_KEY_BYTES_MAX, LIST_LIMIT_MAX, RESERVATION_MS, RESERVATION_MS_MAX,
    REST_COMMANDS_MAX, STATEMENT_PARAMS_MAX, STATEMENTS_MAX, THEN_MAX,
};

use keystead_commands::hub::OutputLimit;

pub use router::*;
pub use split::*;

/// Most open connections of each listener, HTTP and RESP, or fewer if the system grants fewer files. One more gets `503` with
/// `queue_full`, or `max number of clients reached`, and is closed.
pub const CONNECTIONS_MAX: usize = 10_000;

/// Files that are not for connections: logs, the runtime's own, and connections that are being rejected.
pub const FILES_RESERVED: usize = 256;

/// Files of one shard: its loop, the journal, and two connections to the archive, each with its log and index.
pub const FILES_PER_SHARD: usize = 16;

/// Most connections over [`CONNECTIONS_MAX`] that are being rejected at a time, with an error or the health of the server. With one
/// more, the oldest is closed without a response: a health check sends its request at once.
pub const REJECTIONS_MAX: usize = 128;

/// How long a rejected connection may take to send its request and read the error. After that it is closed.
pub const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// Largest request line and headers together, in bytes. Larger ones get `431`, and the connection is closed.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long a connection may take to send a complete request line and headers, counted from the end of the last response, so this
/// is also the idle timeout. After that it is closed without a response.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

/// Largest request body in bytes. A larger one gets `413` with `too_large`.
pub const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Bytes of all request bodies that are being received or used, of all connections together. A request whose body does not fit gets
/// `503` with `queue_full`, and its connection is closed.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of a body that is read however many others there are.
pub const BODY_SMALL_BYTES: usize = 64 * 1024;

/// How long a request's body may take to arrive. After that the request gets `408`, and the connection is closed.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of the replies to one REST request. Over it, the remaining commands of a pipeline do not run and return an error; a
/// transaction is rolled back with an error.
pub const REST_RESPONSE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How long the commands of a pipeline run before the shard runs other requests.
pub const REST_TURN: Duration = Duration::from_millis(1);

/// Most channels or patterns of one REST subscription. More get `400`.
pub const REST_CHANNELS_MAX: usize = 1_000;

/// How often a node of a cluster reads the slot table. A change is known to all nodes after this time.
pub const CLUSTER_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The same while slots move to or from the node, and how often a node or an operator continues a move that waits for another.
pub const MIGRATION_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How often a target that has everything looks whether it needs more after all.
pub const MIGRATION_IDLE: Duration = Duration::from_millis(50);

/// How long a request waits for a slot that is handed over. After that it is rejected, *not applied*: `TRYAGAIN`, or 503 `try_again`.
pub const PARKED_TIMEOUT: Duration = Duration::from_secs(5);

/// How often an HTTP request for a slot that is handed over is tried again, if no slot has changed hands meanwhile.
pub const PARKED_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Most requests of a node that wait for slots that are handed over. One more is rejected at once, *not applied*: `TRYAGAIN`, or 503.
pub const PARKED_MAX: usize = 10_000;

/// How long a hand over may take, seen by the operator. After that the migration is aborted, and begun again.
pub const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often an operator asks the nodes how far they are.
pub const OPERATOR_INTERVAL: Duration = Duration::from_millis(20);

/// How long nothing may move before an operator's command ends with an error. It may be run again.
pub const REBALANCE_STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// How long `keystead cluster` waits for the nodes to say how large their slots are. After that nothing moves.
pub const SIZES_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes on disk for a byte of keys and values that a node takes in: the journal, and the archive.
pub const MIGRATION_DISK_FACTOR: u64 = 2;

/// How long `keystead cluster add` waits for the new node. After that it ends with an error, and the node is in the table.
pub const CLUSTER_ADD_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a source may take to seal. After that it serves again, and the hand over is tried again.
pub const SEAL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a source leaves slots that it has sealed without an owner who serves them. After that it ends the migration itself and serves
/// again. Together with [`SEAL_TIMEOUT`] less than [`PARKED_TIMEOUT`], so that requests wait for it and see no error.
pub const FROZEN_TIMEOUT: Duration = Duration::from_millis(2_500);

/// What expires within this time of a hand over is not compared: each node removes it by its own clock.
pub const MIGRATION_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// Ids that are looked at in one turn of a shard to find the keys of a slot.
pub const MIGRATION_SCAN_IDS: usize = 4_096;

/// Most keys that are exported, compared or deleted in one turn of a shard.
pub const MIGRATION_SLICE_KEYS: usize = 256;

/// A turn that exports or stages keys ends with the key that reaches so many bytes.
pub const MIGRATION_SLICE_BYTES: usize = 1 << 20;

/// Most keys in one message to a target.
pub const MIGRATION_BATCH_KEYS: usize = 2_048;

/// A message to a target ends with the key that reaches so many bytes.
pub const MIGRATION_BATCH_BYTES: usize = 4 << 20;

/// Largest message that a target accepts: a batch, and one key. A larger one is an error of the migration.
pub const MIGRATION_MESSAGE_BYTES_MAX: usize = 640 << 20;

/// Most keys whose change a source remembers for a target. If more change before that takes them, it copies again.
pub const MIGRATION_CHANGED_MAX: usize = 1_000_000;

/// How much of `--rate` a target may take at once after a pause.
pub const MIGRATION_RATE_BURST: Duration = Duration::from_millis(100);

/// How long a source collects changes before it sends them.
pub const MIGRATION_TAIL_WAIT: Duration = Duration::from_millis(100);

/// How long a node may take to answer another node or an operator about a migration.
pub const MIGRATION_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long reading or changing the slot table may take. After that the store counts as away: a node goes on with the table it has.
pub const CLUSTER_STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a node may take to reply to `keystead cluster status`. After that it is shown as not answering.
pub const CLUSTER_PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Most REST requests in flight to the upstream. One more gets `503`.
pub const UPSTREAM_CALLS_MAX: usize = 1_024;

/// Most connections for requests to one node of the upstream. More requests wait for one until their deadline.
pub const UPSTREAM_CONNECTIONS_MAX: usize = 32;

/// Most REST subscriptions in front of an upstream, each of which has a connection to it. One more gets `503`.
pub const UPSTREAM_SUBSCRIPTIONS_MAX: usize = 1_000;

/// Bytes of messages of the upstream that wait for one REST client. With more, the client is closed.
pub const UPSTREAM_MESSAGES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Scripts whose text was changed for the upstream. With more, all are forgotten, and clients send them again.
pub const UPSTREAM_SCRIPTS_MAX: usize = 1_000;

/// How often it is checked whether the upstream replies.
pub const UPSTREAM_PROBE_EVERY: Duration = Duration::from_secs(5);

/// Bytes after which a page of `GET /kv` ends early, with the cursor of the next page.
pub const LIST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Keys that a list reads before the shard runs other requests.
pub const LIST_SLICE: usize = 1_000;

/// Longest wait for a document's next change. A longer one gets `400`.
pub const WAIT_MS_MAX: u64 = 5 * 60 * 1000;

/// Most policies of a settings file. With more, the server does not start.
pub const POLICIES_MAX: usize = 1_000;

/// Longest name of a policy, in bytes. With a longer one, the server does not start.
pub const POLICY_NAME_BYTES_MAX: usize = keystead_limit::bounds::NAME_BYTES_MAX;

/// How often the settings file is checked. A change takes effect when two checks in a row have read it.
pub const RELOAD_LOOK: Duration = Duration::from_millis(500);

/// After how many checks a store that could not be opened is tried again.
pub const RELOAD_AGAIN_LOOKS: u32 = 10;

/// How often it is checked whether requests still use a store that is to be closed.
pub const STORE_RELEASE_LOOK: Duration = Duration::from_millis(20);

/// After how many checks a store is closed although requests use it. They then get `503`.
pub const STORE_RELEASE_LOOKS: u32 = 250;

/// Most keys of all policies on the store `memory` together. Over it, a key that was not used recently is evicted and starts with a
/// full limit.
pub const MEMORY_KEYS_MAX: usize = 1_000_000;

/// Largest settings file, in bytes. With a larger one, the server does not start; a running server keeps its policies.
pub const SETTINGS_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Denied keys that a policy counts. Over it, the one with the lowest count is replaced.
pub const DENIED_KEYS: usize = 100;

/// Bytes of a denied key that are kept. A longer one is truncated.
pub const DENIED_KEY_BYTES: usize = 128;

/// Denied keys that metrics and `GET /limit/{policy}` report.
pub const DENIED_KEYS_LISTED: usize = 10;

/// Longest line that `keystead limit replay` reads, in bytes. A longer one is an error.
pub const REPLAY_LINE_BYTES_MAX: usize = 1024 * 1024;

/// Longest time in seconds for which `keystead store bench` measures each row. A longer one is an error.
pub const BENCH_SECONDS_MAX: u64 = 600;

/// How long one case of `keystead store verify` may take. After that it has failed. Far more than any needs on a server that is near.
pub const VERIFY_CASE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a stream of events may be silent before a heartbeat is sent.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a new connection waits for its shard's loop. After that the listener serves what needs no keys: health, `AUTH`,
/// `SCRIPT KILL`, `SHUTDOWN`. Shorter than the timeout of a health check, longer than a turn of a loop under load.
pub const TAKE_BACK_AFTER: Duration = Duration::from_millis(250);

/// How long a command may keep its shard's loop busy before new connections get `BUSY` or `503`, if `busy-reply-threshold` is 0.
/// Otherwise that setting applies.
pub const BUSY_AFTER: Duration = Duration::from_secs(1);

/// How often a connection that waits for its shard's loop checks whether the shard counts as busy.
pub const BUSY_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Bytes of a request that are peeked at to recognise a health check.
pub const HEALTH_PEEK_BYTES: usize = 32;

/// How often a paused request checks whether CLIENT PAUSE has ended.
pub const PAUSE_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// How long requests in flight may take to finish after the signal to stop. After that their connections are closed. Half of the
/// time that `docker stop` waits before it kills.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is checked whether all clients are gone.
pub const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// How often scripts are killed after [`DRAIN_TIMEOUT`]: when one is killed, the next of its pipeline starts.
pub const KILL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a shard's loop may run one command when the database is closed. After that the process ends without closing it, as if it
/// was killed: what was acknowledged is in the journal.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a listener pauses after accept failed, for example because no file descriptor is left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a Redis client may take to authenticate, if a token is set. After that it is closed without a reply.
pub const AUTH_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the response to a wrong token is delayed: `WRONGPASS`, or `401` over HTTP. With the right token there is no delay.
pub const AUTH_FAILURE_DELAY: Duration = Duration::from_millis(250);

/// Most wrong tokens of one connection. It is closed after the reply to the last of them.
pub const AUTH_FAILURES_MAX: u32 = 8;

/// Bytes of requests that are read ahead before AUTH. A longer request closes the connection; while the client does not read its
/// replies, no more is read.
pub const UNAUTHENTICATED_INPUT_BYTES_MAX: usize = 32 * 1024;

/// Bytes of unsent replies to a client before AUTH. While there are more, its requests are neither read nor run.
pub const UNAUTHENTICATED_OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// Least time between two log lines of one kind that clients without the token can cause; those between are counted.
pub const NOTICE_EVERY: Duration = Duration::from_secs(60);

/// A shorter token, in bytes, draws a warning at start: it might be guessed.
pub const TOKEN_BYTES_ADVISED: usize = 16;

/// Bytes of the `Host` header that an error shows. A longer one is truncated.
pub const HOST_SHOWN_BYTES: usize = 64;

/// Most names in `allowed-hosts`. With more, the server does not start.
pub const ALLOWED_HOSTS_MAX: usize = 100;

/// Longest token in bytes. With a longer one, the server does not start.
pub const TOKEN_BYTES_MAX: usize = 1024;

/// Largest token file, in bytes: the longest token and a line end. A larger one is an error.
pub const TOKEN_FILE_BYTES_MAX: u64 = TOKEN_BYTES_MAX as u64 + 2;

/// Least `memory` for values. With less, the server does not start: it would evict in every turn.
pub const MEMORY_BYTES_MIN: u64 = 1024 * 1024;

/// How long a subcommand waits for a connection to the server.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a subcommand waits for the response to `GET /healthz`.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of a response that a subcommand reads from the server.
pub const RESPONSE_BYTES_MAX: u64 = 1024 * 1024;

/// How long a subcommand, or loading the database, waits before it reports its progress.
pub const SILENCE: Duration = Duration::from_secs(1);

/// How long a database may take to load before connections are accepted. After that they get `LOADING` or `503` until it is loaded.
pub const LOAD_UNNOTICED: Duration = Duration::from_millis(100);

/// How often the log shows how far loading the database is, after [`SILENCE`].
pub const LOAD_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes that a RESP connection reads at once.
pub const RESP_READ_BYTES: usize = 16 * 1024;

/// Most free read buffers, and parts of pipelines, that a loop keeps for its connections.
pub const RESP_BUFFERS_KEPT: usize = 64;

/// Bytes of requests that are read ahead while an earlier request of the connection is pending. Over it, no more is read.
pub const RESP_WAITING_INPUT_BYTES: usize = 1024 * 1024;

/// Capacity of the reply buffer that a connection keeps between requests.
pub const RESP_OUTPUT_KEPT_BYTES: usize = 16 * 1024;

/// Most bytes of replies that wait until other connections have run their requests. Longer ones are written at once.
pub const RESP_OUTPUT_SHORT_BYTES: usize = 256;

/// Bytes of unsent replies over which the next requests of the client do not run until it reads.
pub const RESP_OUTPUT_PAUSE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of unsent replies over which a client is closed, if CONFIG sets no limit. A transaction whose replies are larger is rolled
/// back with an error.
pub const RESP_OUTPUT_BYTES_MAX: usize = 1 << 30;

/// Bytes of unsent replies over which a client is closed at once.
pub(crate) fn hard_bytes(limit: OutputLimit) -> usize {
    match limit.hard_bytes {
        0 => RESP_OUTPUT_BYTES_MAX,
        bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
    }
}

/// Most requests of a client that several shards run at the same time. The next ones wait until these have their replies.
pub const RESP_PIPELINE_REQUESTS_MAX: usize = 1024;

/// Bytes of such requests that are sent to other shards, over which the next requests wait until these have their replies.
pub const RESP_PIPELINE_BYTES_MAX: usize = 1024 * 1024;

/// How long a shard runs requests of one client of another shard before it runs others. The rest of them is queued again.
pub const RESP_PART_TURN: Duration = Duration::from_millis(1);

/// How long a TLS handshake may take. After that the client is closed.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The bounds of the HTTP listener.
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

/// Bytes of the value of a winning document in a result of `POST /sync`. A larger one is left out (`omitted`), and the client reads it.
pub const SYNC_WINNER_BYTES_MAX: usize = 64 * 1024;

/// Changes on one page of `GET /sync`, and the most that a request may ask for. More get `400`.
pub const SYNC_PULL_LIMIT: usize = 500;
/// See [`SYNC_PULL_LIMIT`].
pub const SYNC_PULL_LIMIT_MAX: usize = 1_000;

/// A page of `GET /sync` ends with the change that reaches so many bytes.
pub const SYNC_PULL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A page of `GET /sync` ends after so many changes of any keys, also if few of them are for the client.
pub const SYNC_PULL_EFFECTS_MAX: usize = 20_000;

/// Bytes of the shortest secret that signs tokens of offline clients. A shorter one is an error at start.
pub const SYNC_SECRET_BYTES_MIN: usize = 32;

/// Bytes of the longest token of an offline client. A longer one is a wrong token.
pub const SYNC_TOKEN_BYTES_MAX: usize = 4 * 1024;

/// Most sinks. More are rejected at the start.
pub const SINKS_MAX: usize = 64;

/// Most bytes of a sink's name. Longer ones are rejected at the start.
pub const SINK_NAME_BYTES_MAX: usize = 48;

/// How long a change waits for others, unless the sink says otherwise.
pub const SINK_FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Changed keys of one batch, unless the sink says otherwise. More are in the next one.
pub const SINK_FLUSH_ROWS: usize = 1_000;

/// The most that a sink may say. More are rejected at the start.
pub const SINK_FLUSH_ROWS_MAX: usize = 50_000;

/// Bytes of values after which a batch takes no further key, unless the sink says otherwise.
pub const SINK_FLUSH_BYTES: usize = 4 << 20;

/// The most that a sink may say. More are rejected at the start.
pub const SINK_FLUSH_BYTES_MAX: usize = 64 << 20;

/// How long a stop waits for a target, unless the sink says otherwise. What is left follows after the next start.
pub const SINK_GRACE: Duration = Duration::from_secs(5);

/// How much longer than planned a change may wait for its target, unless the sink says otherwise. Then health is degraded.
pub const SINK_BEHIND_AFTER: Duration = Duration::from_secs(60);

/// Most changed keys that wait in memory for one sink, and bytes of their names. Beyond either, the journal is not read further until
/// some are written.
pub const SINK_PENDING_KEYS_MAX: usize = 200_000;
/// See [`SINK_PENDING_KEYS_MAX`].
pub const SINK_PENDING_BYTES_MAX: usize = 64 << 20;

/// Changed fields of one key that are remembered. With more, all fields count as changed.
pub const SINK_FIELDS_MAX: usize = 64;

/// Changes that are read from the journal before something else has its turn.
pub const SINK_POLL_CHANGES: usize = 10_000;

/// How often the journal is looked at for changes.
pub const SINK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Keys that are read from a shard in one turn, or as many as fit in [`SINK_SLICE_BYTES`].
pub const SINK_SLICE_KEYS: usize = 256;
/// See [`SINK_SLICE_KEYS`].
pub const SINK_SLICE_BYTES: usize = 1 << 20;

/// Most keys in quarantine of one sink. With more it stops, and the journal keeps its changes within the bound.
pub const SINK_QUARANTINE_KEYS_MAX: usize = 10_000;

/// Most bytes of events in quarantine of one event log. With more it stops, and the journal keeps its changes within the bound.
pub const SINK_QUARANTINE_BYTES_MAX: usize = 64 << 20;

/// Events or keys of one page of an event log, unless the request says otherwise.
pub const EVENTS_LIMIT: usize = 100;

/// The most that a request may say. More is rejected with `bad_request`.
pub const EVENTS_LIMIT_MAX: usize = 1_000;

/// Bytes of events or values after which a page of an event log ends.
pub const EVENTS_BYTES_MAX: usize = 4 << 20;

/// How often event logs are compacted, if their settings say so.
pub const SINK_COMPACT_EVERY: Duration = Duration::from_secs(60);

/// How often a rejected row is tried before it waits for a change or for `keystead sink retry`.
pub const SINK_ATTEMPTS_MAX: u32 = 5;

/// The pause before a rejected row is tried again. It doubles up to the longest.
pub const SINK_RETRY_AFTER: Duration = Duration::from_secs(1);
/// See [`SINK_RETRY_AFTER`].
pub const SINK_RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Rows in quarantine that are tried with one batch. Others follow with the next.
pub const SINK_RETRIED_ROWS: usize = 50;

/// The pause before a target that failed is tried again. It doubles up to the longest.
pub const SINK_RECONNECT_AFTER: Duration = Duration::from_millis(50);
/// See [`SINK_RECONNECT_AFTER`].
pub const SINK_RECONNECT_AFTER_MAX: Duration = Duration::from_secs(5);

/// How often the position is written though no key of the sink has changed, so that the journal need not be kept.
pub const SINK_POSITION_EVERY: Duration = Duration::from_secs(10);

/// The longest wait for a receipt. A longer one is rejected with `bad_request`.
pub const SINK_WAIT_MAX: Duration = Duration::from_secs(60);

/// Differences that `verify` lists. More are counted.
pub const SINK_DIFFERENCES_MAX: usize = 100;

/// Bytes of a value that `verify` shows. A longer one is cut.
pub const SINK_SHOWN_BYTES: usize = 200;
