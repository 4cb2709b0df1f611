//! The output and the end of a server: threads read it and wake waiters.

use std::io::{BufRead, BufReader, PipeReader};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::failure::Checked;

/// The most output that is kept. Beyond it the older half is dropped.
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How the ready block's first line ends.
const FIRST_LINE: &str = " is ready";

/// The name of its last line.
const LAST_LINE: &str = "try";

/// What was read from a server so far.
#[derive(Default)]
pub(super) struct Seen {
    /// Standard output and standard error, a line at a time, in the order in which they were printed.
    pub(super) log: String,
    /// The first line of the ready block was printed.
    begun: bool,
    /// The other lines of the ready block: name and value.
    ready_block: Vec<(String, String)>,
    /// Everything that was printed has been read.
    pub(super) closed: bool,
    /// The process has ended; it is not yet reaped.
    pub(super) exited: bool,
}

impl Seen {
    /// Whether the whole ready block was printed.
    pub(super) fn ready(&self) -> bool {
        self.ready_block.iter().any(|(name, _)| name == LAST_LINE)
    }

    /// The value after this name in the ready block.
    pub(super) fn line(&self, name: &str) -> Option<String> {
        self.ready_block.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    }

    fn take(&mut self, line: &str) {
        self.begun |= line.trim_end().ends_with(FIRST_LINE);
        if self.begun && !self.ready() {
            self.ready_block.extend(ready_line(line));
        }
        self.log.push_str(line);
        if !line.ends_with('\n') {
            self.log.push('\n');
        }
        if self.log.len() > LOG_BYTES_MAX {
            let from = self.log.ceil_char_boundary(LOG_BYTES_MAX / 2);
            self.log.drain(..from);
        }
    }
}

/// A line of the ready block is two spaces, a name, and a value.
fn ready_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("  ")?.trim_end().split_once("  ")?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_name.then(|| (name.to_owned(), value.trim_start().to_owned()))
}

/// What a server prints, shared with the threads that follow it. They end with the process and its streams.
#[derive(Default)]
pub(super) struct Output {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Output {
    /// Follows a child that prints to this pipe.
    pub(super) fn follow(child: &Child, printed: PipeReader) -> Checked<Arc<Output>> {
        let output = Arc::new(Output::default());
        output.read(printed)?;
        let (pid, follower) = (Pid::from_child(child), Arc::clone(&output));
        thread::Builder::new().name("server-exit".into()).spawn(move || {
            // It is not reaped here, so that its id is not reused until the owner of the server reaps it.
            let wait = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            while matches!(wait(), Err(Errno::INTR)) {}
            follower.change(|seen| seen.exited = true);
        })?;
        Ok(output)
    }

    fn read(self: &Arc<Self>, printed: PipeReader) -> Checked {
        let output = Arc::clone(self);
        thread::Builder::new().name("server-output".into()).spawn(move || {
            let (mut from, mut line) = (BufReader::new(printed), Vec::new());
            while from.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                output.change(|seen| seen.take(&String::from_utf8_lossy(&line)));
                line.clear();
            }
            output.change(|seen| seen.closed = true);
        })?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// What was read so far.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.lock())
    }

    /// Waits until the condition holds. Returns whether it does.
    pub(super) fn wait(&self, deadline: Duration, holds: impl Fn(&Seen) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), deadline, |seen| !holds(seen));
        let (seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
        holds(&seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_block_is_understood_and_other_lines_are_not() {
        let mut seen = Seen::default();
        seen.take("  http        http://wrong:1\n");
        for line in
            ["keystead 0.1.0 is ready\n", "  http        http://127.0.0.1:8080\n", "  a line  of a log\n"]
        {
            seen.take(line);
        }
        assert!(!seen.ready());
        seen.take("  try         curl -s http://127.0.0.1:8080/healthz\n");
        seen.take("  http        http://late:1\n");
        assert!(seen.ready());
        assert_eq!(seen.line("http").as_deref(), Some("http://127.0.0.1:8080"));
        assert_eq!(seen.line("try").as_deref(), Some("curl -s http://127.0.0.1:8080/healthz"));
        assert_eq!(seen.log.lines().count(), 6);
    }

    #[test]
    fn the_log_is_bounded() {
        let mut seen = Seen::default();
        let line = "é".repeat(1000);
        for _ in 0..10_000 {
            seen.take(&line);
        }
        assert!(seen.log.len() <= LOG_BYTES_MAX && seen.log.len() > LOG_BYTES_MAX / 4);
    }
}
