//! The `keystead` binary. Everything it does is in the library, where tests can reach it.

use std::process::ExitCode;

use keystead_server::allocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    keystead_server::cli::main(std::env::args_os())
}
