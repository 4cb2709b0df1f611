//! Every bound of this crate. Most are Lua 5.1's own, so that the same scripts fail with the same errors.

/// Calls of Lua functions within one another. More is the error `stack overflow`.
pub const CALLS_MAX: usize = 20_000;

/// Calls through Rust (metamethods, `pcall`, `table.sort`, coroutines) within one another. More is the error `C stack overflow`.
pub const NATIVE_CALLS_MAX: usize = 200;

/// Arguments or results of one call (`unpack`, `string.byte`, captures). More is an error of that function.
pub const VALUES_MAX: usize = 7_900;

/// Values on the stack of one coroutine. More is the error `stack overflow`.
pub const STACK_MAX: usize = 1_000_000;

/// Levels of blocks, expressions and functions in the text of a chunk. More is `chunk has too many syntax levels`.
pub const SYNTAX_LEVELS_MAX: usize = 195;

/// Local variables of one function. More is a syntax error.
pub const LOCALS_MAX: usize = 200;

/// Upvalues of one function. More is a syntax error.
pub const UPVALUES_MAX: usize = 60;

/// Registers of one function. More is `function or expression too complex`.
pub const REGISTERS_MAX: usize = 250;

/// Constants of one function. More is `constant table overflow`.
pub const CONSTANTS_MAX: usize = (1 << 18) - 1;

/// Metatables in a chain of `__index` or `__newindex`. More is `loop in gettable` or `loop in settable`.
pub const META_LOOP_MAX: usize = 100;

/// Captures of a pattern. More is `too many captures`.
pub const CAPTURES_MAX: usize = 32;

/// Parts of a pattern that are being matched within one another. More is `pattern too complex`.
pub const MATCH_DEPTH_MAX: usize = 200;

/// Units of work (about an instruction each) between two calls of [`Host::is_over`](crate::Host::is_over).
pub const WORK_BETWEEN_CHECKS: i64 = 10_000;

/// Bytes of garbage before the first collection of a run.
pub const GARBAGE_MIN_BYTES: usize = 1024 * 1024;
