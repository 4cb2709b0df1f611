//! Bounds of requests and responses, whoever serves them.

/// Most commands of one REST request (`/pipeline`, `/multi-exec`). More get `400`.
pub const REST_COMMANDS_MAX: usize = 10_000;

/// Longest `Idempotency-Key`, in bytes. A longer one gets `400`.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Most documents on one page of `GET /kv`. A higher `limit` gets `400`; without one the list is streamed.
pub const LIST_LIMIT_MAX: usize = 10_000;

/// Most operations of one `/kv:batch`. More get `413`.
pub const BATCH_OPERATIONS_MAX: usize = 100;

/// Most commands, or operations, that run with a decision. More get `413`.
pub const THEN_MAX: usize = BATCH_OPERATIONS_MAX;

/// Longest time for which a reservation is held, and the default. A longer one gets `400`.
pub const RESERVATION_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// See [`RESERVATION_MS_MAX`].
pub const RESERVATION_MS: u64 = 10 * 60 * 1000;

/// Most statements of one request to a storage service, with those of expectations. More get `400`.
pub const STATEMENTS_MAX: usize = 200_000;

/// Most parameters of one of them. More get `400`.
pub const STATEMENT_PARAMS_MAX: usize = 1_000;
