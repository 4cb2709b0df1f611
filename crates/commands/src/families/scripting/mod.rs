//! Scripts: the table of this family.
//!
//! | To find                                             | open         |
//! |-----------------------------------------------------|--------------|
//! | EVAL and its kin, SCRIPT, FUNCTION, FCALL           | `eval`, `script`, `function`, `fcall` |
//! | `#!lua flags=...`                                   | `flags`      |
//! | libraries of functions, and their dump              | `libraries`, `dump` |
//! | one run: limits, KEYS and ARGV, what it answers     | `execute`    |
//! | what each thread keeps compiled                     | `compiled`   |
//! | a Lua machine with Redis's globals                  | `world`      |
//! | redis.call, and the rest of `redis`                 | `call`, `api` |
//! | values between Lua and Redis                        | `convert`    |
//! | cjson, cmsgpack, struct, bit                        | `lib`        |
//!
//! Lua itself is the crate `keystead-lua`.

mod api;
mod call;
mod compiled;
mod convert;
mod dump;
mod eval;
mod execute;
mod fcall;
mod flags;
mod function;
mod lib;
mod libraries;
mod script;
mod sha1;
mod table;
#[cfg(test)]
mod tests;
mod world;

pub(crate) use function::restore_kept;
pub(crate) use libraries::Libraries;
pub(crate) use sha1::Digits;
#[cfg(test)]
pub(crate) use sha1::hex as sha1_hex;
pub(crate) use table::TABLE;
