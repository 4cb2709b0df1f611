//! The limits API: the tests of the target `limit`.

#[path = "../limit/after.rs"]
mod after;
#[path = "../limit/bad_input.rs"]
mod bad_input;
#[path = "../limit/checks.rs"]
mod checks;
#[path = "../limit/combined.rs"]
mod combined;
#[path = "../limit/idempotency.rs"]
mod idempotency;
#[path = "../limit/many.rs"]
mod many;
