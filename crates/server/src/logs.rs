//! The log: lines on stderr or in a file. Touches the process-wide subscriber and panic hook, and the log file.
//!
//! After the start, everything on stderr is a log line, also a panic, so that `--log json` can be parsed line by line. The only
//! exception is the last line of a server that fails to stop cleanly.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Stderr, Write, stderr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use keystead_core::Result;

use crate::failure::{failure, io_words};
use crate::settings::{LogFormat, Settings};

/// For the owner only: a log may name keys and clients.
const FILE_MODE: u32 = 0o600;

/// The log file, if there is one: a process has one log.
static FILE: OnceLock<LogFile> = OnceLock::new();

struct LogFile {
    path: PathBuf,
    /// The file that is being written to.
    open: Mutex<Arc<File>>,
}

/// Where a line goes.
enum Destination {
    Stderr(Stderr),
    File(Arc<File>),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Stderr(stderr) => stderr.write(bytes),
            Destination::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Stderr(stderr) => stderr.flush(),
            Destination::File(file) => file.flush(),
        }
    }
}

fn destination() -> Destination {
    match FILE.get() {
        None => Destination::Stderr(stderr()),
        Some(log) => Destination::File(Arc::clone(&log.open.lock().unwrap_or_else(PoisonError::into_inner))),
    }
}

/// Starts the log. A second call in the same process changes nothing.
///
/// # Errors
/// `config_invalid` with the one line for the user when the log file cannot be opened.
pub fn start(settings: &Settings) -> Result<()> {
    if let Some(path) = &settings.log_file {
        let open = Mutex::new(Arc::new(open(path)?));
        let _ = FILE.set(LogFile { path: path.clone(), open });
    }
    let lines = tracing_subscriber::fmt()
        .with_writer(destination)
        .with_max_level(settings.log_level)
        .with_target(false)
        .with_ansi(settings.log_file.is_none() && stderr().is_terminal());
    // Tests start several servers in one process, which share the log of the first.
    let _ = match settings.log {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, why = panic.payload_as_str(), "a task panicked");
    }));
    Ok(())
}

/// Reopens the log file, after it was moved by log rotation.
///
/// # Errors
/// When it cannot be opened; the log continues in the file that was open.
pub fn reopen() -> Result<()> {
    let Some(log) = FILE.get() else { return Ok(()) };
    let new = Arc::new(open(&log.path)?);
    *log.open.lock().unwrap_or_else(PoisonError::into_inner) = new;
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path).map_err(|e| {
        failure(
            format_args!("--log-file {} cannot be opened ({})", path.display(), io_words(&e)),
            "name a file that this user may write, or none to log to stderr",
        )
    })
}
