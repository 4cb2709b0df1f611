//! The `keystead` binary. Everything it does is in the library, where tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    keystead_server::cli::main(std::env::args_os())
}
