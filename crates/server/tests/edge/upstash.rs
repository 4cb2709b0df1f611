//! The Upstash-compatible REST API: the tests of the target `upstash`.

#[path = "../upstash/bad_input.rs"]
mod bad_input;
#[path = "../upstash/bounds.rs"]
mod bounds;
#[path = "../upstash/commands.rs"]
mod commands;
#[path = "../upstash/encodings.rs"]
mod encodings;
#[path = "../upstash/events.rs"]
mod events;
#[path = "../upstash/idempotency.rs"]
mod idempotency;
#[path = "../upstash/pipeline.rs"]
mod pipeline;
#[path = "../upstash/shards.rs"]
mod shards;
#[path = "../upstash/tokens.rs"]
mod tokens;
#[path = "../upstash/transaction.rs"]
mod transaction;
