//! Which commands REST runs, and for whom. Pure.

use keystead_commands::ctx::{Dialect, Rights};
use keystead_commands::errors::Fail;
use keystead_commands::{Command, Spec, dispatch};

/// The error of a command without a name, in a pipeline.
pub const EMPTY: Fail = Fail::fixed("ERR empty pipeline command");

/// The row of a command that may run.
///
/// # Errors
/// Why it may not.
pub fn allowed(rights: Rights, command: &Command) -> std::result::Result<&'static Spec, Fail> {
    let args = command.args();
    if args.is_empty() {
        return Err(EMPTY);
    }
    let spec = dispatch::resolve_in(Dialect::Upstash, args)?;
    if !spec.over_rest() {
        return Err(unavailable(spec.full_name));
    }
    rights.denial(spec).map_or(Ok(spec), Err)
}

/// The error of a command that REST cannot run.
#[must_use]
pub fn unavailable(full_name: &str) -> Fail {
    let name = full_name.to_uppercase().replace('|', " ");
    Fail::text(format!("ERR Command is not available: '{name}'. It needs a connection of its own"))
}
