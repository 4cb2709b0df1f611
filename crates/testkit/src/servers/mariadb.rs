//! MariaDB, with a user that needs a password.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::{self, CERTIFICATE, KEY};
use super::{Kind, Site, ask, find_binary, nothing_to_join, run};
use crate::failure::{Checked, Failure};
use crate::setup::NotOpened;

/// The user of tests, who may do everything, and the password.
pub const LOGIN: [&str; 2] = ["tests", "a-password-of-the-tests"];

/// MariaDB.
pub static MARIADB: Kind = Kind {
    name: "mariadb",
    ports: 1,
    find,
    prepare,
    commands: |binary, site| vec![command(binary, site)],
    // It greets every connection with its protocol, 10.
    ready: |site| Box::pin(async { ask(site.port(), b"").await.get(4) == Some(&10) }),
    join: nothing_to_join,
};

/// The same, which takes connections with TLS only.
pub static MARIADB_TLS: Kind = Kind {
    name: "mariadb-tls",
    find: || {
        certificates::find()?;
        find()
    },
    prepare: |binary, site| {
        prepare(binary, site)?;
        certificates::make(&site.dir)
    },
    commands: |binary, site| {
        let mut command = command(binary, site);
        let file = |name: &str| site.dir.join(name).display().to_string();
        command.arg(format!("--ssl-cert={}", file(CERTIFICATE))).arg(format!("--ssl-key={}", file(KEY)));
        command.arg("--require-secure-transport=ON");
        vec![command]
    },
    ..MARIADB
};

fn find() -> Result<PathBuf, NotOpened> {
    let install = "apt install mariadb-server";
    // Debian's folder of servers is not in every PATH.
    let debian = PathBuf::from("/usr/sbin/mariadbd");
    let binary = if debian.is_file() { debian } else { find_binary("mariadb", &["mariadbd"], install)? };
    for program in ["mariadb-install-db", "mariadb"] {
        find_binary(program, &[program], install)?;
    }
    Ok(binary)
}

/// It starts as root only if it is asked to.
fn user() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}

fn prepare(_binary: &Path, site: &Site) -> Checked {
    let [user_name, password] = LOGIN;
    let users = format!(
        "CREATE USER IF NOT EXISTS {user_name}@'%' IDENTIFIED BY '{password}';\n\
         GRANT ALL ON *.* TO {user_name}@'%' WITH GRANT OPTION;\n"
    );
    std::fs::write(site.dir.join("users.sql"), users)?;
    let mut install = Command::new("mariadb-install-db");
    install.arg("--no-defaults").arg(format!("--datadir={}", site.dir.join("data").display()));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]).args(user());
    run(install.current_dir("/").env("TMPDIR", &site.dir))
}

fn command(binary: &Path, site: &Site) -> Command {
    let mut command = Command::new(binary);
    // A server that starts removes the temporary tables of others from a common directory.
    command.env("TMPDIR", &site.dir).arg("--no-defaults").args(user());
    command.arg(format!("--datadir={}", site.dir.join("data").display()));
    command.arg(format!("--init-file={}", site.dir.join("users.sql").display()));
    command.arg(format!("--port={}", site.port()));
    // The path of the socket is relative to the data: it may not be long.
    command.args(["--bind-address=127.0.0.1", "--socket=mariadb.sock", "--pid-file=mariadb.pid"]);
    command.args(["--skip-log-bin", "--skip-name-resolve", "--innodb-buffer-pool-size=32M"]);
    // A killed process loses nothing that it wrote; only a power loss would.
    command.args(["--innodb-flush-log-at-trx-commit=2", "--max-connections=200"]);
    command
}

/// Runs SQL in a database (or none), and returns the rows, with `|` between columns and nothing for NULL.
///
/// # Errors
/// With the message of the client.
pub fn sql(site: &Site, database: &str, statement: &str) -> Checked<String> {
    let [user_name, password] = LOGIN;
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "-h", "127.0.0.1", "-P", &site.port().to_string(), "-u", user_name]);
    command.args(["--default-character-set=utf8mb4", "-NBr", "-D", database, "-e", statement]);
    let output = command.env("MYSQL_PWD", password).output()?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr)));
    }
    let cell = |cell: &str| if cell == "NULL" { String::new() } else { cell.to_owned() };
    let line = |line: &str| line.split('\t').map(cell).collect::<Vec<_>>().join("|");
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(line).collect::<Vec<_>>().join("\n"))
}
