//! PostgreSQL, as a user that is not root: it refuses to run as root.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::{self, CERTIFICATE, KEY};
use super::{Kind, Site, ask, find_binary, nothing_to_join, run};
use crate::failure::{Checked, Failure};
use crate::setup::NotOpened;

/// The password of the user `postgres` in tests.
pub const PASSWORD: &str = "a-password-of-the-tests";

/// Debian's user and group without rights.
const NOBODY: u32 = 65_534;

/// Waits until no process of an earlier server is left in the data directory ($0): they end a moment after it was killed. Then it becomes
/// the server.
const START: &str =
    r#"while ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -qF -- "-> $0"; do sleep 0.05; done; exec "$@""#;

/// The first message of a client: its length, the protocol 3.0, the user, and the end.
const STARTUP: &[u8] = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";

/// PostgreSQL, which asks for a password.
pub static POSTGRES: Kind = Kind {
    name: "postgres",
    ports: 1,
    find,
    prepare,
    commands: |binary, site| vec![command(binary, site, site.port())],
    ready: |site| Box::pin(accepts(site.port())),
    join: nothing_to_join,
};

/// The same, which takes connections with TLS only.
pub static POSTGRES_TLS: Kind = Kind {
    name: "postgres-tls",
    ports: 1,
    find: || {
        certificates::find()?;
        find()
    },
    prepare: |binary, site| {
        prepare(binary, site)?;
        let data = site.dir.join("data");
        certificates::make(&site.dir)?;
        for name in [CERTIFICATE, KEY] {
            std::fs::copy(site.dir.join(name), data.join(name))?;
            std::fs::set_permissions(data.join(name), Permissions::from_mode(0o600))?;
            if is_root() {
                chown(data.join(name), Some(NOBODY), Some(NOBODY))?;
            }
        }
        let rule = "hostssl all all 127.0.0.1/32 scram-sha-256\n";
        Ok(std::fs::write(data.join("pg_hba.conf"), rule)?)
    },
    commands: |binary, site| {
        let mut command = command(binary, site, site.port());
        let (certificate, key) = (format!("ssl_cert_file={CERTIFICATE}"), format!("ssl_key_file={KEY}"));
        command.args(["-c", "ssl=on", "-c", &certificate, "-c", &key]);
        vec![command]
    },
    // It rejects a client without TLS, once it has started.
    ready: |site| Box::pin(async { ask(site.port(), STARTUP).await.windows(5).any(|five| five == b"28000") }),
    join: nothing_to_join,
};

/// The server, on this port.
pub(super) fn command(binary: &Path, site: &Site, port: u16) -> Command {
    let data = site.dir.join("data");
    let mut command = as_nobody("/bin/sh");
    command.args(["-c", START]).arg(&data).arg(binary).arg("-D").arg(&data);
    command.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    // A killed process loses nothing that it wrote; only a power loss would.
    for setting in ["unix_socket_directories=", "fsync=off", "max_connections=300"] {
        command.args(["-c", setting]);
    }
    command.current_dir("/");
    command
}

pub(super) fn find() -> Result<PathBuf, NotOpened> {
    let install = "apt install postgresql";
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql").map_or(Vec::new(), |folder| {
        folder
            .flatten()
            .map(|entry| entry.path().join("bin/postgres"))
            .filter(|path| path.is_file())
            .collect()
    });
    versions.sort();
    let binary = match versions.pop() {
        Some(binary) => binary,
        None => find_binary("postgres", &["postgres"], install)?,
    };
    // Its programs stand beside it, also where a link leads to it.
    let binary = binary.canonicalize().map_err(Failure::from)?;
    if !binary.with_file_name("initdb").is_file() {
        return Err(NotOpened::missing(format_args!("no initdb beside {} ({install})", binary.display())));
    }
    if is_root() {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().map_err(Failure::from)?;
        let closed = target
            .ancestors()
            .find(|folder| std::fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o001 == 0));
        if let Some(folder) = closed {
            let folder = folder.display();
            return Err(NotOpened::missing(format_args!(
                "PostgreSQL does not run as root, and other users cannot enter {folder}"
            )));
        }
    }
    Ok(binary)
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command that runs as this user, or as nobody if this is root.
pub(super) fn as_nobody(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]);
    command.arg(program);
    command
}

pub(super) fn prepare(binary: &Path, site: &Site) -> Checked {
    let (data, password) = (site.dir.join("data"), site.dir.join("password"));
    std::fs::set_permissions(&site.dir, Permissions::from_mode(0o755))?;
    std::fs::create_dir_all(&data)?;
    std::fs::write(&password, PASSWORD)?;
    if is_root() {
        chown(&data, Some(NOBODY), Some(NOBODY))?;
    }
    let mut initdb = as_nobody(binary.with_file_name("initdb"));
    initdb.arg("-D").arg(&data).arg("--pwfile").arg(&password).current_dir("/");
    initdb.args(["-U", "postgres", "-A", "scram-sha-256", "--no-sync", "-E", "UTF8", "--locale=C"]);
    run(&mut initdb)
}

/// What listens on this port asks a client for a password: it has started, and recovered.
pub(super) async fn accepts(port: u16) -> bool {
    ask(port, STARTUP).await.first() == Some(&b'R')
}

/// Runs SQL as its superuser and returns the rows, with `|` between columns.
///
/// # Errors
/// With the message of psql.
pub fn sql(site: &Site, statement: &str) -> Checked<String> {
    sql_in(site, "postgres", statement)
}

/// The same in a database.
///
/// # Errors
/// With the message of psql.
pub fn sql_in(site: &Site, database: &str, statement: &str) -> Checked<String> {
    let binary = find().map_err(Failure::new)?.with_file_name("psql");
    let mut command = Command::new(binary);
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &site.port().to_string(),
        "-U",
        "postgres",
        "-d",
        database,
        "-AtqX",
        "-c",
        statement,
    ]);
    let output = command.env("PGPASSWORD", PASSWORD).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(Failure::new(String::from_utf8_lossy(&output.stderr))),
    }
}
