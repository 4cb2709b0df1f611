//! docs/configuration.md says what the tables of settings and of bounds say. Touches that file.

use std::path::Path;
use std::time::Duration;

use keystead_commands::bounds::{
    ARGUMENTS_MAX, COMMAND_STEPS_MAX, IDEMPOTENCY_RESPONSE_BYTES_MAX, IDEMPOTENCY_RESPONSE_MS,
    JSON_BYTES_MAX, JSON_COPIED_BYTES_MAX, JSON_DEPTH_MAX, PATCH_COPIED_BYTES_MAX, PATCH_OPERATIONS_MAX,
    REPEATED_BYTES_MAX, REPLIES_WAITING_BYTES_MAX, REPLY_BYTES_MAX, STRING_BYTES_MAX,
    SYNC_DOCUMENT_BYTES_MAX, SYNC_ITEMS_MAX, SYNC_VALUE_BYTES_MAX, UNAUTHENTICATED_ARGUMENTS_MAX,
    UNAUTHENTICATED_BULK_BYTES_MAX,
};
use keystead_engine::bounds::JOB_BYTES_MAX;
use keystead_limit::bounds::{CHECK_MANY_MAX, COMBINED_MAX};

use super::table::{SETTINGS, Setting};
use crate::bounds::*;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    std::fs::read_to_string(path).unwrap()
}

/// The rows of the table under a heading, without its head.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The default as the page writes it: the value, or what the help says about a default that is no value.
fn default_of(setting: &Setting) -> String {
    let (_, said) = setting.help.split_once("[default: ").unwrap_or_default();
    match (setting.default, said.trim_end_matches(']')) {
        (Some(default), _) => default.to_owned(),
        (None, "") => "not set".to_owned(),
        (None, said) => said.to_owned(),
    }
}

#[test]
fn the_page_lists_every_setting_with_its_flag_variable_and_default() {
    let listed: Vec<[String; 4]> = rows(&page(), "Settings")
        .into_iter()
        .map(|row| std::array::from_fn(|column| row[column].replace('`', "")))
        .collect();
    let expected: Vec<[String; 4]> = SETTINGS
        .iter()
        .map(|setting| [setting.name.to_owned(), setting.flag(), setting.variable(), default_of(setting)])
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn the_example_of_keystead_config_lists_every_setting() {
    let page = page();
    let (_, example) = page.split_once(" keystead config --http 127.0.0.1:0\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let lines: Vec<Vec<&str>> = example
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect())
        .collect();
    let names: Vec<&str> = lines.iter().map(|columns| columns[0]).collect();
    assert_eq!(names, SETTINGS.iter().map(|setting| setting.name).collect::<Vec<_>>());
    for (columns, setting) in lines.iter().zip(SETTINGS).filter(|(columns, _)| columns[2] == "default") {
        assert_eq!(columns[1], setting.default.unwrap_or("(not set)"), "{}", setting.name);
    }
}

/// `10,000`
fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().ok().unwrap().to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// `64 KiB`, in the largest unit that leaves a whole number.
fn bytes(number: impl TryInto<u64>) -> String {
    let number = number.try_into().ok().unwrap();
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| number.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", count(number / unit)),
        None => format!("{} bytes", count(number)),
    }
}

/// `75 s`, in the largest unit that leaves a whole number above 1.
fn time(time: Duration) -> String {
    let ms = time.as_millis();
    let units = [(3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let (unit, name) = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit) && ms / unit > 1).unwrap();
    format!("{} {name}", ms / unit)
}

fn ms(ms: u64) -> String {
    time(Duration::from_millis(ms))
}

/// The rows of the table of bounds, with the values that the second column must name in this order.
fn expected_bounds() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("open connections of each listener", vec![count(CONNECTIONS_MAX)]),
        ("request line and headers", vec![bytes(HEADER_BYTES_MAX)]),
        ("time to send them, idle time included", vec![time(HEADER_TIMEOUT)]),
        ("request body", vec![bytes(BODY_BYTES_MAX)]),
        ("the bodies of all requests together", vec![bytes(BODIES_BYTES_MAX)]),
        ("time to send the body", vec![time(BODY_TIMEOUT)]),
        ("commands of one REST request", vec![count(REST_COMMANDS_MAX)]),
        ("the response to one REST command, or to one `/pipeline`", vec![bytes(REST_RESPONSE_BYTES_MAX)]),
        (
            "the response to one `/multi-exec`; the reply to one `EXEC`",
            vec![bytes(REST_RESPONSE_BYTES_MAX), bytes(REPLY_BYTES_MAX)],
        ),
        ("the reply to one Redis command", vec![bytes(REPLY_BYTES_MAX)]),
        ("replies that wait for all clients together", vec![bytes(REPLIES_WAITING_BYTES_MAX)]),
        (
            "steps of matching a pattern, or of following paths, in one command",
            vec![format!("{} million", COMMAND_STEPS_MAX / 1_000_000)],
        ),
        (
            "values that `SUNION`, `ZINTER`, `PFCOUNT`, `BITOP`, `JSON.MGET` and similar commands read again because a key is named again",
            vec![bytes(REPEATED_BYTES_MAX)],
        ),
        ("channels of one REST subscription", vec![count(REST_CHANNELS_MAX)]),
        ("REST requests in flight to an upstream", vec![count(UPSTREAM_CALLS_MAX)]),
        ("connections for requests to one node of an upstream", vec![count(UPSTREAM_CONNECTIONS_MAX)]),
        (
            "REST subscriptions in front of an upstream; messages that wait for one",
            vec![count(UPSTREAM_SUBSCRIPTIONS_MAX), bytes(UPSTREAM_MESSAGES_BYTES_MAX)],
        ),
        (
            "statements of one request to a storage service; parameters of one; the body",
            vec![count(STATEMENTS_MAX), count(STATEMENT_PARAMS_MAX), bytes(STORAGE_BODY_BYTES_MAX)],
        ),
        (
            "rows of the results of one item of a storage service; their bytes; one value",
            vec![
                count(STORAGE_ROWS_MAX),
                bytes(STORAGE_RESULT_BYTES_MAX),
                bytes(u64::from(STORAGE_VALUE_BYTES_MAX.unsigned_abs())),
            ],
        ),
        ("time of one item of a storage service", vec![time(STORAGE_ITEM_TIMEOUT)]),
        ("requests that wait for a storage service", vec![count(STORAGE_QUEUE_MAX)]),
        ("requests that wait for the keys of a server with `storage`", vec![count(COMPUTE_QUEUE_MAX)]),
        ("what one batch of a server with `storage` changes", vec![bytes(COMPUTE_CHANGE_BYTES_MAX)]),
        (
            "attempts of a server with `storage` that lose against others; their time",
            vec![count(COMPUTE_ATTEMPTS_MAX), time(COMPUTE_DEADLINE)],
        ),
        ("fetches of one batch of a server with `storage`", vec![count(COMPUTE_FETCHES_MAX)]),
        (
            "time of one call of a storage service; to find out what became of a write",
            vec![time(COMPUTE_CALL_TIMEOUT), time(COMPUTE_SETTLE_TIMEOUT)],
        ),
        ("nodes of a router", vec![count(ROUTER_NODES_MAX)]),
        (
            "requests of a router in flight to one node; time to wait for one to end",
            vec![count(ROUTER_CALLS_MAX), time(ROUTER_QUEUE_TIMEOUT)],
        ),
        ("streams and long polls of a router in flight to one node", vec![count(ROUTER_STREAMS_MAX)]),
        (
            "time of a router to connect to a node; to wait for its response; silence within a response",
            vec![time(ROUTER_CONNECT_TIMEOUT), time(ROUTER_RESPONSE_TIMEOUT), time(ROUTER_SILENCE_TIMEOUT)],
        ),
        (
            "how often, and for how long, a router sends a request again that a node did not apply because a slot moves; the pause before that",
            vec![
                format!("{} times", count(ROUTER_REDIRECTS_MAX as usize)),
                time(ROUTER_REDIRECT_TIMEOUT),
                time(ROUTER_REDIRECT_PAUSE),
            ],
        ),
        (
            "the body of an HTTP request that a router keeps to send it again",
            vec![bytes(ROUTER_REPLAY_BYTES_MAX)],
        ),
        (
            "messages or changes of all nodes that wait in a router for one HTTP client",
            vec![bytes(ROUTER_EVENTS_BYTES_MAX)],
        ),
        ("the least time between two reads of the slot table by a router", vec![time(ROUTER_REFRESH_PAUSE)]),
        (
            "requests on one connection of a router that Redis clients share; their bytes",
            vec![count(ROUTER_LINK_REQUESTS_MAX), bytes(ROUTER_LINK_BYTES_MAX)],
        ),
        (
            "requests of one Redis client of a router in flight; its replies that it has not read",
            vec![count(ROUTER_CLIENT_REQUESTS_MAX), bytes(ROUTER_CLIENT_REPLY_BYTES)],
        ),
        ("a request of a Redis client of a router", vec![bytes(ROUTER_REQUEST_BYTES_MAX)]),
        (
            "bytes of Redis requests over 1 MiB that arrive at a router, over all clients",
            vec![bytes(REPLIES_WAITING_BYTES_MAX)],
        ),
        (
            "connections of a router to one node that belong to one client: requests that wait, that are over 64 KiB, `WATCH`",
            vec![count(ROUTER_OWN_MAX)],
        ),
        (
            "slots of one `DEL`, `UNLINK`, `EXISTS`, `TOUCH` or `MGET` through a router",
            vec![count(ROUTER_SPLIT_SLOTS_MAX)],
        ),
        ("time of a router until its nodes have a subscription", vec![time(ROUTER_SUBSCRIBE_TIMEOUT)]),
        (
            "what a router reads of one node for a response that it puts together; a line of `GET /kv`",
            vec![bytes(ROUTER_PART_BYTES_MAX), bytes(ROUTER_LINE_BYTES_MAX)],
        ),
        (
            "time between two reads of the slot table of a cluster; for one read; for a node to answer `keystead cluster status`",
            vec![time(CLUSTER_POLL_INTERVAL), time(CLUSTER_STORE_TIMEOUT), time(CLUSTER_PROBE_TIMEOUT)],
        ),
        ("wait of a request for a slot that is handed over to another node", vec![time(PARKED_TIMEOUT)]),
        ("requests of a node that wait for slots that are handed over", vec![count(PARKED_MAX)]),
        (
            "time for a source to seal slots; for the whole hand over; for a node to answer another about a move",
            vec![time(SEAL_TIMEOUT), time(HAND_OVER_TIMEOUT), time(MIGRATION_CALL_TIMEOUT)],
        ),
        (
            "time that `keystead cluster` waits while nothing moves; for a node that was added",
            vec![time(REBALANCE_STALL_TIMEOUT), time(CLUSTER_ADD_TIMEOUT)],
        ),
        (
            "a message from a source to a target: a batch of keys; with a key that is larger than a batch",
            vec![bytes(MIGRATION_BATCH_BYTES), bytes(MIGRATION_MESSAGE_BYTES_MAX)],
        ),
        ("sinks; the name of one", vec![count(SINKS_MAX), bytes(SINK_NAME_BYTES_MAX)]),
        (
            "changed keys, and bytes of values, of one batch of a sink",
            vec![count(SINK_FLUSH_ROWS_MAX), bytes(SINK_FLUSH_BYTES_MAX)],
        ),
        (
            "changed keys, or events, that wait in memory for one sink; bytes of their names, or of events",
            vec![count(SINK_PENDING_KEYS_MAX), bytes(SINK_PENDING_BYTES_MAX)],
        ),
        (
            "keys in quarantine of one sink; bytes of events there",
            vec![count(SINK_QUARANTINE_KEYS_MAX), bytes(SINK_QUARANTINE_BYTES_MAX)],
        ),
        ("events or keys on a page of `GET /events`", vec![count(EVENTS_LIMIT_MAX), bytes(EVENTS_BYTES_MAX)]),
        ("attempts to write a row that the target rejects", vec![count(SINK_ATTEMPTS_MAX as usize)]),
        ("wait for a receipt of a sink", vec![time(SINK_WAIT_MAX)]),
        ("operations of one `/kv:batch`", vec![count(BATCH_OPERATIONS_MAX)]),
        ("the response to a `/kv:batch`", vec![bytes(REST_RESPONSE_BYTES_MAX)]),
        ("documents on a page of `GET /kv`", vec![count(LIST_LIMIT_MAX), bytes(LIST_BYTES_MAX)]),
        (
            "items of one `POST /sync`; the value of one; the document",
            vec![count(SYNC_ITEMS_MAX), bytes(SYNC_VALUE_BYTES_MAX), bytes(SYNC_DOCUMENT_BYTES_MAX)],
        ),
        ("changes on a page of `GET /sync`", vec![count(SYNC_PULL_LIMIT_MAX), bytes(SYNC_PULL_BYTES_MAX)]),
        ("wait for the next change of a document", vec![ms(WAIT_MS_MAX)]),
        (
            "operations of a JSON patch; what they copy",
            vec![count(PATCH_OPERATIONS_MAX), bytes(PATCH_COPIED_BYTES_MAX)],
        ),
        (
            "a value that a JSON command writes at several locations, in all",
            vec![bytes(JSON_COPIED_BYTES_MAX)],
        ),
        ("a document", vec![bytes(JSON_BYTES_MAX), format!("{JSON_DEPTH_MAX} levels")]),
        ("an `Idempotency-Key`", vec![bytes(IDEMPOTENCY_KEY_BYTES_MAX), ms(IDEMPOTENCY_RESPONSE_MS)]),
        ("a response that is stored for an `Idempotency-Key`", vec![bytes(IDEMPOTENCY_RESPONSE_BYTES_MAX)]),
        ("policies; the name of one", vec![count(POLICIES_MAX), bytes(POLICY_NAME_BYTES_MAX)]),
        (
            "keys of one `/limit/{policy}/check`; checks of one `/limit`",
            vec![count(CHECK_MANY_MAX), count(COMBINED_MAX)],
        ),
        ("commands or operations with a decision", vec![count(THEN_MAX)]),
        ("time until a reservation must be settled", vec![ms(RESERVATION_MS_MAX), ms(RESERVATION_MS)]),
        ("a settings file", vec![bytes(SETTINGS_BYTES_MAX)]),
        (
            "a token; a token file",
            vec![format!("{} bytes", count(TOKEN_BYTES_MAX)), bytes(TOKEN_FILE_BYTES_MAX)],
        ),
        ("names in `allowed-hosts`", vec![count(ALLOWED_HOSTS_MAX)]),
        ("what one request, script or transaction changes", vec![bytes(JOB_BYTES_MAX)]),
        ("an argument of a Redis command", vec![bytes(STRING_BYTES_MAX)]),
        ("arguments of a Redis command", vec![count(ARGUMENTS_MAX)]),
        // The default of `client-query-buffer-limit`.
        ("a Redis command in all", vec!["1 GiB".to_owned()]),
        (
            "before `AUTH`, where a token is set: arguments",
            vec![count(UNAUTHENTICATED_ARGUMENTS_MAX), bytes(UNAUTHENTICATED_BULK_BYTES_MAX)],
        ),
        ("before `AUTH`: a command in all", vec![bytes(UNAUTHENTICATED_INPUT_BYTES_MAX)]),
        ("before `AUTH`: replies that are not read", vec![bytes(UNAUTHENTICATED_OUTPUT_BYTES_MAX)]),
        ("time to authenticate, over RESP", vec![time(AUTH_TIMEOUT)]),
        ("wrong tokens of one connection", vec![count(AUTH_FAILURES_MAX), time(AUTH_FAILURE_DELAY)]),
        (
            "replies that wait for a Redis client while its next request runs",
            vec![bytes(RESP_OUTPUT_PAUSE_BYTES)],
        ),
        ("replies that wait for a Redis client", vec![bytes(RESP_OUTPUT_BYTES_MAX)]),
        ("idle time of a Redis client", vec!["none".to_owned()]),
        ("time of a TLS handshake", vec![time(TLS_HANDSHAKE_TIMEOUT)]),
    ]
}

#[test]
fn the_page_lists_the_bounds_with_their_values() {
    let (rows, expected) = (rows(&page(), "Bounds"), expected_bounds());
    let listed: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(listed, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (row, (name, values)) in rows.iter().zip(expected) {
        let mut left = row[1].as_str();
        for value in values {
            let found = left.split_once(&value);
            let (before, after) = found.unwrap_or_else(|| panic!("{name}: {value} is not in '{}'", row[1]));
            let is_inside = before.ends_with(|c: char| c.is_ascii_digit() || c == ',');
            assert!(!is_inside, "{name}: {value} is part of another number in '{}'", row[1]);
            left = after;
        }
    }
}

/// Bounds that no client or operator meets: sizes of buffers, intervals, and times within the server.
const NOT_ON_THE_PAGE: &[&str] = &[
    "FILES_RESERVED",
    "FILES_PER_SHARD",
    "REJECTIONS_MAX",
    "REJECTION_TIMEOUT",
    "REST_TURN",
    "UPSTREAM_PROBE_EVERY",
    "MIGRATION_POLL_INTERVAL",
    "MIGRATION_IDLE",
    "PARKED_RETRY_INTERVAL",
    "OPERATOR_INTERVAL",
    "MIGRATION_CLOCK_SKEW",
    "MIGRATION_SCAN_IDS",
    "MIGRATION_SLICE_KEYS",
    "MIGRATION_SLICE_BYTES",
    "MIGRATION_BATCH_KEYS",
    "MIGRATION_TAIL_WAIT",
    "ROUTER_IDLE_MAX",
    "ROUTER_PROBE_EVERY",
    "ROUTER_LIST_PARTS_MAX",
    "UPSTREAM_SCRIPTS_MAX",
    "LIST_SLICE",
    "RELOAD_LOOK",
    "RELOAD_AGAIN_LOOKS",
    "STORE_RELEASE_LOOK",
    "STORE_RELEASE_LOOKS",
    "MEMORY_KEYS_MAX",
    "BODY_SMALL_BYTES",
    "DENIED_KEYS",
    "DENIED_KEY_BYTES",
    "DENIED_KEYS_LISTED",
    "REPLAY_LINE_BYTES_MAX",
    "BENCH_SECONDS_MAX",
    "VERIFY_CASE_TIMEOUT",
    "HEARTBEAT",
    "TAKE_BACK_AFTER",
    "BUSY_AFTER",
    "BUSY_CHECK_INTERVAL",
    "HEALTH_PEEK_BYTES",
    "PAUSE_CHECK_INTERVAL",
    "DRAIN_TIMEOUT",
    "DRAIN_CHECK_INTERVAL",
    "KILL_INTERVAL",
    "CLOSE_TIMEOUT",
    "ACCEPT_PAUSE",
    "NOTICE_EVERY",
    "TOKEN_BYTES_ADVISED",
    "HOST_SHOWN_BYTES",
    "MEMORY_BYTES_MIN",
    "CONNECT_TIMEOUT",
    "PROBE_TIMEOUT",
    "RESPONSE_BYTES_MAX",
    "SILENCE",
    "LOAD_UNNOTICED",
    "LOAD_REPORT_INTERVAL",
    "RESP_READ_BYTES",
    "RESP_BUFFERS_KEPT",
    "RESP_WAITING_INPUT_BYTES",
    "RESP_OUTPUT_KEPT_BYTES",
    "RESP_OUTPUT_SHORT_BYTES",
    "RESP_PIPELINE_REQUESTS_MAX",
    "RESP_PIPELINE_BYTES_MAX",
    "RESP_PART_TURN",
    "SYNC_WINNER_BYTES_MAX",
    "SYNC_PULL_LIMIT",
    "SYNC_PULL_EFFECTS_MAX",
    "SYNC_SECRET_BYTES_MIN",
    "SYNC_TOKEN_BYTES_MAX",
    "SIZES_TIMEOUT",
    "MIGRATION_DISK_FACTOR",
    "FROZEN_TIMEOUT",
    "MIGRATION_CHANGED_MAX",
    "MIGRATION_RATE_BURST",
    "ROUTER_ERROR_BYTES_MAX",
    "ROUTER_OWN_KEPT_MAX",
    "ROUTER_SHORT_BYTES_MAX",
    "ROUTER_LONG_REPLY_BYTES",
    "ROUTER_STREAM_BYTES",
    "ROUTER_REPLY_BYTES_MAX",
    "ROUTER_READ_BYTES",
    "ROUTER_BUFFER_KEPT_BYTES",
    "ROUTER_TICK",
    "ROUTER_RECONNECT_PAUSE",
    "ROUTER_RECONNECT_PAUSE_MAX",
    "ROUTER_SUBSCRIBE_NAMES",
    "EVENTS_LIMIT",
    "SINK_COMPACT_EVERY",
    "SINK_FLUSH_EVERY",
    "SINK_FLUSH_ROWS",
    "SINK_FLUSH_BYTES",
    "SINK_GRACE",
    "SINK_FIELDS_MAX",
    "SINK_POLL_CHANGES",
    "SINK_POLL_INTERVAL",
    "SINK_SLICE_KEYS",
    "SINK_SLICE_BYTES",
    "SINK_RETRY_AFTER",
    "SINK_RETRY_AFTER_MAX",
    "SINK_RETRIED_ROWS",
    "SINK_RECONNECT_AFTER",
    "SINK_RECONNECT_AFTER_MAX",
    "SINK_POSITION_EVERY",
    "SINK_BEHIND_AFTER",
    "SINK_DIFFERENCES_MAX",
    "SINK_SHOWN_BYTES",
    "STORAGE_PROGRESS_OPS",
    "STORAGE_RECLAIM_EVERY",
    "STORAGE_RECLAIM_SLICE",
    "STORAGE_FORGET_AFTER_MS",
    "COMPUTE_BATCH_MAX",
    "COMPUTE_HELD_BYTES",
    "COMPUTE_MESSAGES_BYTES_MAX",
    "COMPUTE_CONFLICT_ROWS_MAX",
    "COMPUTE_IDS_RESERVED",
    "COMPUTE_PAUSE",
];

#[test]
fn every_bound_is_on_the_page_or_known_to_be_internal() {
    let this = include_str!("page.rs");
    let name_of = |line: &'static str| line.strip_prefix("pub const ")?.split_once(':').map(|(name, _)| name);
    let files = [
        include_str!("../bounds.rs"),
        include_str!("../bounds/router.rs"),
        include_str!("../bounds/split.rs"),
    ];
    let bounds: Vec<&str> = files.into_iter().flat_map(str::lines).filter_map(name_of).collect();
    for internal in NOT_ON_THE_PAGE {
        assert!(bounds.contains(internal), "there is no bound {internal}");
    }
    for bound in bounds {
        let words = || this.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        assert!(
            words().any(|word| word == bound),
            "{bound} needs a row in docs/configuration.md, and one here"
        );
    }
}
