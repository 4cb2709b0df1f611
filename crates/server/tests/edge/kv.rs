//! The documents API: the tests of the target `kv`.

#[path = "../kv/apis.rs"]
mod apis;
#[path = "../kv/bad_input.rs"]
mod bad_input;
#[path = "../kv/batches.rs"]
mod batches;
#[path = "../kv/conditions.rs"]
mod conditions;
#[path = "../kv/documents.rs"]
mod documents;
#[path = "../kv/idempotency.rs"]
mod idempotency;
#[path = "../kv/lists.rs"]
mod lists;
