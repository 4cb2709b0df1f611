//! How a server is started: its binary, arguments and directory.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::output::Output;
use super::{DEADLINE, Server};
use crate::failure::{Checked, Failure};

/// Listeners use a free port unless an argument says otherwise. A new listener is one row.
const FREE_PORTS: [(&str, &str); 2] = [("KEYSTEAD_HTTP", "127.0.0.1:0"), ("KEYSTEAD_RESP", "127.0.0.1:0")];

/// The prefix of settings in the environment. The server does not inherit those of the test process.
const SETTING_PREFIX: &str = "KEYSTEAD_";

/// A server that is about to start.
#[derive(Clone)]
pub struct Launch {
    binary: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<Arc<TempDir>>,
    deadline: Duration,
    address_space: Option<u64>,
    open_files: Option<u64>,
}

impl Launch {
    /// A server from this binary. In a crate's own tests that is `env!("CARGO_BIN_EXE_keystead")`.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let env = FREE_PORTS.map(|(name, value)| (name.into(), value.into())).to_vec();
        Launch {
            binary: binary.into(),
            args: Vec::new(),
            env,
            dir: None,
            deadline: DEADLINE,
            address_space: None,
            open_files: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Launch::arg)
    }

    /// Sets a variable of the server's environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// How long it may take to start or stop, if not [`DEADLINE`].
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Limits the server's address space (`RLIMIT_AS`): a server that exceeds it ends, whatever the memory of the machine.
    #[must_use]
    pub fn address_space(mut self, bytes: u64) -> Self {
        self.address_space = Some(bytes);
        self
    }

    /// Limits the open files and sockets of the server (`RLIMIT_NOFILE`), and with them its connections.
    #[must_use]
    pub fn open_files(mut self, count: u64) -> Self {
        self.open_files = Some(count);
        self
    }

    /// Starts it and waits for the ready block.
    ///
    /// # Errors
    /// When it does not start, ends, or is not ready in time, with everything that it printed.
    pub fn start(mut self) -> Checked<Server> {
        self.dir = Some(Arc::new(TempDir::with_prefix("keystead-test-")?));
        Server::start(self)
    }

    pub(super) fn spawn(&self) -> Checked<(Child, Arc<Output>)> {
        let mut command = self.command();
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(SETTING_PREFIX) {
                command.env_remove(name);
            }
        }
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        // One pipe for both streams, so that what was printed first is read first.
        let (printed, stream) = std::io::pipe()?;
        command.current_dir(self.dir()).stdin(Stdio::null()).stdout(stream.try_clone()?).stderr(stream);
        let child = command
            .spawn()
            .map_err(|e| Failure::new(format_args!("cannot start {}: {e}", self.binary.display())))?;
        // It holds the write end open.
        drop(command);
        let output = Output::follow(&child, printed)?;
        Ok((child, output))
    }

    /// The binary, behind a shell that sets its limits first: set from outside, they would come after the process has started.
    fn command(&self) -> Command {
        if self.address_space.is_none() && self.open_files.is_none() {
            return Command::new(&self.binary);
        }
        let limit = |flag: &str, most: Option<u64>| {
            most.map_or(String::new(), |most| format!("ulimit -{flag} {most} && "))
        };
        let (kibibytes, files) =
            (limit("v", self.address_space.map(|bytes| bytes / 1024)), limit("n", self.open_files));
        let mut command = Command::new("/bin/sh");
        // jemalloc returns memory and keeps its addresses. The limit is for memory.
        command.env("_RJEM_MALLOC_CONF", "retain:false");
        command.args(["-c", &format!("{kibibytes}{files}exec \"$0\" \"$@\"")]).arg(&self.binary);
        command
    }

    pub(super) fn binary(&self) -> &Path {
        &self.binary
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.as_ref().map_or_else(|| Path::new("."), |dir| dir.path())
    }
}
