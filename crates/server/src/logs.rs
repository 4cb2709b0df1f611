//! The log: lines on stderr, quiet by default. Touches the process-wide subscriber and panic hook.
//!
//! Everything that a server says on stderr after its start is a log line, also a panic, so that `--log
//! json` can be parsed line by line. Only the last line of one that could not end well is for people.

use std::io::{IsTerminal, stderr};

use crate::settings::{LogFormat, Settings};

/// Starts the log. A second call in the same process changes nothing.
pub fn start(settings: &Settings) {
    let lines = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_max_level(settings.log_level)
        .with_target(false)
        .with_ansi(stderr().is_terminal());
    // Tests start several servers in one process; the first one's log serves them all.
    let _ = match settings.log {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, why = panic.payload_as_str(), "a task panicked");
    }));
}
