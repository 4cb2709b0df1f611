//! One server of a kind for all processes of a test run: a test runner may start each case as a process of its own.
//!
//! The server is the child of a small shell script, which stops it when no process has used it for some seconds. A user holds a
//! shared lock on a file for as long as it runs; the script looks whether it can get the exclusive lock. So the server is stopped
//! by its parent, however the tests ended.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use super::{Kind, Site, free_ports, until_ready};
use crate::failure::{Checked, Failure};
use crate::setup::NotOpened;

/// Runs a server ("$@") until it ends or the lock on "$1" is free for three seconds. It removes "$2" first, so that no new user
/// takes a server that is about to stop.
const GUARD: &str = r#"
users=$1; site=$2; log=$3; shift 3
"$@" </dev/null >>"$log" 2>&1 &
pid=$!
idle=0
while kill -0 $pid 2>/dev/null; do
  sleep 1
  if flock -n -x "$users" true; then idle=$((idle+1)); else idle=0; fi
  if [ $idle -ge 3 ] && flock -n -x "$users" rm -f "$site"; then break; fi
done
kill $pid 2>/dev/null
wait $pid
"#;

/// A server that other processes use too.
pub struct SharedServer {
    site: Site,
    /// Held for as long as the process uses the server.
    _users: File,
}

impl SharedServer {
    /// The server of a kind; it is started if it does not run.
    ///
    /// # Errors
    /// `Missing` when it is not installed; `Broken` when it does not start.
    pub async fn get(kind: &'static Kind) -> Result<SharedServer, NotOpened> {
        let binary = (kind.find)()?;
        let folder = folder(kind)?;
        std::fs::create_dir_all(&folder).map_err(Failure::from)?;
        let starting = lock(&folder.join("starting"), FlockOperation::LockExclusive).await?;
        let users = lock(&folder.join("users"), FlockOperation::LockShared).await?;
        let site = match running(kind, &folder).await {
            Some(site) => site,
            None => start(kind, &binary, &folder).await?,
        };
        drop(starting);
        Ok(SharedServer { site, _users: users })
    }

    /// Where it runs.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }
}

/// The folder of a kind: one for each build of the repository, so that runs in two checkouts do not meet.
fn folder(kind: &Kind) -> Checked<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/servers");
    std::fs::create_dir_all(&root)?;
    Ok(root.canonicalize()?.join(kind.name))
}

/// Takes a lock. It may have to wait for a server that is being started, so it blocks on a thread of its own.
async fn lock(path: &Path, operation: FlockOperation) -> Checked<File> {
    let path = path.to_owned();
    let locked = tokio::task::spawn_blocking(move || {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        flock(&file, operation)?;
        Ok::<_, std::io::Error>(file)
    });
    Ok(locked.await.map_err(Failure::new)??)
}

/// The server that runs already, if it does and is ready.
async fn running(kind: &Kind, folder: &Path) -> Option<Site> {
    let text = std::fs::read_to_string(folder.join("site")).ok()?;
    let mut lines = text.lines();
    let dir = PathBuf::from(lines.next()?);
    let ports = lines.map(|line| line.parse().ok()).collect::<Option<Vec<u16>>>()?;
    let site = Site { dir, ports };
    (kind.ready)(&site).await.then_some(site)
}

async fn start(kind: &'static Kind, binary: &Path, folder: &Path) -> Checked<Site> {
    let dir = folder.join("data");
    // What an earlier server has left.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let site = Site { dir, ports: free_ports(kind.ports)? };
    (kind.prepare)(binary, &site)?;
    for (i, command) in (kind.commands)(binary, &site).into_iter().enumerate() {
        guard(&command, folder, &site.dir.join(format!("log-{i}")))?;
    }
    until_ready(kind, &site).await?;
    let ports = site.ports.iter().map(|port| format!("\n{port}"));
    let text = format!("{}{}", site.dir.display(), ports.collect::<String>());
    std::fs::write(folder.join("site"), text)?;
    Ok(site)
}

fn guard(command: &Command, folder: &Path, log: &Path) -> Checked {
    let mut guard = Command::new("/bin/sh");
    guard.args(["-c", GUARD, "guard"]).arg(folder.join("users")).arg(folder.join("site")).arg(log);
    guard.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guard.env(name, value),
            None => guard.env_remove(name),
        };
    }
    guard.current_dir(command.get_current_dir().unwrap_or(folder));
    // It outlives the test: it has a group of its own, and holds none of its streams.
    guard.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    guard.spawn()?;
    Ok(())
}
