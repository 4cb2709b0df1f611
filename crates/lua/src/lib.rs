//! Lua 5.1 for untrusted scripts, in safe Rust.
//!
//! It is made for a server that runs scripts on its own thread: every run has a memory budget and a time budget, which cover the compiler,
//! the libraries and the host's functions, and every run begins with the same state. There is no bytecode to load, no access to files or
//! processes, and no `unsafe`. Error messages, the order of tables and the text of numbers are those of Lua 5.1.
//!
//! | To find                                             | open        |
//! |-----------------------------------------------------|-------------|
//! | values and objects                                  | `value`, `heap`, `strings`, `table` |
//! | the compiler                                        | `compile`   |
//! | the virtual machine                                 | `vm`        |
//! | Lua's libraries                                     | `stdlib`    |
//! | parsing and printing of numbers, as in C            | [`number`]  |
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

pub use error::{Error, Result, SourcePosition, Stop};
pub use value::{FuncId, NativeId, StrId, TableId, ThreadId, Value};
pub use vm::{Args, Host, NativeFn, Script, Vm};
