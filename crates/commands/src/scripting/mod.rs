//! Scripts: the table of this family.
//!
//! | To find                                             | open         |
//! |-----------------------------------------------------|--------------|
//! | EVAL and its kin, SCRIPT, FUNCTION, FCALL           | `eval`, `script`, `function`, `fcall` |
//! | `#!lua flags=...`                                   | `flags`      |
//! | libraries of functions, and their dump              | `libraries`, `dump` |
//! | one run: limits, KEYS and ARGV, what it answers     | `execute`    |
//! | what each thread keeps compiled                     | `compiled`   |
//! | a Lua state and its sandbox                         | `world`, `prelude.lua` |
//! | redis.call, and the rest of `redis`                 | `call`, `api` |
//! | values and errors between Lua and Rust              | `convert`, `raise` |
//! | patterns that could take for ever                   | `pattern`    |
//! | cjson, cmsgpack, struct, bit                        | `lib`        |
//!
//! Lua is C and does not exist on wasm32: there the family has no commands.

#[cfg(not(target_family = "wasm"))]
mod api;
#[cfg(not(target_family = "wasm"))]
mod call;
#[cfg(not(target_family = "wasm"))]
mod compiled;
#[cfg(not(target_family = "wasm"))]
mod convert;
#[cfg(not(target_family = "wasm"))]
mod dump;
#[cfg(not(target_family = "wasm"))]
mod eval;
#[cfg(not(target_family = "wasm"))]
mod execute;
#[cfg(not(target_family = "wasm"))]
mod fcall;
#[cfg(not(target_family = "wasm"))]
mod flags;
#[cfg(not(target_family = "wasm"))]
mod function;
#[cfg(not(target_family = "wasm"))]
mod lib;
#[cfg(not(target_family = "wasm"))]
mod libraries;
#[cfg(not(target_family = "wasm"))]
mod pattern;
#[cfg(not(target_family = "wasm"))]
mod raise;
#[cfg(not(target_family = "wasm"))]
mod random;
#[cfg(not(target_family = "wasm"))]
mod script;
#[cfg(not(target_family = "wasm"))]
mod sha1;
#[cfg(not(target_family = "wasm"))]
mod table;
#[cfg(all(test, not(target_family = "wasm")))]
mod tests;
#[cfg(not(target_family = "wasm"))]
mod text;
#[cfg(not(target_family = "wasm"))]
mod world;

#[cfg(not(target_family = "wasm"))]
pub(crate) use function::restore_kept;
#[cfg(not(target_family = "wasm"))]
pub(crate) use libraries::Libraries;
#[cfg(not(target_family = "wasm"))]
pub(crate) use sha1::Digits;
#[cfg(all(test, not(target_family = "wasm")))]
pub(crate) use sha1::hex as sha1_hex;
#[cfg(not(target_family = "wasm"))]
pub(crate) use table::TABLE;

#[cfg(target_family = "wasm")]
pub(crate) const TABLE: &[crate::spec::Spec] = &[];
