//! A server of one test, which may kill, pause and restart it. It is killed when it is dropped.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Kind, Site, free_ports, until_ready};
use crate::failure::{Checked, Failure};
use crate::setup::NotOpened;

/// A server of one test.
pub struct OwnServer {
    kind: &'static Kind,
    site: Site,
    /// With their places among the commands of the kind.
    processes: Vec<(usize, Child)>,
    /// Removed after the processes have ended.
    _dir: TempDir,
}

impl OwnServer {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// `Missing` when it is not installed; `Broken` when it does not start.
    pub async fn start(kind: &'static Kind) -> Result<OwnServer, NotOpened> {
        (kind.find)()?;
        let dir = TempDir::with_prefix(format!("keystead-{}-", kind.name)).map_err(Failure::from)?;
        let site = Site { dir: dir.path().to_owned(), ports: free_ports(kind.ports)? };
        let mut server = OwnServer { kind, site, processes: Vec::new(), _dir: dir };
        (kind.prepare)(&(kind.find)()?, &server.site)?;
        server.spawn().await?;
        Ok(server)
    }

    async fn spawn(&mut self) -> Result<(), NotOpened> {
        let binary = (self.kind.find)()?;
        for (i, mut command) in (self.kind.commands)(&binary, &self.site).into_iter().enumerate() {
            if self.processes.iter().any(|(running, _)| *running == i) {
                continue;
            }
            let path = self.site.dir.join(format!("log-{i}"));
            let log =
                std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(Failure::from)?;
            let both = log.try_clone().map_err(Failure::from)?;
            command.stdin(Stdio::null()).stdout(both).stderr(log);
            self.processes.push((i, command.spawn().map_err(Failure::from)?));
        }
        Ok(until_ready(self.kind, &self.site).await?)
    }

    /// Where it runs.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Kills it (SIGKILL): nothing is flushed.
    ///
    /// # Errors
    /// When a process cannot be killed.
    pub fn kill(&mut self) -> Checked {
        for (_, mut process) in self.processes.drain(..) {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Kills one of its processes, by its place among the commands of the kind.
    ///
    /// # Errors
    /// When it does not run, or cannot be killed.
    pub fn kill_one(&mut self, place: usize) -> Checked {
        let running = self.processes.iter().position(|(running, _)| *running == place);
        let running = running.ok_or_else(|| Failure::new(format_args!("no process {place} runs")))?;
        let (_, mut process) = self.processes.swap_remove(running);
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Starts the processes again that were killed alone, and waits until all are ready together.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn restart_killed(&mut self) -> Checked {
        self.spawn().await.map_err(Failure::new)
    }

    /// Starts it again, in the same directory, on the same ports.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Checked {
        self.kill()?;
        self.spawn().await.map_err(Failure::new)
    }

    /// Stops all its processes (SIGSTOP): connections stay open and nothing replies.
    ///
    /// # Errors
    /// When a process cannot be signalled.
    pub fn pause(&self) -> Checked {
        self.signal(Signal::STOP)
    }

    /// Continues them (SIGCONT).
    ///
    /// # Errors
    /// When a process cannot be signalled.
    pub fn resume(&self) -> Checked {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Checked {
        for (_, process) in &self.processes {
            kill_process(Pid::from_child(process), signal).map_err(std::io::Error::from)?;
        }
        Ok(())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // There is no caller to report a process to that has ended by itself.
        let _ = self.kill();
    }
}
