//! SIGTERM, SIGINT and SIGHUP. Touches the process's signal handlers and, at the second signal to stop, ends the process.

use keystead_core::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{failure, io_words};

/// SIGHUP, which reloads files. From now on it no longer ends the process.
///
/// # Errors
/// `config_invalid` when the system refuses.
pub fn hangups() -> Result<Signal> {
    listen(SignalKind::hangup())
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|e| {
        failure(
            format_args!("cannot listen for signals ({})", io_words(&e)),
            "check the limits of this process",
        )
    })
}

/// The signals that ask the server to stop.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts listening. From now on these signals no longer end the process.
    ///
    /// # Errors
    /// `config_invalid` when the system refuses.
    pub fn listen() -> Result<Signals> {
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal and returns its number.
    pub async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }

    /// Waits for the next signal and ends the process at once, with the exit code that the signal would have caused.
    pub async fn exit_at_next(mut self) {
        let number = self.next().await;
        // A shell reports a process that was ended by a signal as 128 plus the signal's number.
        std::process::exit(128 + number);
    }
}
