//! Bounds of requests and responses, whoever serves them.

/// Most commands of one REST request (`/pipeline`, `/multi-exec`). More get `400`.
pub const REST_COMMANDS_MAX: usize = 10_000;

/// Longest `Idempotency-Key`, in bytes. A longer one gets `400`.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Most documents on one page of `GET /kv`. A higher `limit` gets `400`; without one the list is streamed.
pub const LIST_LIMIT_MAX: usize = 10_000;

/// Most operations of one `/kv:batch`. More get `413`.
pub const BATCH_OPERATIONS_MAX: usize = 100;

/// Most statements of one request to a storage service, with those of expectations. More get `400`.
pub const STATEMENTS_MAX: usize = 200_000;

/// Most parameters of one of them. More get `400`.
pub const STATEMENT_PARAMS_MAX: usize = 1_000;
