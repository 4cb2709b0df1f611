//! The real binary in a test: started on a free port in a directory of its own, stopped or killed by the test.
//!
//! ```no_run
//! use keystead_testkit::server::Launch;
//!
//! # fn main() -> Result<(), keystead_testkit::Failure> {
//! let mut server = Launch::new("target/debug/keystead").args(["--durability", "memory"]).start()?;
//! let health = server.url("/healthz");
//! assert!(server.stop()?.success());
//! # let _ = health;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here needs a runtime, and every wait has a deadline. A failure contains the server's output; when a test panics, the
//! output is printed.

mod launch;
mod output;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Checked, Failure};

pub use launch::Launch;
use output::Output;

/// How long a server may take to start or to stop.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A server that runs, or has run. It is killed when it is dropped.
pub struct Server {
    launch: Launch,
    running: Option<Child>,
    pid: u32,
    output: Arc<Output>,
    http: Option<SocketAddr>,
    resp: Option<SocketAddr>,
}

impl Server {
    fn start(launch: Launch) -> Checked<Server> {
        let (child, output) = launch.spawn()?;
        let pid = child.id();
        let mut server = Server { launch, running: Some(child), pid, output, http: None, resp: None };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Waits for the ready block.
    ///
    /// # Errors
    /// When it ends, or is not ready in time, with everything that it printed.
    pub fn wait_until_ready(&mut self) -> Checked {
        let deadline = self.launch.deadline();
        let ready = self.output.wait(deadline, |seen| seen.ready() || seen.exited);
        if !ready || !self.output.look(|seen| seen.ready()) {
            let ended = self.output.look(|seen| seen.exited);
            let status = self.end(Signal::KILL)?;
            return Err(match ended {
                true => self.failure(format_args!("it ended with {status} before it was ready")),
                false => self.failure(format_args!("no ready block within {deadline:?}")),
            });
        }
        (self.http, self.resp) = (self.address("http"), self.address("resp"));
        Ok(())
    }

    /// The address in the URL that the ready block has after this name.
    fn address(&self, name: &str) -> Option<SocketAddr> {
        self.line(name)?.split_once("://")?.1.parse().ok()
    }

    /// The address of the HTTP listener.
    ///
    /// # Errors
    /// When the ready block names none.
    pub fn http(&self) -> Checked<SocketAddr> {
        self.http.ok_or_else(|| self.failure("the ready block names no HTTP address"))
    }

    /// The address of the RESP listener.
    ///
    /// # Errors
    /// When the ready block names none.
    pub fn resp(&self) -> Checked<SocketAddr> {
        self.resp.ok_or_else(|| self.failure("the ready block names no RESP address"))
    }

    /// The URL of a path of the HTTP listener, such as `/healthz`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        match self.http {
            Some(address) => format!("http://{address}{path}"),
            None => path.to_owned(),
        }
    }

    /// What the ready block has after this name, for example the address of another listener.
    #[must_use]
    pub fn line(&self, name: &str) -> Option<String> {
        self.output.look(|seen| seen.line(name))
    }

    /// The process's id, also after it has ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The working directory of the server. It is kept over a restart and removed with this value.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.launch.dir()
    }

    /// Everything that was printed since the last start, on both streams.
    #[must_use]
    pub fn logs(&self) -> String {
        self.output.look(|seen| seen.log.clone())
    }

    /// Waits until this text has been printed.
    ///
    /// # Errors
    /// When the server has ended or the deadline passed without it.
    pub fn wait_for_log(&self, text: &str) -> Checked {
        let deadline = self.launch.deadline();
        self.output.wait(deadline, |seen| seen.log.contains(text) || seen.exited);
        if self.output.look(|seen| seen.log.contains(text)) {
            return Ok(());
        }
        Err(self.failure(format_args!("\"{text}\" was not printed within {deadline:?}")))
    }

    /// Whether it has not ended yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.is_some() && !self.output.look(|seen| seen.exited)
    }

    /// Stops it (SIGTERM), waits, and returns its exit status.
    ///
    /// # Errors
    /// When it does not end in time; it is killed then.
    pub fn stop(&mut self) -> Checked<ExitStatus> {
        self.end(Signal::TERM)
    }

    /// Kills it (SIGKILL): nothing is flushed.
    ///
    /// # Errors
    /// When it was not running.
    pub fn kill(&mut self) -> Checked<ExitStatus> {
        self.end(Signal::KILL)
    }

    /// Waits for it to end by itself and returns its exit status.
    ///
    /// # Errors
    /// When it does not end in time; it is killed then.
    pub fn wait(&mut self) -> Checked<ExitStatus> {
        self.reap()
    }

    /// Starts it again, in the same directory with the same arguments, on another free port. Stops it first if it runs.
    ///
    /// # Errors
    /// When it does not stop or start in time.
    pub fn restart(&mut self) -> Checked {
        self.begin_restart()?;
        self.wait_until_ready()
    }

    /// The same without waiting for the ready block. Until [`wait_until_ready`](Server::wait_until_ready), the addresses are those of the
    /// last start.
    ///
    /// # Errors
    /// When it does not stop in time, or cannot be started.
    pub fn begin_restart(&mut self) -> Checked {
        if self.running.is_some() {
            self.stop()?;
        }
        let (child, output) = self.launch.spawn()?;
        (self.pid, self.output, self.running) = (child.id(), output, Some(child));
        Ok(())
    }

    fn end(&mut self, signal: Signal) -> Checked<ExitStatus> {
        let Some(child) = &self.running else {
            return Err(self.failure("it is not running"));
        };
        // Until it is reaped below, its id cannot belong to another process.
        kill_process(Pid::from_child(child), signal).map_err(std::io::Error::from)?;
        self.reap()
    }

    fn reap(&mut self) -> Checked<ExitStatus> {
        let deadline = self.launch.deadline();
        let ended = self.output.wait(deadline, |seen| seen.exited);
        let Some(mut child) = self.running.take() else {
            return Err(self.failure("it is not running"));
        };
        if !ended {
            child.kill()?;
        }
        let status = child.wait()?;
        if !ended {
            return Err(self.failure(format_args!("it did not end within {deadline:?} and was killed")));
        }
        // What it printed last may still be in the pipe; a grandchild may hold it open for longer.
        self.output.wait(Duration::from_secs(1), |seen| seen.closed);
        Ok(status)
    }

    /// A failure with everything that was printed.
    #[track_caller]
    fn failure(&self, words: impl std::fmt::Display) -> Failure {
        let binary = self.launch.binary().display();
        Failure::new(format_args!("{binary} (pid {}): {words}; it printed\n{}", self.pid, self.logs()))
    }
}

impl Drop for Server {
    #[allow(clippy::print_stderr, reason = "a test that fails shows the server's output")]
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            // It may have ended by itself; there is no caller to report that to.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("output of the server (pid {}):\n{}", self.pid, self.logs());
        }
    }
}
