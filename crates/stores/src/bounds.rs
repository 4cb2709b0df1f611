//! Every bound of the stores, named in one file. The comment of each constant names the error that is returned when it is exceeded.

/// Milliseconds within which a call returns, unless the URL says otherwise (`deadline=`). A call that takes longer is
/// `store_unavailable`: *not applied* if that is certain, else of unknown outcome.
pub const DEADLINE_MS: u64 = 5_000;

/// The shortest and the longest deadline, in milliseconds. Others are rejected with `config_invalid`. The longest is well below
/// [`RECLAIM_SLACK_MS`], within which a late write must not find its key reclaimed.
pub const DEADLINE_MS_RANGE: std::ops::RangeInclusive<u64> = 80..=60_000;

/// A call's deadline is divided into this many parts. One network call may take one of them.
pub const DEADLINE_PARTS: u64 = 8;

/// For so many parts of the deadline a step may wait for the batch before it. After that it is `store_unavailable`, *not applied*.
pub const WAIT_PARTS: u64 = 2;

/// For so many parts of the deadline a batch may begin another attempt; the others are left to settle an unknown outcome.
pub const ATTEMPT_PARTS: u64 = 2;

/// Most attempts of one batch that lose against writers of other processes. Then it is `store_unavailable`, *not applied*.
pub const ATTEMPTS_MAX: u32 = 64;

/// The longest pause before another attempt, in milliseconds. The pause is a random part of a bound that doubles up to this one.
pub const PAUSE_MS_MAX: u64 = 32;

/// Most steps that are combined into one write. Others wait for the next one.
pub const COMBINED_MAX: usize = 256;

/// Most steps that wait for one key, or for scripts of one kind to one server, in this process. More are `queue_full`.
pub const WAITING_MAX: usize = 16_384;

/// Most steps that are sent as one script. Others wait for the next one: a server runs nothing else meanwhile.
pub const SCRIPTS_COMBINED_MAX: usize = 64;

/// Scripts of one kind that are under way to one server at a time. Steps that come meanwhile wait, and share the next. About one key it is
/// one: two would only wait for each other.
pub const SCRIPTS_IN_FLIGHT: usize = 2;

/// Most calls on different keys that are sent in one round trip to a server that takes several. Others wait for the next.
pub const GATHERED_MAX: usize = 64;

/// Such round trips of one kind that are under way at a time. Calls that come meanwhile wait, and share the next.
pub const GATHERED_IN_FLIGHT: usize = 2;

/// So many steps of one key in one script make it a hot key, whose steps run in this process.
pub const HOT_STEPS: usize = 8;

/// Most hot keys. At the bound all are forgotten, and those that are still hot come again.
pub const HOT_KEYS_MAX: usize = 1_024;

/// Most scripts for jobs on several keys, one for each set of kinds of steps. Beyond it, the steps of a job are sent one by one.
pub const JOB_SCRIPTS_MAX: usize = 256;

/// Most states of busy keys that are cached, and their text in bytes. Beyond either, the older half is dropped.
pub const CACHED_KEYS_MAX: usize = 65_536;
/// See [`CACHED_KEYS_MAX`].
pub const CACHED_BYTES_MAX: usize = 16 * 1024 * 1024;

pub use keystead_core::bounds::{HEADER_BYTES_MAX, WRITERS_MAX};

/// How much longer than its state a record stays on the server before it is reclaimed, in milliseconds: the clock is injected and
/// may jump back, and a write that was given up may arrive late and must still find a newer version.
pub const RECLAIM_SLACK_MS: u64 = 300_000;

/// Most exclusive connections to one Redis server, for `atomic=watch`. More calls wait for one.
pub const REDIS_EXCLUSIVE_MAX: usize = 16;

/// What each line of a reply counts beside its bytes, where the size of replies is bounded: an element of an array has a line.
pub const REPLY_LINE_BYTES: usize = 32;

/// How often a connection for messages of an upstream is checked. If there is no reply within the deadline, the subscription ends.
pub const UPSTREAM_CHECK_EVERY: std::time::Duration = std::time::Duration::from_secs(15);

/// Most redirections (MOVED, ASK, TRYAGAIN) that one call follows in a Redis Cluster. After more, it is `store_unavailable`.
pub const REDIS_REDIRECTS_MAX: u32 = 16;

/// The latest time at which a step runs as a script: a script counts in doubles, in which the sum of a time up to this and a TTL is
/// exact. It is in the year 144,683. Later, the step runs by compare-and-set.
pub const SCRIPT_TIME_MAX: keystead_core::Millis = keystead_core::Millis(1 << 52);

/// Most idle HTTP connections to one server. Others are closed after their call.
pub const REST_IDLE_MAX: usize = 64;

/// Longest reply over HTTP in bytes: a state in base64. A longer one is `store_unavailable`, of unknown outcome.
pub const REST_REPLY_BYTES_MAX: usize = 2 * keystead_core::bounds::STATE_BYTES_MAX;

/// Most connections of one store to a PostgreSQL server (`connections=`). More are rejected with `config_invalid`.
pub const POSTGRES_CONNECTIONS_MAX: usize = 256;

/// How long one connection to a PostgreSQL server may take until its login is accepted. Then it is given up.
pub const POSTGRES_CONNECT_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Longest name of a table or schema in PostgreSQL, less what the name of the index adds. Longer ones are `config_invalid`.
pub const POSTGRES_NAME_BYTES_MAX: usize = 55;

/// Longest key in bytes on PostgreSQL: an entry of its index is at most a third of a page. Longer ones are `too_large`.
pub const POSTGRES_KEY_BYTES_MAX: usize = 2048;

/// How often a store on PostgreSQL deletes expired rows.
pub const POSTGRES_SWEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// Most rows that it deletes at once, so that others wait for no longer than a moment. The others follow the next time.
pub const POSTGRES_SWEEP_ROWS_MAX: usize = 10_000;

/// A record that a server may delete only after more than so many milliseconds (34 years) stays for ever. Leases of etcd have at most 9,000,000,000
/// seconds and are rounded up twice; a TTL of NATS is counted in nanoseconds.
pub const RECLAIM_MS_MAX: u64 = (1 << 30) * 1000;

/// Longest name of a NATS bucket in bytes. A longer one is `config_invalid`.
pub const NATS_BUCKET_BYTES_MAX: usize = 64;

/// Longest key in bytes on NATS: a byte becomes up to three of a subject, and the line of a request has 4096. Longer ones are `too_large`.
pub const NATS_KEY_BYTES_MAX: usize = 1024;

/// Longest message on NATS in bytes, unless the server is configured otherwise, less what the headers take. A state that does not fit is `too_large`.
pub const NATS_MESSAGE_BYTES_MAX: usize = 1024 * 1024 - 1024;

/// Most writes that share one lease on etcd: the keys of a lease are deleted in one transaction.
pub const ETCD_LEASE_WRITES_MAX: usize = 1_000;

/// Most bytes of swaps that are sent to etcd in one request, which has at most 1.5 MiB. A larger one is sent by itself.
pub const ETCD_GATHERED_BYTES_MAX: usize = 512 * 1024;

/// The lengths of a DynamoDB table's name, in bytes. Others are `config_invalid`.
pub const DYNAMODB_TABLE_BYTES: std::ops::RangeInclusive<usize> = 3..=255;

/// Longest key in bytes on DynamoDB, after `%` and bytes that are not UTF-8 were written `%XX`. Longer ones are `too_large`.
pub const DYNAMODB_KEY_BYTES_MAX: usize = 2048;

/// Largest item on DynamoDB in bytes, with its key and the names of its attributes. A state that does not fit is `too_large`.
pub const DYNAMODB_ITEM_BYTES_MAX: usize = 400 * 1024;

/// Most bytes that the names of an item's attributes, its version and its time of deletion count.
pub const DYNAMODB_ATTRIBUTES_BYTES_MAX: usize = 128;

/// How far this machine's clock may differ from DynamoDB's, in milliseconds: a request whose time differs by more is rejected
/// (`store_unavailable`). Items are deleted so much later.
pub const DYNAMODB_CLOCK_SKEW_MS_MAX: u64 = 900_000;

/// How often a table that is being created is looked at.
pub const DYNAMODB_POLL_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// How long the creation of a table may take. After that its items are not deleted by the server.
pub const DYNAMODB_CREATED_WITHIN: std::time::Duration = std::time::Duration::from_secs(120);

/// Longest key in bytes on Deno KV, with the two bytes of its encoding, and two for each zero byte. Longer ones are `too_large`.
pub const DENOKV_KEY_BYTES_MAX: usize = 2048;

/// Longest value in bytes on Deno KV. A state that does not fit is `too_large`.
pub const DENOKV_VALUE_BYTES_MAX: usize = 64 * 1024;

/// The length of a versionstamp of Deno KV, in bytes.
pub const DENOKV_VERSIONSTAMP_BYTES: usize = 10;

/// How long before they expire the address of a database and its token are asked for again, unless they are valid for less than ten times this.
pub const DENOKV_RENEW_BEFORE: std::time::Duration = std::time::Duration::from_secs(60);

/// Most characters of what a Deno KV server replied that an error repeats.
pub const DENOKV_REPLY_CHARS_MAX: usize = 200;

/// Most rows of a `sqlite-file:` store that a write deletes because they may be reclaimed. The others follow with the next.
pub const SQLITE_FILE_SWEEP_ROWS_MAX: usize = 64;

/// Longest key in bytes on a Durable Object or D1, after `%` and bytes that are not UTF-8 were written `%XX`. Longer ones are `too_large`.
pub const CLOUDFLARE_KEY_BYTES_MAX: usize = 2048;

/// Longest key in bytes on Workers KV, after one that is not UTF-8 or has a `%` was written in base64: a name there has 512 bytes, and before the key stand the name of the store and a
/// colon. Longer ones are `too_large`.
pub const WORKERS_KV_KEY_BYTES_MAX: usize = 512 - CLOUDFLARE_NAME_BYTES_MAX - 1;

/// Longest name of a store on Cloudflare, in bytes. A longer one is `config_invalid`.
pub const CLOUDFLARE_NAME_BYTES_MAX: usize = 32;

/// Largest state on Cloudflare in bytes: as a text in JSON it may be twice as long, which must fit in a response. Larger ones are `too_large`.
pub const CLOUDFLARE_STATE_BYTES_MAX: usize = 960 * 1024;

/// Most bytes of keys and records that are sent to the worker in one request. A larger one is sent by itself.
pub const CLOUDFLARE_GATHERED_BYTES_MAX: usize = 1024 * 1024;

/// Most characters of what a worker replied that an error repeats.
pub const CLOUDFLARE_REPLY_CHARS_MAX: usize = 200;
