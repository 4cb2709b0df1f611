//! The bounds of a router, with the error beyond each of them.

use std::time::Duration;

use super::REST_RESPONSE_BYTES_MAX;

/// Most nodes of a router. With more, it does not start.
pub const ROUTER_NODES_MAX: usize = 100;

/// Most requests of a router in flight to one node. More wait for [`ROUTER_QUEUE_TIMEOUT`].
pub const ROUTER_CALLS_MAX: usize = 256;

/// Most streams and long polls of a router in flight to one node. One more gets `503`.
pub const ROUTER_STREAMS_MAX: usize = 1_000;

/// Idle connections that a router keeps to one node. Over it, a connection is closed after its request.
pub const ROUTER_IDLE_MAX: usize = 64;

/// How long a request waits when [`ROUTER_CALLS_MAX`] are in flight to its node. After that it gets `503`.
pub const ROUTER_QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection to a node may take. After that the request gets `503`, and was not applied.
pub const ROUTER_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a node may take to respond, besides the time that a long poll waits. After that the request gets `504`. Longer than the
/// node waits for a body.
pub const ROUTER_RESPONSE_TIMEOUT: Duration = Duration::from_secs(40);

/// How long a node may be silent within a response. After that the response is aborted. Longer than the time between heartbeats.
pub const ROUTER_SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The least time between two times that a router reads the slot table.
pub const ROUTER_REFRESH_PAUSE: Duration = Duration::from_millis(20);

/// How often a router sends a request again that a node did not apply because of a slot that moves. After that the client gets an error.
pub const ROUTER_REDIRECTS_MAX: u32 = 1_000;

/// The same, in time. Longer than a node lets a request wait for a slot that is handed over.
pub const ROUTER_REDIRECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a router waits before it sends such a request again, unless another node was named.
pub const ROUTER_REDIRECT_PAUSE: Duration = Duration::from_millis(20);

/// Bytes of a body that a router in front of a cluster holds, so that it can send the request again. A larger one is sent back by
/// the node if the slot moves meanwhile.
pub const ROUTER_REPLAY_BYTES_MAX: usize = 1024 * 1024;

/// Most bytes of a response of a node that are looked at to find out whether the slot moves. Errors are far shorter.
pub const ROUTER_ERROR_BYTES_MAX: usize = 64 * 1024;

/// Most connections of a router to one node that belong to one client: for requests that wait, large ones, and WATCH. One more is an error.
pub const ROUTER_OWN_MAX: usize = 4_096;

/// Such connections that each thread keeps when they are not used.
pub const ROUTER_OWN_KEPT_MAX: usize = 16;

/// Requests on one connection that clients share. With more, clients wait.
pub const ROUTER_LINK_REQUESTS_MAX: usize = 16_384;

/// Their bytes. With more, clients wait.
pub const ROUTER_LINK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A larger request gets a connection of its own, so that others do not wait behind it.
pub const ROUTER_SHORT_BYTES_MAX: usize = 64 * 1024;

/// A client with larger replies shares a connection with others of that kind.
pub const ROUTER_LONG_REPLY_BYTES: usize = 64 * 1024;

/// A reply that is not complete is passed on from so many bytes.
pub const ROUTER_STREAM_BYTES: usize = 64 * 1024;

/// Largest string or array of a node's reply that counts as a reply. With a larger one the connection is closed.
pub const ROUTER_REPLY_BYTES_MAX: usize = 1 << 30;

/// Most requests of one client that wait for their replies. With more, no more of it is read.
pub const ROUTER_CLIENT_REQUESTS_MAX: usize = 1_024;

/// Bytes of replies that one client has not read, or is expected to get: with more, no more of it is run.
pub const ROUTER_CLIENT_REPLY_BYTES: usize = 4 * 1024 * 1024;

/// Largest request of a Redis client, in bytes. With a larger one it is closed.
pub const ROUTER_REQUEST_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Most slots of one command whose keys are split (`DEL`, `MGET`). More are an error.
pub const ROUTER_SPLIT_SLOTS_MAX: usize = 4_096;

/// Bytes that a router reads at once from a node.
pub const ROUTER_READ_BYTES: usize = 64 * 1024;

/// Capacity of a buffer that a connection keeps between requests.
pub const ROUTER_BUFFER_KEPT_BYTES: usize = 256 * 1024;

/// How often the deadlines of requests are checked. Times are counted in it.
pub const ROUTER_TICK: Duration = Duration::from_secs(1);

/// How long a router waits before it connects again to a node that it could not reach. Meanwhile requests for it are errors.
pub const ROUTER_RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// The longest such pause, for a stream of a client that has lost one of its nodes.
pub const ROUTER_RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Bytes of messages or changes of all nodes that wait for one HTTP client. With more changes, the nodes wait; with more messages, the stream
/// ends.
pub const ROUTER_EVENTS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a subscription waits until all nodes that can be reached have it.
pub const ROUTER_SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Most names in one SUBSCRIBE to a node.
pub const ROUTER_SUBSCRIBE_NAMES: usize = 1_000;

/// How often a router checks whether its nodes reply, and how long they may take.
pub const ROUTER_PROBE_EVERY: Duration = Duration::from_secs(5);

/// Longest line of a node's list, in bytes: a document and its key. With a longer one, the node counts as failed.
pub const ROUTER_LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Parts of the nodes' lists that wait for the client. With more, the nodes wait.
pub const ROUTER_LIST_PARTS_MAX: usize = 16;

/// Most bytes of one node's part of a response that is put together from several.
pub const ROUTER_PART_BYTES_MAX: usize = REST_RESPONSE_BYTES_MAX + 1024 * 1024;
