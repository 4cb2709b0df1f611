//! Child processes of this test: the test binary itself, started again with `--child`.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use keystead_core::{ShardId, Stopwatch};

use crate::load::ledger::{Ledger, Truth, Verdict};
use crate::load::writer::Plan;

/// The argument that makes this binary a child.
pub(crate) const CHILD: &str = "--child";

/// A command that starts this binary as the child `name`.
pub(crate) fn command(name: &str, args: &[String]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(CHILD).arg(name).args(args);
    command
}

/// A running writer.
pub(crate) struct Writer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    pub(crate) is_ready: bool,
}

impl Writer {
    pub(crate) fn start(plan: &Plan, environment: &[(&str, String)]) -> Self {
        let mut command = command("writer", &plan.to_args());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (said, lines) = channel();
        // Ends with the child's output.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Writer { child, input, lines, is_ready: false }
    }

    /// Reads its output for `span`, or until the child has ended; returns whether it has.
    pub(crate) fn listen(&mut self, span: Duration, ledger: &mut Ledger, truth: &mut Truth) -> bool {
        let watch = Stopwatch::start();
        loop {
            let left = span.saturating_sub(watch.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.hear(&line, ledger, truth),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    /// Reads its output until it writes, or has ended.
    pub(crate) fn listen_until_ready(&mut self, ledger: &mut Ledger, truth: &mut Truth) {
        let watch = Stopwatch::start();
        while !self.is_ready && !self.listen(Duration::from_millis(1), ledger, truth) {
            assert!(watch.elapsed().as_secs() < 60, "the writer does not become ready");
        }
    }

    /// Kills it, and reads its remaining output.
    pub(crate) fn kill(mut self, ledger: &mut Ledger, truth: &mut Truth) {
        self.child.kill().unwrap();
        self.end(ledger, truth);
    }

    /// Makes it close the database and end.
    pub(crate) fn close(self, ledger: &mut Ledger, truth: &mut Truth) {
        let _ = self.input.as_ref().map(|mut input| writeln!(input, "close"));
        self.end(ledger, truth);
    }

    /// Waits for its end, and reads its remaining output.
    pub(crate) fn end(mut self, ledger: &mut Ledger, truth: &mut Truth) {
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(60)) {
            self.hear(&line, ledger, truth);
        }
        self.child.wait().unwrap();
    }

    fn hear(&mut self, line: &str, ledger: &mut Ledger, truth: &mut Truth) {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers = || -> Vec<u64> { rest.split(' ').map(|n| n.parse().unwrap()).collect() };
        match (kind, &numbers as &dyn Fn() -> Vec<u64>) {
            ("R", numbers) => {
                let [shard, revision] = numbers()[..] else { panic!("{line}") };
                ledger.compare_revision(ShardId(shard as usize), revision).unwrap();
            }
            ("S", numbers) => {
                let [group, digest, revision] = numbers()[..] else { panic!("{line}") };
                let (group, acked) = (group as u32, ledger.acked()[group as usize]);
                let verdict = ledger.compare(truth, group, digest, revision);
                assert!(
                    matches!(verdict, Verdict::Kept(_)),
                    "group {group} after {acked} acknowledged operations: {verdict:?}; it should be\n{}",
                    truth.text(group, acked)
                );
            }
            ("A", numbers) => {
                let [group, n, revision] = numbers()[..] else { panic!("{line}") };
                ledger.acknowledge(group as u32, n, revision);
            }
            ("ready", _) => {
                self.is_ready = true;
                let numbers: Vec<String> = ledger.acked().iter().map(u64::to_string).collect();
                // It may have been killed meanwhile.
                let _ = self.input.as_ref().map(|mut input| writeln!(input, "{}", numbers.join(" ")));
            }
            _ => panic!("the writer says: {line}"),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tries until the directory is free: a child that another test of this process is just forking has this process's files, and
/// so its locks, until it calls exec.
pub(crate) fn when_free<T>(mut try_it: impl FnMut() -> keystead_core::Result<T>) -> T {
    let watch = Stopwatch::start();
    loop {
        match try_it() {
            Ok(value) => return value,
            Err(error) if error.message().contains("is open in") && watch.elapsed().as_secs() < 30 => {
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A temporary directory, on a file system in memory where there is one; for tests that do not test the disk.
pub(crate) fn quick_dir() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}
