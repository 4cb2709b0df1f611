//! Scripts: the table of this family.
//!
//! | To find                                             | open         |
//! |-----------------------------------------------------|--------------|
//! | EVAL and variants, SCRIPT, FUNCTION, FCALL          | `eval`, `script`, `function`, `fcall` |
//! | `#!lua flags=...`                                   | `flags`      |
//! | function libraries, and their dump                  | `libraries`, `dump` |
//! | one run: bounds, KEYS and ARGV, the reply           | `execute`    |
//! | the per-thread cache of compiled code               | `compiled`   |
//! | a Lua VM with Redis's globals                       | `world`      |
//! | redis.call, and the other functions of `redis`      | `call`, `api` |
//! | conversion between Lua values and replies           | `convert`    |
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

pub(crate) use function::restore_stored;
pub(crate) use libraries::Libraries;
pub(crate) use sha1::Digits;
pub(crate) use sha1::hex as sha1_hex;
pub(crate) use table::TABLE;
