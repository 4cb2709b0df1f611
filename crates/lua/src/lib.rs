//! Lua 5.1 for scripts of strangers, in safe Rust.
//!
//! It is made for a server that runs scripts on its own thread: every run has one budget of bytes and one of time, which cover the compiler,
//! the libraries and the host's functions alike, and every run begins with the same state. There is no bytecode that could be loaded, nothing
//! that reaches files or processes, and no `unsafe`. Errors, the order of tables and the texts of numbers are those of Lua 5.1.
//!
//! | To find                                             | open        |
//! |-----------------------------------------------------|-------------|
//! | values, and what they refer to                      | `value`, `heap`, `strings`, `table` |
//! | from text to instructions                           | `compile`   |
//! | the machine                                         | `vm`        |
//! | Lua's libraries                                     | `stdlib`    |
//! | numbers as C reads and writes them                  | [`number`]  |
//! | every bound                                         | [`bounds`]  |
//!
//! ```
//! use keystead_lua::{Args, Host, Result, Value, Vm};
//!
//! struct Quiet;
//! impl Host for Quiet {
//!     fn is_over(&mut self) -> bool { false }
//!     fn call(&mut self, _: &mut Vm, _: u32, _: Args) -> Result<usize> { Ok(0) }
//! }
//!
//! let mut vm = Vm::new(1024 * 1024).expect("it fits");
//! let script = vm.compile(&mut Quiet, b"return 6 * 7", b"@answer").expect("it fits").expect("it is Lua");
//! assert_eq!(vm.run(&mut Quiet, script.value(), &[]).expect("it runs"), [Value::Num(42.0)]);
//! vm.reset();
//! ```

pub mod bounds;
mod compile;
mod error;
mod heap;
pub mod number;
mod stdlib;
mod strings;
mod table;
mod value;
mod vm;

pub use error::{Error, Place, Result, Stop};
pub use value::{FuncId, NativeId, StrId, TableId, ThreadId, Value};
pub use vm::{Args, Host, NativeFn, Script, Vm};
